//! SQL reads that compute in another process while no thread waits for them.

use std::ops::ControlFlow;
use std::time::Duration;

use branchyard_domain::ports::{Column, RowSink, StartedRead, ValueRef};
use branchyard_executor::AdmittedCall;

/// How long a result is waited for without a thread. After that a thread waits, because a read that goes on asks for turns, and its
/// limits have to be watched.
const PATIENCE: Duration = Duration::from_millis(5);

/// A SQL read that has a slot, and may have started.
pub struct ReadStart(Option<(AdmittedCall, Option<Box<dyn StartedRead>>)>);

impl ReadStart {
    pub(crate) fn new(admitted: AdmittedCall, started: Option<Box<dyn StartedRead>>) -> Self {
        Self(Some((admitted, started)))
    }

    /// Waits for the result for a short time. Returns `true` if it is at hand.
    pub(crate) async fn is_at_hand(&mut self) -> bool {
        let Some((_, Some(read))) = &mut self.0 else { return false };
        has_arrived(&**read).await && read.is_at_hand()
    }

    pub(crate) fn into_parts(mut self) -> Option<(AdmittedCall, Option<Box<dyn StartedRead>>)> {
        self.0.take()
    }
}

impl Drop for ReadStart {
    fn drop(&mut self) {
        // The client has disconnected, which canceled the read. A thread sees it end, so that the process need not be ended.
        if let Some((admitted, Some(read))) = self.0.take() {
            admitted.run_detached(move || drop(read.finish(&mut NoRows)));
        }
    }
}

#[cfg(unix)]
async fn has_arrived(read: &dyn StartedRead) -> bool {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    #[expect(unsafe_code, reason = "there is no safe function for descriptors that are not owned")]
    // SAFETY: The descriptor is borrowed from the read, which outlives the registration.
    let registered = unsafe { AsyncFd::register_with_interest(read.descriptor(), Interest::READABLE) };
    let Ok(descriptor) = registered else { return false };
    matches!(tokio::time::timeout(PATIENCE, descriptor.readable()).await, Ok(Ok(_)))
}

#[cfg(not(unix))]
async fn has_arrived(_: &dyn StartedRead) -> bool {
    false
}

/// Takes rows that no one needs.
struct NoRows;

impl RowSink for NoRows {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::{AsFd as _, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use branchyard_domain::ports::{EngineError, ReadReport, RowSink, StartedRead};
    use branchyard_executor::{AdmittedCall, CallerKey, Pool};
    use futures_util::FutureExt as _;

    use super::{PATIENCE, ReadStart};

    /// A read whose result is at hand once its socket is readable, if `is_short`. Reports how it ended.
    struct Played {
        socket: UnixStream,
        is_short: bool,
        ended: mpsc::Sender<&'static str>,
        is_finished: bool,
    }

    impl StartedRead for Played {
        fn descriptor(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }

        fn is_at_hand(&mut self) -> bool {
            self.is_short
        }

        fn finish(mut self: Box<Self>, _: &mut dyn RowSink) -> Result<ReadReport, EngineError> {
            self.is_finished = true;
            self.ended.send("finished").unwrap();
            Ok(ReadReport { deterministic: true })
        }
    }

    impl Drop for Played {
        fn drop(&mut self) {
            if !self.is_finished {
                self.ended.send("dropped").unwrap();
            }
        }
    }

    async fn started(is_short: bool) -> (ReadStart, UnixStream, mpsc::Receiver<&'static str>) {
        let (socket, worker) = UnixStream::pair().unwrap();
        let (ended, end) = mpsc::channel();
        let read = Played { socket, is_short, ended, is_finished: false };
        (ReadStart::new(enter().await, Some(Box::new(read))), worker, end)
    }

    async fn enter() -> AdmittedCall {
        Pool::new(1, 0, Duration::ZERO).enter(CallerKey::Address(1)).await.unwrap_or_else(|error| panic!("{error}"))
    }

    #[actix_web::test]
    async fn a_result_is_at_hand_if_it_comes_soon_and_whole() {
        for is_short in [true, false] {
            let (mut start, mut worker, _end) = started(is_short).await;
            worker.write_all(b"x").unwrap();
            assert_eq!(start.is_at_hand().await, is_short);
        }
        let (mut start, _worker, _end) = started(true).await;
        let began = Instant::now();
        assert!(!start.is_at_hand().await, "nothing comes");
        assert!(began.elapsed() >= PATIENCE);
        assert!(!ReadStart::new(enter().await, None).is_at_hand().await, "nothing has started");
    }

    /// Ending the process of a read takes longer than a short read.
    #[actix_web::test]
    async fn a_read_whose_client_goes_away_is_finished_by_a_thread() {
        let (mut start, _worker, end) = started(true).await;
        assert_eq!(start.is_at_hand().now_or_never(), None);
        drop(start);
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok("finished"));
    }
}
