//! Instances: one process each.

use super::{Deployment, Health, RunState};
use crate::ports::{DatabaseSeed, InstanceHandle, InstanceSpec};
use crate::values::{DeploymentId, InstanceId, Settings, Usd};
use branchyard_domain::values::Timestamp;

/// What an instance is made of: taken from the catalogue when it was accepted, and kept whatever the catalogue says later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSize {
    /// Id of the instance type.
    pub type_id: String,
    /// Its name.
    pub type_name: String,
    /// Processors.
    pub cpus: u32,
    /// Gigabytes of memory.
    pub memory_gb: u32,
    /// Id of the kind of volume.
    pub volume_type_id: String,
    /// Its name.
    pub volume_type_name: String,
    /// Gigabytes of volume.
    pub volume_gb: u32,
    /// Price of an hour of compute.
    pub compute_rate: Usd,
    /// Price of an hour of storage.
    pub storage_rate: Usd,
}

impl InstanceSize {
    /// Price of an hour.
    pub fn rate(&self) -> Usd {
        self.compute_rate + self.storage_rate
    }
}

/// How starting goes: what the times between attempts depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempts {
    /// Starts in a row that never became ready.
    pub failed: u32,
    /// When it ended by itself, the last times within ten minutes, oldest first.
    pub ends: Vec<Timestamp>,
    /// Not to be started before.
    pub not_before: Option<Timestamp>,
}

/// What is left to do of shutting down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether the data becomes a backup first.
    pub final_backup: bool,
    /// Not to be tried before.
    pub not_before: Option<Timestamp>,
}

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id; names its folder.
    pub id: InstanceId,
    /// Which deployment it belongs to.
    pub deployment_id: DeploymentId,
    /// 0 for the primary.
    pub index: u32,
    /// Where it stands.
    pub state: RunState,
    /// The port it listens on.
    pub port: u16,
    /// What it is made of.
    pub size: InstanceSize,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When the process that serves became ready.
    pub started_at: Option<Timestamp>,
    /// The host clients are given, once it started.
    pub host: Option<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// What its databases begin with, until they were made; empty afterwards.
    pub seeds: Vec<DatabaseSeed>,
    /// Whether its data was made.
    pub prepared: bool,
    /// Whether a process of it was ever ready.
    pub was_ready: bool,
    /// The process, while there is one.
    pub handle: Option<InstanceHandle>,
    /// The settings that process was started with.
    pub started_with: Settings,
    /// Whether that process is to end, for another one to take its place.
    pub draining: bool,
    /// How starting goes.
    pub attempts: Attempts,
    /// Whether it ends again and again.
    pub crash_loop: bool,
    /// Whether its volume is full.
    pub volume_full: bool,
    /// What is left to do of shutting down, while it is.
    pub shutdown: Option<Shutdown>,
}

impl Instance {
    /// How well it does.
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

    /// What the provisioner is told of it.
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
            expose_stats: deployment.expose_stats,
        }
    }
}
