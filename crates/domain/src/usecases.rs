//! Use cases, grouped by aggregate and gathered in one [`Hub`].

mod absent;
mod activities;
mod administration;
mod applications;
mod at_time;
mod branches;
mod browse;
mod collaborators;
mod collections;
mod databases;
mod deadline;
mod devices;
mod direct_ends;
mod direct_writes;
mod edit_checks;
mod edits;
mod engine_files;
mod exports;
mod files;
mod free_space;
mod grants;
mod history;
mod hooks;
mod hub_builder;
mod idempotency;
mod imports;
mod invitations;
mod keys;
mod lookup_cache;
mod members;
mod mirrors;
mod nodes;
mod observers;
mod operations;
mod organizations;
mod outbox;
mod people;
mod personal_data;
mod progress;
mod pulls;
mod push_phases;
mod pushes;
mod put_off_copies;
mod quotas;
mod recovery;
mod ref_log;
mod releases;
mod remotes;
mod renames;
mod request_counts;
mod revisions;
mod revocations;
mod row_history;
mod row_keys;
mod run;
mod secrets;
mod sessions;
mod settled;
mod show;
mod signals;
mod sql;
mod stars;
mod statement_notes;
mod tags;
mod texts;
mod tokens;
mod uploaded;
mod upstream;
mod user_deletion;
mod valid_token;
mod wake;
mod watches;
mod worker_shares;
mod write_keys;
mod write_previews;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use activities::{Activities, News};
pub use administration::{Administration, UserStanding};
pub use applications::Applications;
pub use branches::{BranchStanding, Branches, DeletedBranch, Divergence, NewBranch, RecentPush, ResetPreview};
pub use browse::{Browse, LookEnd, TableSize, ValuesFound};
pub use collaborators::Collaborators;
pub use collections::{CollectionStep, Collections};
pub use databases::{DatabaseView, Databases, EditDatabase, NewDatabase};
pub use devices::{Devices, WaitingDevice};
pub use direct_writes::{DirectPlace, DirectProgress, DirectTurn, DirectWaiter, KeepAnswer, most_direct_turns};
pub use edit_checks::{EditCheck, EditCheckEnd};
pub use edits::NewEdit;
pub use exports::{ExportLimits, ExportedRows, Exports};
pub use files::{NewFileImport, StoredFile};
pub use grants::{AuthorizationRequest, CheckedAccess, GrantView, Grants, IssuedTokens, RevokedToken};
pub use history::History;
pub use hooks::{
    Attempted, Deliveries, Dispatch, EditHook, HookAddress, HookView, Hooks, NewHook, Room, Run, SecretHook, Turn,
};
pub use hub_builder::{HubBuilder, WebhookPorts};
pub use idempotency::IdempotencyRecord;
pub use imports::{CompletedPart, Imports, NewImport, NewUpload, OpenedUpload};
pub use invitations::{Applicant, Invitations, MintedInvitation, SignUp};
pub use keys::Keys;
pub use members::Members;
pub use mirrors::{EditMirror, Mirrors, NewMirror};
pub use nodes::{ClusterView, Nodes};
pub use observers::{DeliveryAttempt, DeliveryObserver, OperationAttempt, OperationObserver};
pub use operations::{Ended, Operations, RestoreBranch, ResultView, SqlWrite};
pub use organizations::{EditOrganization, NewOrganization, OrganizationView, Organizations};
pub use people::{NewUser, People, Profile};
pub use personal_data::PersonalData;
pub use progress::{OperationProgress, ProgressStage};
pub use pulls::rules as pull_rules;
pub use pulls::{
    EditPull, GoneBranch, MergePull, NewPull, PreviewStage, PullEdges, PullPreview, Pulls, Refreshed, ShownPull,
    Synced, WantedState, Withdrawable,
};
pub use push_phases::PushPhase;
pub use pushes::{PushStep, Pushes, RefChange};
pub use recovery::Recovery;
pub use releases::{EditRelease, NewRelease, Releases};
pub use remotes::{RemoteRefs, Remotes};
pub use request_counts::RequestCounts;
pub use row_history::{CellBlame, RowBlame, RowHistories, RowHistory, RowRevision, WantedHistory};
pub use secrets::{ResealOutcome, Secrets, UnreadableHook};
pub use sessions::{Client, OpenedSession, Sessions, SignInLimits};
pub use settled::SettlementWatch;
pub use signals::Signal;
pub use sql::{ReadEnd, Sql};
pub use stars::Stars;
pub use statement_notes::{StatementNotes, UnlimitedChange};
pub use tags::{NewTag, Tags};
pub use tokens::{MintedToken, Tokens};
pub use uploaded::{ArrivedImport, Preview, PreviewOptions};
pub use upstream::CommitCount;
pub use user_deletion::{DeleteUser, DeletedUser};
pub use valid_token::ValidToken;
pub use wake::Wake;
pub use watches::Watches;
pub use write_previews::{PreviewEnd, PreviewReport};

use crate::entities::{FileType, Operation};
use crate::errors::PortError;
use crate::ports::{
    Blobs, Clock, Cluster, Engine, Formats, Ids, Metadata, Payloads, PushedChunks, RemoteSources, Sender, Transaction,
    Vault,
};
use crate::values::Timestamp;

/// Configurable limits. `docs/configuration.md` documents all of them.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The sign-up mode.
    pub sign_up: SignUp,
    /// Lifetime of a session in seconds, counted from its last use.
    pub session_seconds: i64,
    /// Maximum lifetime of a session in seconds, counted from the sign-in.
    pub session_max_seconds: i64,
    /// How long after the user entered the password a session may do what is hard to undo, in seconds.
    pub confirm_seconds: i64,
    /// Limits on attempts to sign in.
    pub sign_ins: SignInLimits,
    /// Lifetime of an invitation in seconds.
    pub invitation_seconds: i64,
    /// Maximum number of unexpired tokens per user.
    pub tokens_per_user: u64,
    /// Maximum number of keys of clients of the engine per user.
    pub keys_per_user: u64,
    /// Whether anonymous callers may run SQL, on databases that allow it.
    pub anonymous_sql: bool,
    /// Free bytes of storage below which only deletions and sign-in are served; 0 means no limit.
    pub min_free_bytes: u64,
    /// Seconds for which changes of branches and tags are recorded, and what they leave behind is kept; 0 means that it is garbage at
    /// once.
    pub history_seconds: i64,
    /// Maximum number of databases per owner; 0 means no limit.
    pub databases_per_owner: u64,
    /// Maximum number of bytes of an owner: files of databases, uploads, and the texts of stored operations; 0 means no
    /// limit.
    pub bytes_per_owner: u64,
    /// Maximum number of operations on an owner's databases in 24 hours; 0 means no limit.
    pub operations_per_day: u64,
    /// Maximum number of organizations that a user owns; 0 means no limit.
    pub organizations_per_user: u64,
    /// Maximum number of queued operations per database.
    pub queued_per_database: u64,
    /// Maximum number of operations that run at once in this process, not counting long-running ones; 0 means no limit. One
    /// creator may have at most half of them.
    pub operation_workers: usize,
    /// Number of long-running operations at which a creator that has one starts no further operation; 0 means no limit.
    pub long_operation_places: usize,
    /// Milliseconds after which an operation counts as long-running.
    pub long_operation_after_ms: u64,
    /// Lease of a fetch for a pull request, in seconds. The fetching process extends the lease. Once it expires, the fetch
    /// is started again.
    pub pull_fetch_lease_seconds: i64,
    /// Maximum size of an imported file in bytes.
    pub import_bytes: u64,
    /// Maximum number of parts of an imported file.
    pub import_parts: u32,
    /// Maximum size in bytes of one value of an imported file, and of one statement of a script.
    pub import_value_bytes: usize,
    /// Lifetime of an upload session in seconds.
    pub upload_session_seconds: i64,
    /// Maximum number of unused upload sessions per user.
    pub open_uploads_per_user: u64,
    /// Time limit for the statements of a write, in milliseconds.
    pub write_timeout_ms: u64,
    /// Time limit for an import, in milliseconds.
    pub import_timeout_ms: u64,
    /// Time limit for the preview of a file, in milliseconds.
    pub preview_timeout_ms: u64,
    /// Time in milliseconds in which the columns of a file are read to check the settings of an import before it is queued.
    pub import_columns_timeout_ms: u64,
    /// Time limit for a merge, in milliseconds.
    pub merge_timeout_ms: u64,
    /// Retention of settled operations in seconds.
    pub operation_retention_seconds: i64,
    /// Retention of saved answers in seconds.
    pub answer_retention_seconds: i64,
    /// Reserved owner names besides the built-in ones, matched in any letter case.
    pub reserved_names: Vec<String>,
    /// Maximum number of branches and tags that a clone or a fetch receives.
    pub remote_refs: usize,
    /// Maximum number of bytes that a user uploads for pushes to a database before one takes them over.
    pub push_bytes: u64,
    /// Seconds after the last upload for a push for which the uploaded chunks are kept.
    pub pushed_chunks_seconds: i64,
    /// Time limit for the check of a pushed commit, in milliseconds.
    pub push_check_timeout_ms: u64,
    /// Seconds for which clients that clone or fetch may read the commits of a branch or tag after it was deleted or moved by
    /// force.
    pub remote_grace_seconds: i64,
    /// Maximum number of hooks per database.
    pub hooks_per_database: u64,
    /// Time limit for one delivery attempt, in milliseconds.
    pub hook_timeout_ms: u64,
    /// Milliseconds before each attempt of a delivery, counted from the end of the previous one. Their number is the number
    /// of attempts.
    pub hook_retry_delays_ms: Vec<u64>,
    /// Seconds of uninterrupted failures after which a hook is disabled.
    pub hook_disable_after_seconds: i64,
    /// Retention of finished deliveries in seconds.
    pub hook_log_retention_seconds: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sign_up: SignUp::default(),
            session_seconds: 30 * 86_400,
            session_max_seconds: 90 * 86_400,
            confirm_seconds: 900,
            sign_ins: SignInLimits::default(),
            invitation_seconds: 7 * 86_400,
            tokens_per_user: 100,
            keys_per_user: 20,
            anonymous_sql: true,
            min_free_bytes: 0,
            history_seconds: 7 * 86_400,
            databases_per_owner: 0,
            bytes_per_owner: 0,
            operations_per_day: 0,
            organizations_per_user: 0,
            queued_per_database: 100,
            operation_workers: 0,
            long_operation_places: 0,
            long_operation_after_ms: 1_000,
            pull_fetch_lease_seconds: 60,
            import_bytes: 1 << 30,
            import_parts: 1_000,
            import_value_bytes: 16 << 20,
            upload_session_seconds: 3_600,
            open_uploads_per_user: 20,
            write_timeout_ms: 60_000,
            import_timeout_ms: 600_000,
            preview_timeout_ms: 10_000,
            import_columns_timeout_ms: 2_000,
            merge_timeout_ms: 600_000,
            operation_retention_seconds: 90 * 86_400,
            answer_retention_seconds: 86_400,
            reserved_names: Vec::new(),
            remote_refs: 5_000,
            push_bytes: 2 << 30,
            pushed_chunks_seconds: 3_600,
            push_check_timeout_ms: 300_000,
            remote_grace_seconds: 0,
            hooks_per_database: 20,
            hook_timeout_ms: 15_000,
            hook_retry_delays_ms: [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
                .map(|seconds| seconds * 1_000)
                .to_vec(),
            hook_disable_after_seconds: 5 * 86_400,
            hook_log_retention_seconds: 30 * 86_400,
        }
    }
}

/// The ports through which the domain reaches the outside world.
pub(crate) struct Ports {
    /// Store of users, refs, pull requests and operations.
    pub(crate) metadata: Arc<dyn Metadata>,
    /// Store of commits, which also runs SQL.
    pub(crate) engine: Arc<dyn Engine>,
    /// The nodes that share these stores. `None` if no other process writes databases.
    pub(crate) cluster: Option<Arc<dyn Cluster>>,
    /// Store of uploaded files.
    pub(crate) blobs: Arc<dyn Blobs>,
    /// Store of the chunks of pushes. `None` if pushes are refused.
    pub(crate) pushed_chunks: Option<Arc<dyn PushedChunks>>,
    /// Access to the sources of mirrors. `None` if there are no mirrors.
    pub(crate) sources: Option<Arc<dyn RemoteSources>>,
    /// Readers of file formats.
    pub(crate) formats: Arc<dyn Formats>,
    /// Source of time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Source of ids and randomness.
    pub(crate) ids: Arc<dyn Ids>,
    /// Renders the bodies of webhook events.
    pub(crate) payloads: Arc<dyn Payloads>,
    /// Seals and opens the secrets of hooks.
    pub(crate) vault: Arc<dyn Vault>,
    /// Sends requests to hooks.
    pub(crate) sender: Arc<dyn Sender>,
    /// Whether files can be uploaded.
    pub(crate) takes_uploads: bool,
    /// Whether events are recorded for hooks.
    pub(crate) sends_webhooks: bool,
}

impl Ports {
    /// Returns `true` if files of this format can be uploaded and imported. The engine runs SQL scripts itself.
    pub(crate) fn reads_files_as(&self, file_type: FileType) -> bool {
        self.takes_uploads && (file_type == FileType::Sql || self.formats.supports(file_type))
    }
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) limits: Limits,
    pub(crate) free_space: free_space::FreeSpace,
    /// Whether nothing may be changed ([`Hub::set_read_only`]).
    pub(crate) is_read_only: AtomicBool,
    pub(crate) wake: wake::Wake,
    pub(crate) worker_shares: worker_shares::WorkerShares,
    pub(crate) direct: Arc<direct_writes::DirectWrites>,
    pub(crate) direct_ends: direct_ends::DirectEnds,
    pub(crate) previews: write_previews::RunningPreviews,
    pub(crate) push_phases: push_phases::PushPhases,
    pub(crate) outbox: wake::Wake,
    pub(crate) revocations: revocations::Revocations,
    pub(crate) fetch_wake: wake::Wake,
    pub(crate) fetches: pulls::Fetches,
    pub(crate) remembered: lookup_cache::Remembered,
    pub(crate) reachable: Arc<revisions::Reachable>,
    pub(crate) behind: operations::StrandedLeases,
    pub(crate) progress: progress::ImportProgress,
    pub(crate) settled: Arc<settled::Settled>,
    pub(crate) peers: signals::Peers,
    /// Pushes whose callers went away before they ended.
    pub(crate) unanswered_pushes: pushes::UnansweredPushes,
    pub(crate) collection_wake: wake::Wake,
    /// Held by the one garbage collection that may run.
    pub(crate) collecting: parking_lot::Mutex<()>,
    /// Forks whose files were made, before their sizes are recorded.
    pub(crate) made_copies: put_off_copies::MadeCopies,
    /// Number of recorded changes of refs.
    pub(crate) ref_changes: AtomicU64,
}

impl Inner {
    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }
}

/// The entry point to all use cases. Cheap to clone; adapters and embedders hold one.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

macro_rules! nouns {
    ($($(#[$doc:meta])* $method:ident: $group:ident;)+) => {
        impl Hub {$(
            $(#[$doc])*
            pub fn $method(&self) -> $group<'_> {
                $group::new(&self.inner)
            }
        )+}
    };
}

nouns! {
    /// Users.
    people: People;
    /// Administration of the server: suspended users, revoked credentials, quarantined databases.
    administration: Administration;
    /// Administration of the nodes of a cluster.
    nodes: Nodes;
    /// Organizations and access to them.
    organizations: Organizations;
    /// Members of organizations.
    members: Members;
    /// Sign-in and sessions.
    sessions: Sessions;
    /// Invitations and sign-up.
    invitations: Invitations;
    /// API tokens.
    tokens: Tokens;
    /// Keys of clients of the engine.
    keys: Keys;
    /// Applications that act for users.
    applications: Applications;
    /// What users granted to applications.
    grants: Grants;
    /// Devices that wait for the consent of a user.
    devices: Devices;
    /// Databases and access to them.
    databases: Databases;
    /// Users with a role of their own on a database.
    collaborators: Collaborators;
    /// The activity feed.
    activities: Activities;
    /// Stars on databases.
    stars: Stars;
    /// Branches.
    branches: Branches;
    /// Tags.
    tags: Tags;
    /// Releases.
    releases: Releases;
    /// Remotes: clones and fetches by clients of the engine.
    remotes: Remotes;
    /// Pushes by clients of the engine.
    pushes: Pushes;
    /// Mirrors of databases of other servers.
    mirrors: Mirrors;
    /// Pull requests.
    pulls: Pulls;
    /// Commits, differences and table definitions.
    history: History;
    /// The history of rows and tables.
    row_histories: RowHistories;
    /// SQL reads.
    sql: Sql;
    /// Table browsing.
    browse: Browse;
    /// Exports of whole tables.
    exports: Exports;
    /// Uploads and imports.
    imports: Imports;
    /// Garbage collections in the background.
    collections: Collections;
    /// Branches of commits that the metadata store had lost.
    recovery: Recovery;
    /// Operations: SQL writes, merges, forks, imports and purges.
    operations: Operations;
    /// Webhooks.
    hooks: Hooks;
    /// The delivery log of webhooks.
    deliveries: Deliveries;
    /// Dispatch of webhook events from the outbox to their receivers.
    dispatch: Dispatch;
    /// Requests of users, counted by all servers together.
    request_counts: RequestCounts;
    /// The keys that secrets are sealed under.
    secrets: Secrets;
    /// What open pages follow.
    watches: Watches;
}

impl Hub {
    /// Returns a builder of a hub over this metadata store and engine.
    pub fn builder(metadata: Arc<dyn Metadata>, engine: Arc<dyn Engine>) -> HubBuilder {
        HubBuilder::new(metadata, engine)
    }

    fn new(ports: Ports, limits: Limits) -> Self {
        let worker_shares = worker_shares::WorkerShares::new(limits.operation_workers, limits.long_operation_places);
        let reachable = Arc::new(revisions::Reachable::new(Arc::clone(&ports.metadata)));
        ports.engine.limit_history(reachable.clone());
        ports.engine.check_formats(Arc::new(engine_files::StoredFormats(Arc::clone(&ports.metadata))));
        let made_copies = put_off_copies::MadeCopies::default();
        ports.engine.keep_in_copies(Arc::new(put_off_copies::StoredKeptCommits {
            metadata: Arc::clone(&ports.metadata),
            clock: Arc::clone(&ports.clock),
            kept_seconds: ref_log::kept_seconds_of(&limits),
            made: Arc::clone(&made_copies),
        }));
        let peers = signals::Peers::default();
        Self {
            inner: Arc::new(Inner {
                reachable,
                free_space: free_space::FreeSpace::new(limits.min_free_bytes),
                is_read_only: AtomicBool::new(false),
                direct: Arc::new(direct_writes::DirectWrites::new(limits.operation_workers)),
                direct_ends: direct_ends::DirectEnds::default(),
                previews: write_previews::RunningPreviews::default(),
                push_phases: push_phases::PushPhases::default(),
                ports,
                limits,
                wake: wake::Wake::shared(&peers, Signal::Operation),
                worker_shares,
                outbox: wake::Wake::shared(&peers, Signal::Event),
                revocations: revocations::Revocations::new(&peers),
                fetch_wake: wake::Wake::shared(&peers, Signal::Fetch),
                fetches: pulls::Fetches::default(),
                remembered: lookup_cache::Remembered::default(),
                behind: operations::StrandedLeases::default(),
                progress: progress::ImportProgress::default(),
                settled: Arc::new(settled::Settled::new(&peers)),
                peers,
                unanswered_pushes: pushes::UnansweredPushes::default(),
                collection_wake: wake::Wake::default(),
                collecting: parking_lot::Mutex::default(),
                made_copies,
                ref_changes: AtomicU64::new(0),
            }),
        }
    }

    /// Sets how this process signals others on the same metadata store, which pass the signals on to [`Hub::receive`]. `send` is called
    /// after commits and must not block. Only the first call has an effect.
    pub fn signal_peers(&self, send: impl Fn(Signal) + Send + Sync + 'static) {
        self.inner.peers.reach(Arc::new(send));
    }

    /// Ends waits early because another process changed something. May read from the metadata store.
    ///
    /// # Errors
    /// [`PortError`] if the store fails. Nothing is lost then.
    pub fn receive(&self, signal: Signal) -> Result<(), PortError> {
        let inner = &*self.inner;
        let is = |one| signal == one || signal == Signal::Any;
        if is(Signal::Operation) {
            inner.wake.one_here();
        }
        if is(Signal::Event) {
            inner.outbox.one_here();
        }
        if is(Signal::Fetch) {
            inner.fetch_wake.one_here();
        }
        if is(Signal::Revocation) {
            inner.revocations.announce_here();
        }
        let settled = match signal {
            Signal::Settled(id) => inner.settled.watched(Some(id)),
            Signal::Any => inner.settled.watched(None),
            _ => Vec::new(),
        };
        for id in settled {
            if let Some(operation) = inner.ports.metadata.look()?.operations().get(id)?.filter(Operation::settled) {
                inner.settled.tell_here(&operation);
            }
        }
        Ok(())
    }

    /// Registers a listener that is called after each commit by which a user may have lost rights. Crates that cache
    /// permissions use it to clear their caches.
    pub fn on_revocation(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.inner.revocations.listen(Arc::new(listener));
    }

    /// Registers a listener that is called after each [direct write](Operations::write_directly), with how it ended and how
    /// long its turn took.
    pub fn on_direct_write(&self, listener: impl Fn(Ended, Duration) + Send + Sync + 'static) {
        self.inner.direct_ends.listen(Box::new(listener));
    }

    /// Registers a listener that is called after each part of a [push](Pushes), with the time it took.
    pub fn on_push_phase(&self, listener: impl Fn(PushPhase, Duration) + Send + Sync + 'static) {
        self.inner.push_phases.listen(Box::new(listener));
    }

    /// Saves the answer for `value` in the transaction of its effect, if the request has an idempotency key.
    ///
    /// # Errors
    /// [`PortError::KeyTaken`] if another request saved its answer first.
    pub fn keep_answer<T>(
        &self,
        tx: &mut dyn Transaction,
        once: Option<&IdempotencyRecord<'_, T>>,
        value: &T,
        now: Timestamp,
    ) -> Result<(), PortError> {
        idempotency::keep(&self.inner, tx, once, value, now)
    }

    /// Checks that the metadata store can be read. Begins no write transaction, which would wait for those of others.
    ///
    /// # Errors
    /// [`PortError`] if it cannot.
    pub fn ready(&self) -> Result<(), PortError> {
        self.inner.ports.metadata.read()?.databases().ids(None, 1)?;
        Ok(())
    }

    /// Records how many bytes of storage are free. Returns whether storage is low from now on, or `None` if that did not
    /// change. It is low below [`Limits::min_free_bytes`], until five quarters of it are free.
    pub fn record_free_bytes(&self, free: u64) -> Option<bool> {
        let changed = self.inner.free_space.record(free);
        if changed == Some(false) {
            self.operations().wake();
        }
        changed
    }

    /// Returns `true` if storage is low. Operations then stay queued, and adapters refuse what would need storage.
    pub fn is_storage_low(&self) -> bool {
        self.inner.free_space.is_low()
    }

    /// Has nothing changed any more until the process ends: the metadata are older than the databases, and what is written now could
    /// destroy what they lost. Operations stay queued, and adapters refuse changes.
    pub fn set_read_only(&self) {
        self.inner.is_read_only.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if nothing may be changed.
    pub fn is_read_only(&self) -> bool {
        self.inner.is_read_only.load(Ordering::Relaxed)
    }

    /// Returns `true` if the hub was built with webhooks.
    pub fn sends_webhooks(&self) -> bool {
        self.inner.ports.sends_webhooks
    }

    /// Returns the present time of the hub's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Returns a new id for entities that adapters number themselves, such as requests.
    pub fn fresh_id(&self) -> uuid::Uuid {
        self.inner.ports.ids.uuid(self.inner.now())
    }

    /// Fills `buffer` with cryptographically secure random bytes, for adapters that seal or sign.
    pub fn random(&self, buffer: &mut [u8]) {
        self.inner.ports.ids.fill(buffer);
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}
