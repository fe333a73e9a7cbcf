//! What runs the processes of deployments.
//!
//! A provisioner knows instances, folders and processes. It decides nothing: states, restarts, operations and the ledger are the
//! supervisor's, which calls it. Every call may block. Read replicas (`feed`, `hand_over`) and pulls inside a deployment
//! (`branches`, `merge`) are not offered yet, so the port has no methods for them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use branchyard_auth::HashedToken;

use super::metrics::Sample;
use crate::values::{BackupId, DeploymentId, InstanceId, ServedName, Settings};
use branchyard_domain::entities::Signature;
use branchyard_domain::ports::SqlPower;
use branchyard_domain::values::{AccountId, CommitHash, DatabaseId, OperationId, RefName, Timestamp};

/// The provisioner could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// Trying again will not help; the reason is shown to the deployment's people as its last error.
    #[error("{0}")]
    Refused(String),
    /// Trying again later may help.
    #[error("the provisioner is unavailable: {context}")]
    Unavailable {
        /// What was tried.
        context: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no such process (any more).
    #[error("the process is gone")]
    Gone,
}

/// What a zone offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneFeatures {
    /// Read replicas.
    pub replicas: bool,
    /// TLS with a public certificate in front of the instances.
    pub public_tls: bool,
    /// The `remotesapi` service.
    pub remotesapi: bool,
    /// The MCP service.
    pub mcp: bool,
    /// Credentials with which a deployment signs in elsewhere.
    pub credentials: bool,
    /// Versions of the engine it can run, without a leading `v`, the newest first.
    pub versions: Vec<String>,
    /// Bytes of memory of the zone, if it can be known.
    pub memory_bytes: Option<u64>,
    /// Bytes of the file system that holds the volumes, if it can be known.
    pub disk_bytes: Option<u64>,
}

/// All that an instance needs to run, except for its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSpec {
    /// Which deployment it belongs to.
    pub deployment: DeploymentId,
    /// Which instance it is; one process at most runs for it.
    pub instance: InstanceId,
    /// `owner/name` of the deployment, for log lines and the titles of processes.
    pub label: String,
    /// Where it runs.
    pub zone: String,
    /// The TCP port it listens on.
    pub port: u16,
    /// Processors.
    pub cpus: u32,
    /// Gigabytes (2^30) of memory.
    pub memory_gb: u32,
    /// Gigabytes (2^30) of volume.
    pub volume_gb: u32,
    /// Its databases; the first is the default one.
    pub databases: Vec<ServedName>,
    /// Its settings.
    pub settings: Settings,
    /// Whether it answers `GET metrics`.
    pub expose_stats: bool,
}

/// What one database begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseSeed {
    /// One branch `main` with one empty commit.
    Empty {
        /// Whose commit, and when.
        author: Signature,
    },
    /// A commit of a hub database with all of its history, on one branch.
    Hub {
        /// The database.
        database: DatabaseId,
        /// The commit.
        commit: CommitHash,
        /// The branch that will be at the commit; it becomes the default branch.
        branch: RefName,
    },
    /// A file of a backup. Its hash and its integrity are checked before it is used.
    Backup {
        /// Where it is.
        file: BackupFile,
        /// What is in it.
        content: CopiedDatabase,
    },
}

/// A database of a backup, in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupFile {
    /// Of which deployment.
    pub deployment: DeploymentId,
    /// Which backup.
    pub backup: BackupId,
    /// Which database.
    pub database: ServedName,
}

/// What a verified copy of a database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDatabase {
    /// Which database.
    pub name: ServedName,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// Branches with their heads, by name.
    pub heads: Vec<(RefName, CommitHash)>,
}

/// A process of an instance: enough to find it again after a restart of the server, and to tell it from a foreign one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceHandle {
    /// Of which instance.
    pub instance: InstanceId,
    /// The id by which the provisioner's platform knows the process.
    pub process: u32,
    /// When the process started, in whatever form the platform tells it; only compared.
    pub process_started: String,
}

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceEvent {
    /// It serves.
    Ready {
        /// The host that clients are given.
        host: String,
        /// The engine it runs, without a leading `v`.
        version: String,
    },
    /// It ended, by itself or because it was stopped. The last event of a process.
    Ended {
        /// Why, in words: an exit status or a signal.
        cause: String,
        /// The last of its standard error, at most 2 KiB, without anything that looks like a token.
        stderr: String,
    },
    /// It missed three pings; it is alive but of no use.
    Unresponsive,
    /// Its volume became full, or has room again.
    VolumeFull(bool),
}

/// A place between two log lines of an instance; grows with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputPosition {
    /// Number of the file, counting up.
    pub segment: u64,
    /// Byte in it.
    pub offset: u64,
}

/// Which lines are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputQuery {
    /// From where; `None` = from the end towards older lines, from the beginning towards newer ones.
    pub from: Option<OutputPosition>,
    /// In which direction.
    pub towards: Towards,
    /// The most lines.
    pub limit: usize,
    /// Only lines of this time and later.
    pub since: Option<Timestamp>,
    /// Only lines of this time and earlier.
    pub until: Option<Timestamp>,
}

/// A direction in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// The lines that end at or before the position.
    Older,
    /// The lines that begin at or after it.
    Newer,
}

/// A line an instance wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// When.
    pub time: Timestamp,
    /// What, without the newline.
    pub text: String,
    /// Where it begins.
    pub begin: OutputPosition,
    /// Where it ends, and the next one begins.
    pub end: OutputPosition,
}

/// A checked caller of a deployment's SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlCaller {
    /// The user.
    pub user: AccountId,
    /// Name for commits.
    pub name: String,
    /// Primary address for commits; may be empty.
    pub email: String,
    /// What they may do.
    pub power: SqlPower,
    /// When the token expires, if it does.
    pub expires_at: Option<Timestamp>,
}

/// The answer to a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorized {
    /// The token is good and its user has a role here.
    Caller(SqlCaller),
    /// The token is unknown, expired or revoked, or its user suspended.
    BadToken,
    /// The token is good; its user has no role here.
    NoRole,
}

/// Checks callers of instances, on every request.
pub trait Authorizer: Send + Sync {
    /// Checks a token for an instance; notes it as used from `address`.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`] when the store does not answer: then it is not known.
    fn authorize(
        &self,
        token: &HashedToken,
        instance: InstanceId,
        address: Option<IpAddr>,
    ) -> Result<Authorized, ProvisionError>;
}

/// Runs instances. All methods that change something may be repeated: what is done already stays done.
pub trait Provisioner: Send + Sync {
    /// Takes the callback with which instances check their callers. Called once, before any `start` or `adopt`.
    fn connect(&self, authorizer: Arc<dyn Authorizer>);

    /// What a zone offers.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] for a zone it does not run.
    fn features(&self, zone: &str) -> Result<ZoneFeatures, ProvisionError>;

    /// Whether a port can be bound now.
    fn port_is_free(&self, port: u16) -> bool;

    /// Makes folder and databases of an instance. `seeds` has one for each of `spec.databases`, in their order. All or
    /// nothing: cut short, the next call begins anew.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] when a seed is damaged or does not fit the volume.
    fn prepare(&self, spec: &InstanceSpec, seeds: &[DatabaseSeed]) -> Result<(), ProvisionError>;

    /// Removes the data of an instance that does not run; its logs stay until [`Provisioner::forget`].
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] while it runs.
    fn remove(&self, instance: InstanceId) -> Result<(), ProvisionError>;

    /// Removes all that is left of a deployment: folders and logs.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] while an instance of it runs.
    fn forget(&self, deployment: DeploymentId) -> Result<(), ProvisionError>;

    /// Runs a prepared instance, or gives the process that runs it. Returns before it is ready; it is ready, or killed as
    /// ended, within 30 s.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] when it was not prepared.
    fn start(&self, spec: &InstanceSpec) -> Result<InstanceHandle, ProvisionError>;

    /// Takes over a process that an earlier server started. Its next event is `Ready`.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] when it ended or does not prove that it is the one; it is left alone then.
    fn adopt(&self, spec: &InstanceSpec, handle: &InstanceHandle) -> Result<(), ProvisionError>;

    /// The next event of a process, waiting at most this long; `None` when there was none. Each is given once.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] for a process that ended and whose end was told.
    fn watch(&self, handle: &InstanceHandle, wait: Duration) -> Result<Option<InstanceEvent>, ProvisionError>;

    /// Has a process refuse new requests and finish running ones within `deadline`; kills it after. Returns when it ended,
    /// also when it had before. Its end is not told by `watch`.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`] when it cannot be ended.
    fn stop(&self, handle: &InstanceHandle, deadline: Duration) -> Result<(), ProvisionError>;

    /// Gives up a process without ending it, when the server stops and its instances go on for a while.
    fn release(&self, handle: &InstanceHandle);

    /// Gives a running process its settings; those applied at a start are kept for the next one.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`].
    fn apply(&self, handle: &InstanceHandle, settings: &Settings) -> Result<(), ProvisionError>;

    /// Has a process forget the callers it remembers for when the server is away.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`].
    fn forget_callers(&self, handle: &InstanceHandle) -> Result<(), ProvisionError>;

    /// Where the server itself reaches a process.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`].
    fn address(&self, handle: &InstanceHandle) -> Result<SocketAddr, ProvisionError>;

    /// Measures a process now. Counts are those since the last call for the same process.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`].
    fn sample(&self, handle: &InstanceHandle) -> Result<Sample, ProvisionError>;

    /// Lines of an instance, running or not, oldest first. Of an instance without any, none.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`].
    fn logs(&self, instance: InstanceId, query: &OutputQuery) -> Result<Vec<OutputLine>, ProvisionError>;

    /// Bytes of each database, in their order, running or not.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] when the instance has no data.
    fn sizes(&self, spec: &InstanceSpec) -> Result<Vec<u64>, ProvisionError>;

    /// Copies all databases of an instance, running or not, each at one instant; opens the copies, checks their integrity and
    /// their heads, and puts them into the blob store as files of this backup. Cut short or failing, it leaves none of them.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] when a copy is damaged.
    fn snapshot(&self, spec: &InstanceSpec, backup: BackupId) -> Result<Vec<CopiedDatabase>, ProvisionError>;

    /// Adds a database to a running instance, once per operation.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] when the seed does not fit.
    fn create_database(
        &self,
        handle: &InstanceHandle,
        operation: OperationId,
        name: &ServedName,
        seed: &DatabaseSeed,
    ) -> Result<(), ProvisionError>;

    /// Takes a database away from a running instance, once per operation; one that is not there is fine.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`].
    fn drop_database(
        &self,
        handle: &InstanceHandle,
        operation: OperationId,
        name: &ServedName,
    ) -> Result<(), ProvisionError>;
}
