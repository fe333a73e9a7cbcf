//! Requests with limits: how many at a time, how long, how often.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use branchyard_domain::ports::StoreError;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::failure::{Failure, Kind};
use super::watch::{Answer, watched};
use crate::options::StoreOptions;

/// Threads that run the requests of all callers, who wait.
const THREADS: usize = 2;

/// Pause before the first repetition of a request. It doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);

const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Runs requests for callers who wait for them.
#[derive(Debug)]
pub(super) struct Requests {
    runtime: Option<Runtime>,
    limits: Arc<Limits>,
}

#[derive(Debug)]
struct Limits {
    permits: Semaphore,
    request_timeout: Duration,
    retries: u32,
    /// Whether the store has accepted a request, so that there are credentials.
    was_accepted: AtomicBool,
}

/// The limits of requests, for those that run.
#[derive(Debug, Clone)]
pub(super) struct Attempts(Arc<Limits>);

/// A result that a caller waits for.
pub(super) struct Pending<T>(mpsc::Receiver<T>);

impl Requests {
    pub(super) fn start(options: &StoreOptions) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("object-store")
            .enable_all()
            .build()?;
        let limits = Limits {
            permits: Semaphore::new(options.requests_max.clamp(1, Semaphore::MAX_PERMITS)),
            request_timeout: options.request_timeout,
            retries: options.retries,
            was_accepted: AtomicBool::new(false),
        };
        Ok(Self { runtime: Some(runtime), limits: Arc::new(limits) })
    }

    /// Returns the limits of requests.
    pub(super) fn attempts(&self) -> Attempts {
        Attempts(Arc::clone(&self.limits))
    }

    /// Begins a request. It runs to its end even if the caller does not wait for it.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Pending<Result<T, StoreError>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                // The caller may have given up.
                let _ = sender.send(request.await);
            });
        }
        Pending(receiver)
    }

    /// Runs a request to its end.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.begin(request).wait()
    }
}

impl<T> Pending<Result<T, StoreError>> {
    /// Waits for the result. The wait does not involve the runtime, so it may be done on threads of another one.
    pub(super) fn wait(self) -> Result<T, StoreError> {
        self.0.recv().unwrap_or_else(|error| Err(StoreError::unavailable("the request was not run to its end", error)))
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // Without waiting, because the drop may happen where blocking is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Attempts {
    /// Makes attempts of a request until one succeeds, one fails for good, or a limit is reached. Passes to `attempt` whether an
    /// earlier attempt may have had its effect.
    pub(super) async fn run<T, F>(&self, mut attempt: impl FnMut(bool) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let Self(limits) = self;
        let deadline = Instant::now() + limits.request_timeout;
        let mut pause = PAUSE;
        let mut retries = limits.retries;
        let mut last: Option<Failure> = None;
        loop {
            let timeout = |last: Option<Failure>| {
                last.unwrap_or_else(|| {
                    Failure::new(Kind::Passing, format!("no answer within {:?}", limits.request_timeout))
                })
            };
            let permitted = timeout_at(deadline, limits.permits.acquire()).await;
            let Ok(Ok(permit)) = permitted else { return Err(timeout(last)) };
            let attempted = timeout_at(deadline, watched(pin!(attempt(last.is_some())))).await;
            drop(permit);
            let Ok((result, answer)) = attempted else { return Err(timeout(last)) };
            if answer.as_ref().is_some_and(Answer::is_accepted) {
                limits.was_accepted.store(true, Ordering::Relaxed);
            }
            let failure = match result {
                Ok(value) => return Ok(value),
                Err(Failed::Store(error)) => {
                    Failure::of(error, answer.as_ref(), limits.was_accepted.load(Ordering::Relaxed))
                }
                Err(Failed::Known(failure)) => failure,
            };
            // Between a half and the whole of the pause, so that nodes that failed together do not come back together.
            let wake = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
            let is_final = !matches!(failure.kind, Kind::Passing | Kind::Garbled) || retries == 0 || wake >= deadline;
            if is_final {
                return Err(failure);
            }
            tracing::debug!(error = ?failure, "a request to the object store failed and is tried again");
            last = Some(failure);
            retries -= 1;
            pause = (pause * 2).min(PAUSE_MAX);
            sleep_until(wake).await;
        }
    }
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// The client of the store reported an error.
    Store(object_store::Error),
    /// The answer does not fit.
    Known(Failure),
}

impl From<object_store::Error> for Failed {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}
