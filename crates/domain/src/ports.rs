//! The ports: traits through which the domain reaches its environment.

mod blobs;
mod clock;
mod cluster;
mod data_keys;
mod database_store;
mod engine;
mod formats;
mod hooks;
mod metadata;
mod pushed_chunks;
mod remote_sources;
mod session;

pub use blobs::{Blobs, BlobsError, ReadSeek};
pub use clock::{Clock, Ids};
pub use cluster::{Cluster, ClusterError};
pub use data_keys::{DataKeys, WrappedDataKey};
pub use database_store::{DatabaseStore, ObjectDigest, ObjectInfo, StoreError};
pub use engine::{
    BatchedWrite, CancellationToken, ChangedRows, Chunk, Collected, CollectedRows, Column, ColumnQuery, ColumnValues,
    DatabaseFiles, Engine, EngineError, HeldChunk, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery,
    ImportColumn, ImportJob, ImportTarget, KeptCommits, KeptHeads, MergeJob, MergeOutcome, PreviewJob, PreviewPlace,
    PreviewRefusal, Previewed, PreviewedTable, PushedHistory, Reachability, ReadQuery, ReadReport, RecordedFormats,
    RowOrder, RowPage, RowSink, RowTest, ScriptJob, Selected, Selection, SqlFailure, SqliteExport, StartedRead,
    TableScan, Test, ValueRef, WriteJob, WritePreview, Written, write_one_by_one,
};
pub use formats::{
    ColumnSpelling, FormatError, FormatInput, Formats, ImportFile, InferredColumn, Opener, Respelled, RowSource,
    SQLITE_TABLES_LISTED, SqliteFileRows, SqliteFileTable, SqliteFiles, TargetColumn,
};
pub use hooks::{AddressError, LookedUp, Payloads, Reply, RetryAfter, Sender, Sent, Vault, WebhookRequest};
pub use metadata::{
    AccountRepository, ActivityRepository, ApplicationRepository, AttemptRepository, AttemptWindow,
    AuthorizationCodeRepository, BranchFacts, BranchRepository, CollaboratorRepository, CollectionRepository,
    DatabaseCounts, DatabaseFilter, DatabaseRepository, DeliveryBacklog, DeliveryRepository, DeliveryState,
    DeviceAuthorizationRepository, DueCollection, DueDelivery, Durability, EventRepository, FetchBacklog, FetchEnd,
    GrantRepository, HookRepository, IdempotencyRepository, InvitationRepository, Lease, LeaseTurn, MemberRepository,
    Metadata, MetadataError, MirrorRepository, OperationBacklog, OperationFilter, OperationRepository, OperationState,
    OrganizationRepository, PersonalDataRepository, Places, PullCommentRepository, PullFetch, PullFetchRepository,
    PullFilter, PullRepository, PullStanding, Ranking, RefLogRepository, RefRepository, ReleaseRepository,
    Repositories, RequestCountRepository, RequestFacts, RequestTarget, RequestWindow, RoleSources, SavedAnswer,
    SessionRepository, SizeChange, StarRepository, TagRepository, TargetDatabase, TokenRepository, Transaction,
    UploadRepository, UserFilter, UserKeyRepository, UserRepository, WatchKey, WatchMarks, WriteKey, WriteKeys,
};
pub use pushed_chunks::{NextChunk, PushedChunks, PushedChunksLoad, Pusher};
pub use remote_sources::{HeldChunks, RemoteSources, SourceConnection, SourceError, SourceRefs, SourceTag, TakeChunks};
pub use session::{
    Arguments, BranchHead, SessionCaller, SessionEngine, SessionError, SessionRequest, SqlPower, SqlSession,
    StatementBounds, StatementDescription, StatementReport,
};
