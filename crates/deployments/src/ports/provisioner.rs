//! The port that runs the processes of deployments.
//!
//! A provisioner knows instances, folders and processes, and makes no decisions: the supervisor calls it, and owns
//! states, restarts, operations and the ledger. Every call may block. Read replicas (`feed`, `hand_over`) and pull
//! requests inside a deployment (`branches`, `merge`) are not offered yet, so the port has no methods for them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use branchyard_auth::HashedToken;

use super::metrics::Sample;
use crate::values::{BackupId, DeploymentId, InstanceId, ServedName, Settings};
use branchyard_domain::entities::Signature;
use branchyard_domain::ports::SqlPower;
use branchyard_domain::values::{AccountId, CommitHash, DatabaseId, OperationId, OwnerName, RefName, Timestamp};

/// An error of the provisioner.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// A retry will not help. The reason becomes the last error of the deployment, which its users can read.
    #[error("{0}")]
    Refused(String),
    /// The data of a prepared instance cannot be found, for example because its file system is not mounted yet. The call
    /// changed nothing. A later call succeeds once the data is back.
    #[error("the data of the instance is missing")]
    NoData {
        /// The path that does not exist, for the operator.
        path: String,
    },
    /// A later retry may help.
    #[error("the provisioner is unavailable: {context}")]
    Unavailable {
        /// The attempted action.
        context: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The process does not exist, or no longer exists.
    #[error("the process is gone")]
    Gone,
}

/// The features of a zone.
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
    /// Credentials with which a deployment signs in to other servers.
    pub credentials: bool,
    /// Available engine versions without a leading `v`, newest first.
    pub versions: Vec<String>,
    /// Memory of the zone in bytes. `None` if it is unknown.
    pub memory_bytes: Option<u64>,
    /// Size in bytes of the file system that holds the volumes. `None` if it is unknown.
    pub disk_bytes: Option<u64>,
}

/// Everything that an instance needs to run, except its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSpec {
    /// The deployment that the instance belongs to.
    pub deployment: DeploymentId,
    /// The instance. At most one process runs for it.
    pub instance: InstanceId,
    /// `owner/name` of the deployment, for log lines and process titles.
    pub label: String,
    /// Zone to run in.
    pub zone: String,
    /// TCP port to listen on.
    pub port: u16,
    /// Number of processors.
    pub cpus: u32,
    /// Memory in gigabytes (2^30 bytes).
    pub memory_gb: u32,
    /// Size of the volume in gigabytes (2^30 bytes).
    pub volume_gb: u32,
    /// Names of the databases; the first one is the default.
    pub databases: Vec<ServedName>,
    /// Settings of the deployment.
    pub settings: Settings,
    /// Revision of the settings. Later settings have a higher one.
    pub settings_revision: i64,
    /// Whether the instance serves `GET metrics`.
    pub expose_stats: bool,
}

/// The initial content of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseSeed {
    /// One branch `main` with one empty commit.
    Empty {
        /// Author and time of that commit.
        author: Signature,
    },
    /// A commit of a hub database with all of its history, on one branch.
    Hub {
        /// The hub database.
        database: DatabaseId,
        /// The commit.
        commit: CommitHash,
        /// The branch that points to the commit. It becomes the default branch.
        branch: RefName,
    },
    /// A file of a backup. The provisioner checks the hash and the integrity of the file before it uses the file.
    Backup {
        /// The file.
        file: BackupFile,
        /// The expected content of the file.
        content: CopiedDatabase,
    },
}

/// The address of a database of a backup in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupFile {
    /// The deployment that was backed up.
    pub deployment: DeploymentId,
    /// The backup.
    pub backup: BackupId,
    /// The database.
    pub database: ServedName,
}

/// The content of a verified copy of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDatabase {
    /// Name of the database.
    pub name: ServedName,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
    /// Branches and their heads, sorted by name.
    pub heads: Vec<(RefName, CommitHash)>,
}

/// The identity of a process of an instance. After a restart of the server, it suffices to find the process again and
/// to recognize a reused process id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceHandle {
    /// The instance that the process runs.
    pub instance: InstanceId,
    /// Id of the process on the provisioner's platform.
    pub process: u32,
    /// Start time of the process in the format of the platform. Only compared for equality.
    pub process_started: String,
}

/// An event of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceEvent {
    /// The process serves requests.
    Ready {
        /// Host name that clients connect to.
        host: String,
        /// Engine version without a leading `v`.
        version: String,
    },
    /// The process ended, by itself or because it was stopped. This is the last event of a process.
    Ended {
        /// The exit status or signal, as text.
        cause: String,
        /// The end of standard error: at most 2 KiB, without anything that resembles a token.
        stderr: String,
    },
    /// The process missed three pings. It is alive, but does not serve.
    Unresponsive,
    /// The volume became full (`true`) or has room again (`false`).
    VolumeFull(bool),
}

/// An event that the supervisor records in the log of an instance, for the users of the deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisorEvent {
    /// The process ends again and again, and is started less and less often.
    CrashLoop {
        /// The last error, without anything that resembles a token.
        error: String,
    },
    /// The data is about to be removed without a backup, because its owner asked for that.
    DataDiscarded {
        /// Name of the user.
        by: OwnerName,
    },
}

/// A position between two log lines of an instance. Positions increase with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputPosition {
    /// Number of the log file; increasing.
    pub segment: u64,
    /// Byte offset in that file.
    pub offset: u64,
}

/// A selection of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputQuery {
    /// Start position. `None` is the end for [`Towards::Older`], and the beginning for [`Towards::Newer`].
    pub from: Option<OutputPosition>,
    /// Direction from the start position.
    pub towards: Towards,
    /// Maximum number of lines.
    pub limit: usize,
    /// Only lines at or after this time.
    pub since: Option<Timestamp>,
    /// Only lines at or before this time.
    pub until: Option<Timestamp>,
}

/// A direction in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// Lines that end at or before the position.
    Older,
    /// Lines that begin at or after the position.
    Newer,
}

/// A log line of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Time of the line.
    pub time: Timestamp,
    /// Text of the line, without the newline.
    pub text: String,
    /// Position at which the line begins.
    pub begin: OutputPosition,
    /// Position at which the line ends and the next one begins.
    pub end: OutputPosition,
}

/// An authenticated caller of a deployment's SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlCaller {
    /// Account of the user.
    pub user: AccountId,
    /// Name for commits.
    pub name: String,
    /// Primary email address for commits; may be empty.
    pub email: String,
    /// What the caller's role allows in SQL.
    pub power: SqlPower,
    /// Expiry of the token. `None` if the token does not expire.
    pub expires_at: Option<Timestamp>,
}

/// The result of a token check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorized {
    /// The token is valid and its user has a role on the deployment.
    Caller(SqlCaller),
    /// The token is unknown, expired or revoked, or its user is suspended.
    BadToken,
    /// The token is valid, but its user has no role on the deployment.
    NoRole,
    /// The hub database that the deployment was cloned from is quarantined. All callers have to wait until it is
    /// released.
    Withheld,
}

/// The callback that checks the callers of instances, on every request.
pub trait Authorizer: Send + Sync {
    /// Checks a token for an instance, and records that the token was used from `address`.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`] if the store does not answer. The result of the check is then unknown.
    fn authorize(
        &self,
        token: &HashedToken,
        instance: InstanceId,
        address: Option<IpAddr>,
    ) -> Result<Authorized, ProvisionError>;
}

/// A provisioner of instances. All methods that change something are idempotent.
pub trait Provisioner: Send + Sync {
    /// Sets the callback with which instances check their callers. Called once, before any `start` or `adopt`.
    fn connect(&self, authorizer: Arc<dyn Authorizer>);

    /// Returns the features of a zone.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if the provisioner does not run the zone.
    fn features(&self, zone: &str) -> Result<ZoneFeatures, ProvisionError>;

    /// Returns `true` if the port can be bound now.
    fn port_is_free(&self, port: u16) -> bool;

    /// Creates the folder and the databases of an instance. `seeds` has one entry per entry of `spec.databases`, in the
    /// same order. The call is atomic: after an interruption, the next call starts over.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if a seed is damaged or does not fit the volume.
    fn prepare(&self, spec: &InstanceSpec, seeds: &[DatabaseSeed]) -> Result<(), ProvisionError>;

    /// Removes the data of an instance that does not run. Its logs stay until [`Provisioner::forget`].
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if the instance runs.
    fn remove(&self, instance: InstanceId) -> Result<(), ProvisionError>;

    /// Removes all remaining folders and logs of a deployment.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if an instance of the deployment runs.
    fn forget(&self, deployment: DeploymentId) -> Result<(), ProvisionError>;

    /// Starts a prepared instance and returns its process. If the instance already runs, returns the running process.
    ///
    /// The call returns before the process is ready. Within 30 s, the process becomes ready, or is killed and reported
    /// as ended.
    ///
    /// # Errors
    /// [`ProvisionError::NoData`] if the databases of the instance are missing.
    fn start(&self, spec: &InstanceSpec) -> Result<InstanceHandle, ProvisionError>;

    /// Takes over a process that an earlier run of the server started. The next event of the process is
    /// [`InstanceEvent::Ready`].
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the process ended, or cannot prove its identity. The process is then left alone.
    fn adopt(&self, spec: &InstanceSpec, handle: &InstanceHandle) -> Result<(), ProvisionError>;

    /// Returns the next event of a process, waiting for at most `wait`. Returns `None` if no event occurred. Each event
    /// is returned once.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the [`InstanceEvent::Ended`] of the process has already been returned.
    fn watch(&self, handle: &InstanceHandle, wait: Duration) -> Result<Option<InstanceEvent>, ProvisionError>;

    /// Makes a process refuse new requests and finish running ones within `deadline`, and kills it afterwards. Returns
    /// when the process has ended, or at once if it had ended before. `watch` does not report this end.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`] if the process cannot be ended.
    fn stop(&self, handle: &InstanceHandle, deadline: Duration) -> Result<(), ProvisionError>;

    /// Detaches from a process without ending it. Used when the server stops and its instances go on serving for a
    /// while.
    fn release(&self, handle: &InstanceHandle);

    /// Applies settings to a running process. Settings that take effect at a start are stored for the next start.
    ///
    /// Does nothing if settings with a higher `revision` were applied to the instance before, or the process was started
    /// with them: of several callers, the one with the newest settings prevails, in whatever order they arrive.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the process has ended.
    fn apply(&self, handle: &InstanceHandle, settings: &Settings, revision: i64) -> Result<(), ProvisionError>;

    /// Makes a process drop its cache of callers, which serves while the server is unreachable.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the process has ended.
    fn forget_callers(&self, handle: &InstanceHandle) -> Result<(), ProvisionError>;

    /// Returns the address at which the server itself reaches a process.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the process has ended.
    fn address(&self, handle: &InstanceHandle) -> Result<SocketAddr, ProvisionError>;

    /// Measures a process now. Counts cover the time since the previous call for the same process.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the process has ended.
    fn sample(&self, handle: &InstanceHandle) -> Result<Sample, ProvisionError>;

    /// Returns log lines of an instance, oldest first. The instance need not run. Returns no lines if the instance has
    /// none.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`] if the logs cannot be read.
    fn logs(&self, instance: InstanceId, query: &OutputQuery) -> Result<Vec<OutputLine>, ProvisionError>;

    /// Records an event in the log of an instance, as a line with `event=`. The instance need not run. Does nothing if the
    /// instance has no folder.
    ///
    /// # Errors
    /// [`ProvisionError::Unavailable`] if the log cannot be written.
    fn record(&self, instance: InstanceId, event: &SupervisorEvent) -> Result<(), ProvisionError>;

    /// Returns the size of each database in bytes, in the order of `spec.databases`. The instance need not run.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if the instance has no data.
    fn sizes(&self, spec: &InstanceSpec) -> Result<Vec<u64>, ProvisionError>;

    /// Copies all databases of an instance, each at one instant. The instance need not run. Opens the copies, checks
    /// their integrity and their heads, and stores them in the blob store as files of `backup`. If the call fails or is
    /// interrupted, no file remains.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if a copy is damaged.
    fn snapshot(&self, spec: &InstanceSpec, backup: BackupId) -> Result<Vec<CopiedDatabase>, ProvisionError>;

    /// Adds a database to a running instance. Repeated calls with the same `operation` have no further effect.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if the seed does not fit the volume.
    fn create_database(
        &self,
        handle: &InstanceHandle,
        operation: OperationId,
        name: &ServedName,
        seed: &DatabaseSeed,
    ) -> Result<(), ProvisionError>;

    /// Removes a database from a running instance. Repeated calls with the same `operation` have no further effect.
    /// Succeeds if the database does not exist.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if the process has ended.
    fn drop_database(
        &self,
        handle: &InstanceHandle,
        operation: OperationId,
        name: &ServedName,
    ) -> Result<(), ProvisionError>;
}
