//! A request body as a blocking reader, through a bounded channel: neither side runs ahead, nothing is held whole.

use std::io::{self, Read};
use std::time::Duration;

use actix_web::web::{Bytes, Payload};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::config::Patience;
use crate::pace::{Pace, TooSlow};

/// Chunks under way between the two sides.
const CHUNKS: usize = 8;

enum Piece {
    Bytes(Bytes),
    End,
}

/// How the sending of a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// The body came to its end or was cut short, or nobody reads it any more.
    Over,
    /// The client sent too slowly.
    TooSlow,
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
    /// Sends everything; ends early when the body fails, comes too slowly, or nobody reads any more.
    pub async fn pump(mut self, patience: &Patience) -> Pumped {
        let mut pace = Pace::streamed(patience);
        loop {
            let chunk = match pace.next(&mut self.payload).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(_))) => return Pumped::Over,
                Ok(None) => break,
                Err(TooSlow) => return Pumped::TooSlow,
            };
            let handed = Instant::now();
            if self.pieces.send(Piece::Bytes(chunk)).await.is_err() {
                self.drain().await;
                return Pumped::Over;
            }
            pace.exclude(handed.elapsed());
        }
        let _ = self.pieces.send(Piece::End).await;
        Pumped::Over
    }

    /// Takes a little of what is still being sent, so that the client sees the answer instead of a broken connection.
    pub async fn drain(mut self) {
        const ENOUGH: usize = 4 << 20;
        const STALL: Duration = Duration::from_secs(1);
        const ALL: Duration = Duration::from_secs(5);
        let (mut taken, end) = (0, Instant::now() + ALL);
        while let Ok(Some(Ok(chunk))) = timeout_at(end.min(Instant::now() + STALL), self.payload.next()).await {
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
