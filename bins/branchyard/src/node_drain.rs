//! What a node does once an administrator has drained it: its databases and operations go to other nodes.
//!
//! The server goes on serving requests. Reads are answered from the copies here, and writes are queued in the metadata store, where other
//! nodes find them. Nothing is refused; `/readyz` has balancers send further requests elsewhere.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use branchyard_domain::Hub;
use branchyard_http_common::AppState;

use crate::durable_home::DurableHome;
use crate::repeating_thread::RepeatingThread;

/// Interval at which the node looks whether it is drained, and releases what is no longer in use.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Follows the drain of the node that this server is.
pub(crate) struct DrainWatch {
    /// The databases.
    pub(crate) home: DurableHome,
    /// The id of the node.
    pub(crate) node: String,
    /// The operations.
    pub(crate) hub: Hub,
    /// The state whose readiness ends with a drain.
    pub(crate) state: AppState,
    /// Time that running operations have to end.
    pub(crate) grace: Duration,
}

impl DrainWatch {
    /// Starts the thread. A node that was drained before it started leases nothing, also not at first.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer, or if no thread can be started.
    pub(crate) fn start(self) -> anyhow::Result<RepeatingThread> {
        let mut since = None;
        self.look(&mut since).context("cannot look whether this node is drained")?;
        let mut is_failing = false;
        let thread = RepeatingThread::start("node-drain", LOOK_EVERY, move |_| match self.look(&mut since) {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(error = &*error as &dyn std::error::Error, "cannot follow the drain of this node");
                }
            }
        });
        thread.context("cannot start the thread that follows the drain of this node")
    }

    /// `since` is when the drain was noticed, if it lasts.
    fn look(&self, since: &mut Option<Instant>) -> anyhow::Result<()> {
        let is_drained = self.home.follow_drain()?;
        self.state.drained.store(is_drained, Ordering::Relaxed);
        if !is_drained {
            if since.take().is_some() {
                tracing::info!("this node is no longer drained");
                self.hub.operations().wake();
            }
            return Ok(());
        }
        if since.is_none() {
            tracing::info!("this node is drained: other nodes write its databases and run its operations");
        }
        let is_over = since.get_or_insert_with(Instant::now).elapsed() >= self.grace;
        let mut busy = self.home.busy_databases()?;
        if is_over && !busy.is_empty() {
            self.release_operations()?;
            busy = HashSet::new();
        }
        if self.home.hand_over(&busy, is_over.then_some(self.grace)).released > 0 {
            self.hub.operations().announce();
        }
        Ok(())
    }

    /// Lets other nodes run the operations and collections that did not end in time. What they do here has no effect from now on.
    fn release_operations(&self) -> anyhow::Result<()> {
        let operations = self.hub.operations().recover(&self.node)?;
        self.hub.collections().recover(&self.node)?;
        if operations > 0 {
            tracing::warn!(
                operations,
                "operations did not end within server.shutdown_grace of the drain; other nodes run them again"
            );
        }
        Ok(())
    }
}
