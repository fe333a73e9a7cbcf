//! A request body as a blocking reader. A bounded channel applies back-pressure, and the body is never in memory as a whole.
//!
//! Nothing is read from the client before the reader requests bytes. Otherwise, requests that wait for a thread would fill their
//! channels, and many of them would exhaust the memory.

use std::io::{self, Read};
use std::time::Duration;

use actix_web::web::{Bytes, Payload};
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::body_clock::{BodyClock, TooSlow};
use crate::config::BodyTimeouts;

/// Capacity of the channel in chunks. A chunk has up to 128 KiB, the most that the HTTP library reads ahead.
const CHUNKS: usize = 2;

enum UploadPiece {
    Bytes(Bytes),
    End,
}

/// The outcome of sending a body to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// The body ended or was truncated, or the reader was dropped.
    Over,
    /// The client sent too slowly.
    TooSlow,
}

/// The sending half, on the server's worker.
pub struct UploadBody {
    payload: Payload,
    /// Resolves when the reader requests bytes. Fails if the reader is dropped first.
    wanted: oneshot::Receiver<()>,
    pieces: mpsc::Sender<UploadPiece>,
}

/// The reading half, on a blocking thread. A truncated body is an error, never a short file.
pub struct UploadReader {
    wants: Option<oneshot::Sender<()>>,
    pieces: mpsc::Receiver<UploadPiece>,
    rest: Bytes,
    ended: bool,
}

/// Creates both halves for a body.
pub fn upload_channel(payload: Payload) -> (UploadBody, UploadReader) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let (wants, wanted) = oneshot::channel();
    let reader = UploadReader { wants: Some(wants), pieces: receiver, rest: Bytes::new(), ended: false };
    (UploadBody { payload, wanted, pieces: sender }, reader)
}

impl UploadBody {
    /// Sends the body once the reader requests it. Stops early if the body fails or is too slow, or if the reader is dropped.
    pub async fn pump(mut self, patience: &BodyTimeouts) -> Pumped {
        if (&mut self.wanted).await.is_err() {
            self.drain().await;
            return Pumped::Over;
        }
        let mut pace = BodyClock::streamed(patience);
        loop {
            let chunk = match pace.next(&mut self.payload).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(_))) => return Pumped::Over,
                Ok(None) => break,
                Err(TooSlow) => return Pumped::TooSlow,
            };
            let handed = Instant::now();
            if self.pieces.send(UploadPiece::Bytes(chunk)).await.is_err() {
                self.drain().await;
                return Pumped::Over;
            }
            pace.exclude(handed.elapsed());
        }
        let _ = self.pieces.send(UploadPiece::End).await;
        Pumped::Over
    }

    /// Reads and discards up to 4 MiB of the remaining body for at most 5 s. The client then sees the response instead of a
    /// connection reset.
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
        if let Some(wants) = self.wants.take() {
            // If the sending half is gone, the channel is closed, which the loop reports.
            let _ = wants.send(());
        }
        while self.rest.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(UploadPiece::Bytes(bytes)) => self.rest = bytes,
                Some(UploadPiece::End) => self.ended = true,
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
    use std::cell::Cell;
    use std::rc::Rc;

    use futures_util::{StreamExt as _, stream};

    use super::*;

    /// Returns a body of `chunks` chunks, and a counter of the chunks taken from it.
    fn body(chunks: usize) -> (Payload, Rc<Cell<usize>>) {
        let taken = Rc::new(Cell::new(0));
        let count = Rc::clone(&taken);
        let chunks = stream::iter(0..chunks).map(move |_| {
            count.set(count.get() + 1);
            Ok(Bytes::from_static(&[7; 1024]))
        });
        let request = actix_web::test::TestRequest::default().to_http_request();
        let mut payload = actix_web::dev::Payload::Stream { payload: chunks.boxed_local() };
        let extracted = <Payload as actix_web::FromRequest>::from_request(&request, &mut payload).into_inner().unwrap();
        (extracted, taken)
    }

    #[actix_web::test]
    async fn nothing_is_taken_before_the_reader_asks_for_it() {
        let (payload, taken) = body(100);
        let (body, mut reader) = upload_channel(payload);
        let patience = BodyTimeouts::default();
        let pumping = body.pump(&patience);
        tokio::pin!(pumping);
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut pumping).await.is_err());
        assert_eq!(taken.get(), 0);
        let read = actix_web::web::block(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        let (read, pumped) = futures_util::future::join(read, pumping).await;
        assert_eq!((read.unwrap().unwrap(), pumped, taken.get()), (100 * 1024, Pumped::Over, 100));
    }

    #[actix_web::test]
    async fn a_reader_that_goes_before_it_reads_ends_the_body() {
        let (payload, taken) = body(3);
        let (body, reader) = upload_channel(payload);
        drop(reader);
        assert_eq!(body.pump(&BodyTimeouts::default()).await, Pumped::Over);
        assert_eq!(taken.get(), 3, "the little that still comes is thrown away");
    }
}
