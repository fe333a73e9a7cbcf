//! Threads that do the same at regular intervals until the server ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Whether a thread is to end.
#[derive(Clone, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Returns `true` until the thread is to end.
    pub(crate) fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// A thread that does the same again and again.
pub(crate) struct RepeatingThread {
    name: &'static str,
    stop: StopFlag,
    thread: JoinHandle<()>,
}

impl RepeatingThread {
    /// Starts a thread that calls `work` at once and then at this interval.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn start(
        name: &'static str,
        every: Duration,
        mut work: impl FnMut(&StopFlag) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = StopFlag::default();
        let flag = stop.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            while flag.goes_on() {
                work(&flag);
                thread::park_timeout(every);
            }
        })?;
        Ok(Self { name, stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        self.stop.0.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread {} panicked", self.name);
        }
    }
}
