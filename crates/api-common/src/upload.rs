//! A request body as a blocking reader, through a bounded channel: neither side runs ahead, nothing is held whole.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use actix_web::web::{Bytes, Payload};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::config::Patience;

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
        let (began, mut received, mut waited_for_us) = (Instant::now(), 0_u64, Duration::ZERO);
        loop {
            let Ok(next) = tokio::time::timeout(patience.part_stall, self.payload.next()).await else {
                return Pumped::TooSlow;
            };
            let chunk = match next {
                Some(Ok(chunk)) => chunk,
                Some(Err(_)) => return Pumped::Over,
                None => break,
            };
            received += chunk.len() as u64;
            let handed = Instant::now();
            if self.pieces.send(Piece::Bytes(chunk)).await.is_err() {
                self.drain(patience.part_stall).await;
                return Pumped::Over;
            }
            waited_for_us += handed.elapsed();
            if is_too_slow(patience, received, began.elapsed().saturating_sub(waited_for_us)) {
                return Pumped::TooSlow;
            }
        }
        let _ = self.pieces.send(Piece::End).await;
        Pumped::Over
    }

    /// Takes a little of what is still being sent, so that the client sees the answer instead of a broken connection.
    pub async fn drain(mut self, stall: Duration) {
        const ENOUGH: usize = 4 << 20;
        let mut taken = 0;
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(stall, self.payload.next()).await {
            taken += chunk.len();
            if taken > ENOUGH {
                return;
            }
        }
    }
}

/// Whether a body falls behind the slowest pace we wait for; its beginning may be as slow as it likes.
fn is_too_slow(patience: &Patience, received: u64, elapsed: Duration) -> bool {
    let counted = elapsed.saturating_sub(patience.part_stall);
    received < counted.as_secs().saturating_mul(patience.part_bytes_per_second)
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

#[cfg(test)]
mod tests {
    use super::is_too_slow;
    use crate::config::Patience;
    use std::time::Duration;

    #[test]
    fn the_pace_counts_once_the_beginning_is_over() {
        let patience = Patience::default();
        let slow = |received, seconds| is_too_slow(&patience, received, Duration::from_secs(seconds));
        assert!(!slow(0, 30));
        assert!(!slow(8 << 10, 31));
        assert!(slow((8 << 10) - 1, 31));
        assert!(!slow(10 * (8 << 10), 40));
        assert!(slow(10 * (8 << 10) - 1, 40));
    }
}
