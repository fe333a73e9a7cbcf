//! The threads of a hub, started and stopped together.

use std::io;
use std::sync::Arc;

use branchyard_domain::Hub;
use branchyard_domain::errors::PortError;

use crate::collector::Collector;
use crate::dispatcher::{AttemptCutoff, Dispatcher};
use crate::mirror_scheduler::MirrorScheduler;
use crate::observer::{IgnoreAll, Observer};
use crate::pull_fetches::PullFetches;
use crate::workers::Workers;

/// Options of [`Background::start`].
#[derive(Clone)]
pub struct BackgroundOptions {
    /// Name of this process among those that share the metadata store. It stays the same across restarts, so that a
    /// restarted process finds what it had leased.
    pub node: String,
    /// Maximum number of concurrent webhook requests. Without webhooks, it has no effect.
    pub webhook_concurrency: usize,
    /// Receives what the threads did.
    pub observer: Arc<dyn Observer>,
}

impl Default for BackgroundOptions {
    fn default() -> Self {
        Self { node: "embedded".to_owned(), webhook_concurrency: 16, observer: Arc::new(IgnoreAll) }
    }
}

/// What [`recover`] found after an unclean end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Interrupted operations, which will run again.
    pub operations: u64,
    /// Removed files that nothing refers to.
    pub files: u64,
}

/// Resumes what an earlier process of this node left behind. Call it only at the start of the one process that uses the
/// engine's folder, before anything else uses the hub.
///
/// # Errors
/// [`PortError`] if a store failed.
pub fn recover(hub: &Hub, node: &str) -> Result<Recovered, PortError> {
    let operations = hub.nodes().recover_leases(node)?;
    let files = hub.operations().sweep()?;
    hub.pulls().recover()?;
    Ok(Recovered { operations, files })
}

/// The threads that run what a hub queues: operations, cleanup, fetches for pull requests, garbage collections, syncs
/// of mirrors, and deliveries of webhooks if the hub sends any.
pub struct Background {
    workers: Workers,
    pull_fetches: PullFetches,
    collector: Collector,
    mirror_scheduler: MirrorScheduler,
    dispatcher: Option<Dispatcher>,
}

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`io::Error`] if a thread cannot be started.
    pub fn start(hub: &Hub, options: BackgroundOptions) -> io::Result<Self> {
        let BackgroundOptions { node, webhook_concurrency, observer } = options;
        let dispatcher = || Dispatcher::start(hub, webhook_concurrency, node.clone(), Arc::clone(&observer));
        Ok(Self {
            workers: Workers::start(hub, &node, &observer)?,
            pull_fetches: PullFetches::start(hub, &observer)?,
            collector: Collector::start(hub, &node, &observer)?,
            mirror_scheduler: MirrorScheduler::start(hub)?,
            dispatcher: hub.sends_webhooks().then(dispatcher).transpose()?,
        })
    }

    /// Returns the handle that cuts off webhook attempts, for a service that does not wait for them when it stops. `None` if
    /// the hub sends no webhooks.
    pub fn cutoff(&self) -> Option<AttemptCutoff> {
        self.dispatcher.as_ref().map(Dispatcher::cutoff)
    }

    /// Stops taking new work and waits for what runs. Returns early once `hurried` returns `true`: unfinished work is then
    /// in the same state as after a crash, and the next start resumes it.
    pub fn stop(self, hurried: impl Fn() -> bool) {
        // First, because a running sync ends with its requests.
        self.mirror_scheduler.stop();
        self.workers.stop(&hurried);
        self.pull_fetches.stop(&hurried);
        self.collector.stop(&hurried);
        if let Some(dispatcher) = self.dispatcher {
            dispatcher.stop();
        }
    }
}
