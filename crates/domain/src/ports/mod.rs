//! Ports: what the domain needs from the outside, as traits.

mod blobs;
mod clock;
mod deployments;
mod engine;
mod formats;
mod hooks;
mod metadata;
mod metrics;
mod provisioner;
mod session;

pub use blobs::{Blobs, BlobsError, ReadSeek};
pub use clock::{Clock, Ids};
pub use deployments::{
    BackupRepository, DeploymentOperationFilter, DeploymentOperationKind, DeploymentOperationRepository,
    DeploymentRepository, InstanceRepository, LedgerRepository, Resolution, SampleRepository,
};
pub use engine::{
    Canceled, ChangedRows, Column, Engine, EngineError, Flow, ImportColumn, ImportJob, ImportTarget, MergeJob,
    MergeOutcome, Reachability, ReadQuery, ReadReport, RowOrder, RowPage, RowSink, RowTest, ScriptJob, Selected,
    Selection, SqlFailure, TableScan, Test, ValueRef, WriteJob, Written,
};
pub use formats::{FormatError, FormatInput, Formats, ImportFile, InferredColumn, Opener, RowSource, TargetColumn};
pub use hooks::{AddressError, LookedUp, Parcel, Payloads, Reply, RetryAfter, Sender, Sent, Vault};
pub use metadata::{
    AccountRepository, ActivityRepository, CollaboratorRepository, DatabaseFilter, DatabaseRepository, DeliveryBacklog,
    DeliveryRepository, DeliveryState, EventRepository, FetchBacklog, FetchEnd, HookRepository, IdempotencyRepository,
    InvitationRepository, Lease, LeaseTurn, MemberRepository, Metadata, MetadataError, OperationBacklog,
    OperationFilter, OperationRepository, OperationState, Places, PullFetch, PullFilter, PullRepository, PullStanding,
    Ranking, RefRepository, ReleaseRepository, SavedAnswer, SessionRepository, StarRepository, TokenRepository, Unit,
    UploadRepository,
};
pub use metrics::{Metric, Sample, Series, Summary};
pub use provisioner::{
    Authorized, Authorizer, BackupFile, CopiedDatabase, DatabaseSeed, InstanceEvent, InstanceHandle, InstanceSpec,
    OutputLine, OutputPosition, OutputQuery, ProvisionError, Provisioner, SqlCaller, SqlPower, Towards, ZoneFeatures,
};
pub use session::{
    Arguments, BranchHead, Session, SessionCaller, SessionEngine, SessionError, SessionRequest, StatementBounds,
    StatementDescription, StatementReport,
};
