//! A request body as a blocking reader, through a bounded channel: neither side runs ahead, nothing is held whole.

use std::io::{self, Read};

use actix_web::web::{Bytes, Payload};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

/// Chunks under way between the two sides.
const CHUNKS: usize = 8;

enum Piece {
    Bytes(Bytes),
    End,
}

/// The sending side, on the server's worker.
pub struct UploadBody {
    payload: Payload,
    pieces: mpsc::Sender<Piece>,
}

/// The reading side, on a blocking thread. A body that ends without its end is an error, never a short file.
pub struct UploadReader {
    pieces: mpsc::Receiver<Piece>,
    rest: Bytes,
    ended: bool,
}

/// Both sides for a body.
pub fn upload_channel(payload: Payload) -> (UploadBody, UploadReader) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    (UploadBody { payload, pieces: sender }, UploadReader { pieces: receiver, rest: Bytes::new(), ended: false })
}

impl UploadBody {
    /// Sends everything; ends early when the body fails or nobody reads any more.
    pub async fn pump(mut self) {
        while let Some(chunk) = self.payload.next().await {
            let Ok(chunk) = chunk else { return };
            if self.pieces.send(Piece::Bytes(chunk)).await.is_err() {
                return self.drain().await;
            }
        }
        let _ = self.pieces.send(Piece::End).await;
    }

    /// Takes a little of what is still being sent, so that the client sees the answer instead of a broken connection.
    async fn drain(mut self) {
        const ENOUGH: usize = 4 << 20;
        let mut taken = 0;
        while let Some(Ok(chunk)) = self.payload.next().await {
            taken += chunk.len();
            if taken > ENOUGH {
                return;
            }
        }
    }
}

impl Read for UploadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.rest = bytes,
                Some(Piece::End) => self.ended = true,
                None => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body was cut short")),
            }
        }
        let length = self.rest.len().min(buffer.len());
        let taken = self.rest.split_to(length);
        buffer[..length].copy_from_slice(&taken);
        Ok(length)
    }
}
