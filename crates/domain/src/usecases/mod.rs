//! Use cases, grouped by noun, gathered in one [`Hub`].

mod activities;
mod branches;
mod browse;
mod collaborators;
mod databases;
mod deadline;
mod exports;
mod files;
mod history;
mod hooks;
mod idempotency;
mod imports;
mod invitations;
mod lookup_cache;
mod members;
mod operations;
mod organizations;
mod people;
mod progress;
mod pulls;
mod releases;
mod revisions;
mod revocations;
mod run;
mod sessions;
mod settled;
mod show;
mod sql;
mod stars;
mod tags;
mod tokens;
mod uploaded;
mod wake;
mod worker_shares;

use std::sync::Arc;

pub use activities::{Activities, News};
pub use branches::{Branches, NewBranch};
pub use browse::{Browse, LookEnd, TableSize};
pub use collaborators::Collaborators;
pub use databases::{DatabaseView, Databases, EditDatabase, NewDatabase};
pub use exports::{ExportLimits, Exports};
pub use files::{NewFileImport, StoredFile};
pub use history::History;
pub use hooks::{
    Attempted, Deliveries, Dispatch, EditHook, HookAddress, HookView, Hooks, NewHook, Room, Run, SecretHook, Turn,
};
pub use idempotency::IdempotencyRecord;
pub use imports::{CompletedPart, Imports, NewImport, NewUpload, OpenedUpload};
pub use invitations::{Applicant, Invitations, MintedInvitation, SignUp};
pub use members::Members;
pub use operations::{Ended, Operations, SqlWrite};
pub use organizations::{EditOrganization, NewOrganization, OrganizationView, Organizations};
pub use people::{NewUser, People, Profile};
pub use pulls::rules as pull_rules;
pub use pulls::{
    EditPull, MergePull, NewPull, PreviewStage, PullEdges, PullPreview, Pulls, Refreshed, WantedState, Withdrawable,
};
pub use releases::{EditRelease, NewRelease, Releases};
pub use sessions::{Client, OpenedSession, Sessions};
pub use settled::SettlementWatch;
pub use sql::{ReadEnd, Sql};
pub use stars::Stars;
pub use tags::{NewTag, Tags};
pub use tokens::{MintedToken, Tokens};
pub use uploaded::{ArrivedImport, Preview};
pub use wake::Wake;

use crate::errors::Fault;
use crate::ports::{Blobs, Clock, Engine, Formats, Ids, Metadata, Payloads, Sender, Transaction, Vault};
use crate::values::Timestamp;

/// Limits with their defaults; all are documented in `docs/configuration.md`.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Who may sign up.
    pub sign_up: SignUp,
    /// Seconds a session lives after its last use.
    pub session_seconds: i64,
    /// Seconds an invitation is open.
    pub invitation_seconds: i64,
    /// Live tokens per user.
    pub tokens_per_user: u64,
    /// Databases per owner; 0 = no limit.
    pub databases_per_owner: u64,
    /// Operations waiting per database.
    pub queued_per_database: u64,
    /// Operations that run at once in this process before they are long ones; 0 = no limit. A creator has at most half of them.
    pub operation_workers: usize,
    /// Long operations at once of creators that have a long one already; 0 = no limit.
    pub long_operation_places: usize,
    /// Milliseconds after which an operation is a long one.
    pub long_operation_after_ms: u64,
    /// Seconds after which a fetch for a pull is begun again whose process is gone; the process that fetches prolongs them.
    pub pull_fetch_lease_seconds: i64,
    /// Bytes of an imported file.
    pub import_bytes: u64,
    /// Parts of an imported file.
    pub import_parts: u32,
    /// Bytes of one value of an imported file, and of one statement of a script.
    pub import_value_bytes: usize,
    /// Seconds an upload session lives.
    pub upload_session_seconds: i64,
    /// Unused upload sessions per user.
    pub open_uploads_per_user: u64,
    /// Milliseconds the statements of a write may take.
    pub write_timeout_ms: u64,
    /// Milliseconds an import may take.
    pub import_timeout_ms: u64,
    /// Milliseconds the preview of a file may take.
    pub preview_timeout_ms: u64,
    /// Milliseconds a merge may take.
    pub merge_timeout_ms: u64,
    /// Seconds settled operations are kept.
    pub operation_retention_seconds: i64,
    /// Seconds saved answers are kept.
    pub answer_retention_seconds: i64,
    /// Owner names refused besides the built-in ones, in any letter case.
    pub reserved_names: Vec<String>,
    /// Hooks per database.
    pub hooks_per_database: u64,
    /// Milliseconds an attempt to deliver may take.
    pub hook_timeout_ms: u64,
    /// Milliseconds before each attempt of a delivery, from the end of the one before.
    pub hook_retry_delays_ms: Vec<u64>,
    /// Seconds of nothing but failures after which a hook is switched off.
    pub hook_disable_after_seconds: i64,
    /// Seconds finished deliveries are kept.
    pub hook_log_retention_seconds: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sign_up: SignUp::default(),
            session_seconds: 30 * 86_400,
            invitation_seconds: 7 * 86_400,
            tokens_per_user: 100,
            databases_per_owner: 0,
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
            merge_timeout_ms: 600_000,
            operation_retention_seconds: 90 * 86_400,
            answer_retention_seconds: 86_400,
            reserved_names: Vec::new(),
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

/// The outside world.
#[derive(Clone)]
pub struct Ports {
    /// People, refs, pulls, operations.
    pub metadata: Arc<dyn Metadata>,
    /// Commits and SQL.
    pub engine: Arc<dyn Engine>,
    /// Uploads in flight.
    pub blobs: Arc<dyn Blobs>,
    /// File formats.
    pub formats: Arc<dyn Formats>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids and secrets.
    pub ids: Arc<dyn Ids>,
    /// What hooks are told.
    pub payloads: Arc<dyn Payloads>,
    /// Secrets of hooks.
    pub vault: Arc<dyn Vault>,
    /// Requests to hooks.
    pub sender: Arc<dyn Sender>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) limits: Limits,
    pub(crate) wake: wake::Wake,
    pub(crate) worker_shares: worker_shares::WorkerShares,
    pub(crate) outbox: wake::Wake,
    pub(crate) revocations: revocations::Revocations,
    pub(crate) fetch_wake: wake::Wake,
    pub(crate) fetches: pulls::Fetches,
    pub(crate) remembered: lookup_cache::Remembered,
    pub(crate) reachable: Arc<revisions::Reachable>,
    pub(crate) behind: operations::StrandedLeases,
    pub(crate) progress: progress::ImportProgress,
    pub(crate) settled: Arc<settled::Settled>,
}

impl Inner {
    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }
}

/// Everything Branchyard does. Cheap to clone; adapters and embedders hold one.
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
    /// Organizations, and access to them.
    organizations: Organizations;
    /// Members of organizations.
    members: Members;
    /// Signing in, and sessions.
    sessions: Sessions;
    /// Invitations, and signing up.
    invitations: Invitations;
    /// API tokens.
    tokens: Tokens;
    /// Databases, and access to them.
    databases: Databases;
    /// People with a role of their own on a database.
    collaborators: Collaborators;
    /// What happened, for people to look back on.
    activities: Activities;
    /// Stars.
    stars: Stars;
    /// Branches.
    branches: Branches;
    /// Tags.
    tags: Tags;
    /// Releases.
    releases: Releases;
    /// Pull requests.
    pulls: Pulls;
    /// Commits, differences, definitions.
    history: History;
    /// SQL reads.
    sql: Sql;
    /// Looking at tables.
    browse: Browse;
    /// Whole tables.
    exports: Exports;
    /// Uploads and imports.
    imports: Imports;
    /// Operations: SQL writes, merges, forks, imports.
    operations: Operations;
    /// Hooks.
    hooks: Hooks;
    /// What was sent to hooks.
    deliveries: Deliveries;
    /// The steps from the outbox to the receivers.
    dispatch: Dispatch;
}

impl Hub {
    /// A hub over these ports.
    pub fn new(ports: Ports, limits: Limits) -> Self {
        let worker_shares = worker_shares::WorkerShares::new(limits.operation_workers, limits.long_operation_places);
        let reachable = Arc::new(revisions::Reachable::new(Arc::clone(&ports.metadata)));
        ports.engine.limit_history(reachable.clone());
        Self {
            inner: Arc::new(Inner {
                reachable,
                ports,
                limits,
                wake: wake::Wake::default(),
                worker_shares,
                outbox: wake::Wake::default(),
                revocations: revocations::Revocations::default(),
                fetch_wake: wake::Wake::default(),
                fetches: pulls::Fetches::default(),
                remembered: lookup_cache::Remembered::default(),
                behind: operations::StrandedLeases::default(),
                progress: progress::ImportProgress::default(),
                settled: Arc::default(),
            }),
        }
    }

    /// Calls `listener` whenever people may have lost rights, as soon as that is saved: for what a crate over this one remembers of them.
    pub fn on_revocation(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.inner.revocations.listen(Arc::new(listener));
    }

    /// Saves the answer for `value` in the transaction of its effect, if the request has a key.
    ///
    /// # Errors
    /// [`Fault::KeyTaken`] if another request saved its answer first.
    pub fn keep_answer<T>(
        &self,
        tx: &mut dyn Transaction,
        once: Option<&IdempotencyRecord<'_, T>>,
        value: &T,
        now: Timestamp,
    ) -> Result<(), Fault> {
        idempotency::keep(&self.inner, tx, once, value, now)
    }

    /// Whether the metadata store answers, and would take something to be saved.
    ///
    /// # Errors
    /// [`Fault`] when it does not.
    pub fn ready(&self) -> Result<(), Fault> {
        self.inner.ports.metadata.write()?.databases().ids(None, 1)?;
        Ok(())
    }

    /// Now, by the hub's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// A fresh id, for what adapters number themselves (requests, for example).
    pub fn fresh_id(&self) -> uuid::Uuid {
        self.inner.ports.ids.uuid(self.inner.now())
    }

    /// Fills `buffer` from the cryptographically secure source, for adapters that seal or sign.
    pub fn random(&self, buffer: &mut [u8]) {
        self.inner.ports.ids.fill(buffer);
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}
