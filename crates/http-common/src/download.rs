//! Response bodies that a blocking thread writes while the client reads, connected by a bounded channel.

use std::io;
use std::time::{Duration, Instant};

use actix_web::rt::task::JoinHandle;
use actix_web::web::Bytes;
use actix_web::{HttpResponse, HttpResponseBuilder};
use branchyard_domain::ports::CancellationToken;
use branchyard_problem_details::Problem;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::handler_error::HandlerError;
use crate::row_out::RowOut;
use branchyard_executor::idle;

/// Capacity of the channel in chunks.
const CHUNKS: usize = 4;
/// Maximum bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum time that written bytes wait for their chunk to fill.
const CHUNK_WAIT: Duration = Duration::from_millis(200);

/// A guard for work whose result a client awaits. Dropping the guard, for example when the client disconnects, cancels the work.
pub struct Waiting(CancellationToken);

impl Waiting {
    /// Creates the guard. Keep it for as long as the client waits.
    pub fn new(canceled: &CancellationToken) -> Self {
        Self(canceled.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The ending of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending<T> {
    /// The body is complete.
    Whole(T),
    /// The body is truncated. The client must be able to notice that data is missing.
    Broken(T),
}

enum DownloadPiece<T> {
    Bytes(Bytes),
    End(Bytes, Ending<T>),
}

/// The writing half of a download, for a blocking thread. Buffers bytes into chunks.
pub struct DownloadWriter<T> {
    pieces: mpsc::Sender<DownloadPiece<T>>,
    runtime: Handle,
    stall: Duration,
    buffer: Vec<u8>,
    /// When the oldest bytes of the buffer were written.
    waits_since: Option<Instant>,
}

/// The receiving half of a download, for the server's worker.
pub struct Download<T> {
    pieces: mpsc::Receiver<DownloadPiece<T>>,
    _waiting: Waiting,
}

/// The first result of a download.
pub enum First<T> {
    /// The whole body, if it was short.
    All(Bytes, Ending<T>),
    /// The beginning of a longer body.
    Begun(Bytes, Download<T>),
    /// The writer was dropped without an ending.
    Lost,
}

impl<T: 'static> First<T> {
    /// Answers with the body, or with the error that `writing` ended in if it dropped the writer without an ending.
    ///
    /// # Errors
    /// The error of `writing`; 500 if it has none.
    pub async fn respond(
        self,
        response: &mut HttpResponseBuilder,
        writing: JoinHandle<Result<(), HandlerError>>,
    ) -> Result<HttpResponse, HandlerError> {
        match self {
            Self::All(body, _) => Ok(response.body(body)),
            Self::Begun(begun, download) => Ok(response.streaming(download.stream(begun))),
            Self::Lost => match writing.await {
                Ok(Err(failure)) => Err(failure),
                Ok(Ok(())) | Err(_) => Err(Problem::internal().into()),
            },
        }
    }
}

/// Creates both halves of a download. If the client reads nothing for `stall`, writing fails. Dropping the receiving half, for
/// example when the client disconnects, cancels `canceled`. Must be called on the server's worker, because it needs a runtime.
pub fn download_channel<T>(stall: Duration, canceled: &CancellationToken) -> (DownloadWriter<T>, Download<T>) {
    let (pieces, receiver) = mpsc::channel(CHUNKS);
    let writer = DownloadWriter { pieces, runtime: Handle::current(), stall, buffer: Vec::new(), waits_since: None };
    (writer, Download { pieces: receiver, _waiting: Waiting::new(canceled) })
}

impl<T> DownloadWriter<T> {
    /// Sends the remaining bytes and the ending.
    pub fn end(mut self, ending: Ending<T>) {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        self.send(DownloadPiece::End(rest, ending));
    }

    fn send(&self, piece: DownloadPiece<T>) -> bool {
        let piece = match self.pieces.try_send(piece) {
            Ok(()) => return true,
            Err(mpsc::error::TrySendError::Closed(_)) => return false,
            Err(mpsc::error::TrySendError::Full(piece)) => piece,
        };
        let send = async { tokio::time::timeout(self.stall, self.pieces.send(piece)).await };
        matches!(idle(|| self.runtime.block_on(send)), Ok(Ok(())))
    }
}

impl<T> RowOut for DownloadWriter<T> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Sends the buffer if it fills a chunk or has waited for `CHUNK_WAIT`. Returns `false` if the client accepts no more. The time
    /// before the first bytes does not count. A short body that waited in a queue is therefore still sent as a whole, with its
    /// entity tag.
    fn flush_if_due(&mut self) -> bool {
        if self.buffer.is_empty() {
            return !self.pieces.is_closed();
        }
        let waits_since = *self.waits_since.get_or_insert_with(Instant::now);
        if self.buffer.len() < CHUNK_BYTES && waits_since.elapsed() < CHUNK_WAIT {
            return true;
        }
        let mut bytes = Bytes::from(std::mem::take(&mut self.buffer));
        self.waits_since = None;
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
            if !self.send(DownloadPiece::Bytes(chunk)) {
                return false;
            }
        }
        true
    }
}

impl<T> Download<T> {
    /// Waits for the first chunk, or for the ending of a short body.
    pub async fn first(mut self) -> First<T> {
        match self.pieces.recv().await {
            Some(DownloadPiece::End(bytes, ending)) => First::All(bytes, ending),
            Some(DownloadPiece::Bytes(bytes)) => First::Begun(bytes, self),
            None => First::Lost,
        }
    }

    /// Returns the body from its beginning as a stream for a response. A truncated or lost body ends in an error, which aborts the
    /// connection.
    pub fn stream(self, begun: Bytes) -> impl Stream<Item = io::Result<Bytes>> {
        let broken = || Err(io::Error::other("the body was cut off"));
        unfold((Some(begun), Some(self)), move |(begun, download)| async move {
            let mut download = download?;
            if let Some(bytes) = begun {
                return Some((Ok(bytes), (None, Some(download))));
            }
            match download.pieces.recv().await {
                Some(DownloadPiece::Bytes(bytes)) => Some((Ok(bytes), (None, Some(download)))),
                Some(DownloadPiece::End(bytes, Ending::Whole(_))) => Some((Ok(bytes), (None, None))),
                Some(DownloadPiece::End(_, Ending::Broken(_))) | None => Some((broken(), (None, None))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::CancellationToken;

    use super::{Download, DownloadWriter, Ending, First, download_channel};
    use crate::row_out::RowOut as _;
    use futures_util::StreamExt as _;
    use std::time::Duration;

    fn write(
        mut writer: DownloadWriter<u8>,
        chunks: usize,
        ending: Option<Ending<u8>>,
    ) -> std::thread::JoinHandle<usize> {
        std::thread::spawn(move || {
            for taken in 0..chunks {
                writer.buffer().extend_from_slice(&[b'x'; super::CHUNK_BYTES]);
                if !writer.flush_if_due() {
                    return taken;
                }
            }
            writer.buffer().extend_from_slice(b"end");
            match ending {
                Some(ending) => writer.end(ending),
                None => drop(writer),
            }
            chunks
        })
    }

    async fn read(download: Download<u8>) -> (usize, bool) {
        let First::Begun(begun, download) = download.first().await else { panic!("begun") };
        let pieces: Vec<_> = download.stream(begun).collect().await;
        let bytes = pieces.iter().flatten().map(|bytes| bytes.len()).sum();
        (bytes, pieces.iter().all(Result::is_ok))
    }

    #[actix_web::test]
    async fn short_bodies_come_whole() {
        let (writer, download) = download_channel(Duration::from_secs(5), &CancellationToken::default());
        write(writer, 0, Some(Ending::Broken(7)));
        let First::All(bytes, ending) = download.first().await else { panic!("all") };
        assert_eq!((&bytes[..], ending), (&b"end"[..], Ending::Broken(7)));
    }

    #[actix_web::test]
    async fn long_bodies_come_in_pieces_and_show_how_they_ended() {
        for (ending, whole) in [(Some(Ending::Whole(1)), true), (Some(Ending::Broken(1)), false), (None, false)] {
            let (writer, download) = download_channel(Duration::from_secs(5), &CancellationToken::default());
            write(writer, 20, ending);
            let (bytes, good) = read(download).await;
            assert_eq!((bytes, good), (20 * super::CHUNK_BYTES + if whole { 3 } else { 0 }, whole));
        }
    }

    #[actix_web::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (writer, download) = download_channel(Duration::from_millis(20), &CancellationToken::default());
        let writing = write(writer, 100, None);
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(download);
        assert!(writing.join().unwrap() < 10);
    }

    #[actix_web::test]
    async fn rows_do_not_wait_for_a_full_chunk() {
        let (mut writer, download) = download_channel::<u8>(Duration::from_secs(5), &CancellationToken::default());
        let writing = std::thread::spawn(move || {
            writer.buffer().extend_from_slice(b"row");
            assert!(writer.flush_if_due());
            std::thread::sleep(super::CHUNK_WAIT);
            writer.buffer().extend_from_slice(b"two");
            assert!(writer.flush_if_due());
            writer
        });
        let First::Begun(begun, download) = download.first().await else { panic!("begun") };
        assert_eq!(&begun[..], b"rowtwo");
        drop((writing.join().unwrap(), download));
    }

    #[actix_web::test]
    async fn what_a_body_waited_for_before_it_began_does_not_cut_it_up() {
        let (mut writer, download) = download_channel(Duration::from_secs(5), &CancellationToken::default());
        let writing = std::thread::spawn(move || {
            std::thread::sleep(2 * super::CHUNK_WAIT);
            assert!(writer.flush_if_due(), "there is nothing yet");
            writer.buffer().extend_from_slice(b"row");
            assert!(writer.flush_if_due());
            writer.end(Ending::Whole(7));
        });
        let First::All(bytes, ending) = download.first().await else { panic!("all") };
        assert_eq!((&bytes[..], ending), (&b"row"[..], Ending::Whole(7)));
        writing.join().unwrap();
    }

    #[actix_web::test]
    async fn whoever_goes_away_cancels() {
        let canceled = CancellationToken::default();
        let (_writer, download) = download_channel::<u8>(Duration::from_secs(5), &canceled);
        assert!(!canceled.is_canceled());
        drop(download);
        assert!(canceled.is_canceled());
    }
}
