//! A hub with its threads, for services that embed the domain.

use std::io;
use std::sync::Arc;

use branchyard_domain::errors::PortError;
use branchyard_domain::{Hub, HubBuilder};

use crate::background::{Background, BackgroundOptions, recover};
use crate::clock::SystemClock;
use crate::ids::SystemIds;

/// Why a hub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A store failed while interrupted work was recovered.
    #[error("cannot recover what an earlier process left")]
    Recover(#[from] PortError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[from] io::Error),
}

/// A hub on the clock and the randomness of the machine, with threads that run what it queues.
pub struct RunningHub {
    hub: Hub,
    background: Background,
}

impl RunningHub {
    /// Builds the hub, resumes what an earlier process of this node left, and starts the threads. No other process may use
    /// the same folder of the engine.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(builder: HubBuilder, options: BackgroundOptions) -> Result<Self, StartError> {
        let hub = builder.build(Arc::new(SystemClock::default()), Arc::new(SystemIds));
        recover(&hub, &options.node)?;
        let background = Background::start(&hub, options)?;
        Ok(Self { hub, background })
    }

    /// Returns the hub. It is cheap to clone, and its calls block: an async service runs them on a thread for blocking
    /// work.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Stops the threads and waits for the work under way. Operations that are still queued run after the next start.
    pub fn stop(self) {
        self.background.stop(|| false);
    }
}
