//! The thread that requests run on, and the HTTP clients.

use reqwest::Client;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A runtime with a client for `https` and one for `http`. Its users block until their requests have ended.
pub struct Io {
    runtime: Option<Runtime>,
    encrypted: Client,
    plain: Client,
    aborted: watch::Sender<bool>,
}

impl Io {
    /// Starts a thread for the requests of these clients.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(encrypted: Client, plain: Client) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("remote-io")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime), encrypted, plain, aborted: watch::Sender::new(false) })
    }

    pub(crate) fn client(&self, is_encrypted: bool) -> &Client {
        if is_encrypted { &self.encrypted } else { &self.plain }
    }

    /// Ends all requests, and those to come.
    pub fn abort(&self) {
        self.aborted.send_replace(true);
    }

    /// Waits for the work that `begin` returns. `begin` runs where timers can be made. Returns `None` if [`Io::abort`] was called
    /// before the work ended.
    pub(crate) fn wait<T, F: Future<Output = T>>(&self, begin: impl FnOnce() -> F) -> Option<T> {
        let mut aborted = self.aborted.subscribe();
        self.runtime.as_ref()?.block_on(async {
            tokio::select! {
                // `wait_for` fails only if the sender is dropped, and `self` holds it.
                _ = aborted.wait_for(|aborted| *aborted) => None,
                result = begin() => Some(result),
            }
        })
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        // Without waiting, because the drop may happen where blocking is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
