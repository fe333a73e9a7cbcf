//! Instances: each runs as one process.

use super::{Deployment, Health, RunState};
use crate::ports::{DatabaseSeed, InstanceHandle, InstanceSpec};
use crate::values::{DeploymentId, InstanceId, Settings, Usd};
use branchyard_domain::values::Timestamp;

/// The resources and prices of an instance. They are copied from the catalog when the instance is accepted; later
/// changes of the catalog do not affect them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSize {
    /// Id of the instance type.
    pub type_id: String,
    /// Name of the instance type.
    pub type_name: String,
    /// Number of processors.
    pub cpus: u32,
    /// Memory in gigabytes.
    pub memory_gb: u32,
    /// Id of the storage option.
    pub volume_type_id: String,
    /// Name of the storage option.
    pub volume_type_name: String,
    /// Size of the volume in gigabytes.
    pub volume_gb: u32,
    /// Price of compute per hour.
    pub compute_rate: Usd,
    /// Price of storage per hour.
    pub storage_rate: Usd,
}

impl InstanceSize {
    /// Returns the price of compute and storage per hour.
    pub fn rate(&self) -> Usd {
        self.compute_rate + self.storage_rate
    }
}

/// The record of recent starts and ends, which determines the backoff between starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempts {
    /// Number of consecutive starts after which the process never became ready.
    pub failed: u32,
    /// Times within the last ten minutes at which the process ended by itself, oldest first.
    pub ends: Vec<Timestamp>,
    /// Earliest time of the next start.
    pub not_before: Option<Timestamp>,
}

/// The remaining steps of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether a final backup is still to be made.
    pub final_backup: bool,
    /// Earliest time of the next attempt.
    pub not_before: Option<Timestamp>,
}

/// An instance of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Unique id; also the name of the instance's folder.
    pub id: InstanceId,
    /// The deployment that the instance belongs to.
    pub deployment_id: DeploymentId,
    /// Index within the deployment; 0 is the primary.
    pub index: u32,
    /// State of the instance.
    pub state: RunState,
    /// TCP port that the process listens on.
    pub port: u16,
    /// Resources and prices.
    pub size: InstanceSize,
    /// Time of acceptance.
    pub accepted_at: Timestamp,
    /// Time at which the serving process became ready.
    pub started_at: Option<Timestamp>,
    /// Host name that clients connect to. `None` before the first start.
    pub host: Option<String>,
    /// Number of restarts.
    pub restarts: u32,
    /// Initial contents of the databases. Empty once the databases exist.
    pub seeds: Vec<DatabaseSeed>,
    /// Whether the databases have been created.
    pub prepared: bool,
    /// Whether a process of the instance was ever ready.
    pub was_ready: bool,
    /// The running process, if any.
    pub handle: Option<InstanceHandle>,
    /// The settings that the process was started with.
    pub started_with: Settings,
    /// Whether the process is being drained for a restart.
    pub draining: bool,
    /// Recent starts and ends.
    pub attempts: Attempts,
    /// Whether the process ends repeatedly.
    pub crash_loop: bool,
    /// Whether the volume is full.
    pub volume_full: bool,
    /// The remaining steps of the shutdown, while one is in progress.
    pub shutdown: Option<Shutdown>,
}

impl Instance {
    /// Returns the health of the instance.
    pub fn health(&self) -> Health {
        match self.state {
            RunState::Stopping => Health::Stopping,
            RunState::Stopped => Health::Stopped,
            _ if self.crash_loop => Health::CrashLoop,
            RunState::Starting => Health::Starting,
            RunState::Started if self.volume_full => Health::DiskFull,
            RunState::Started => Health::Ok,
        }
    }

    /// Returns the specification for the provisioner.
    pub fn spec(&self, deployment: &Deployment) -> InstanceSpec {
        InstanceSpec {
            deployment: deployment.id,
            instance: self.id,
            label: deployment.locator.to_string(),
            zone: deployment.zone.clone(),
            port: self.port,
            cpus: self.size.cpus,
            memory_gb: self.size.memory_gb,
            volume_gb: self.size.volume_gb,
            databases: deployment.databases.clone(),
            settings: deployment.settings.clone(),
            settings_revision: deployment.version,
            expose_stats: deployment.expose_stats,
        }
    }
}
