//! The metadata port: people, databases, refs, pull requests, operations and webhooks.
//!
//! All access happens in a [`Transaction`], which ends with [`Transaction::commit`] or by being dropped. Look-ups
//! return `Option`. Lists are keyset pages: `after` (or `before`) is the key of the last item of the previous page,
//! and `limit` is the maximum number of items. Times and ids come in as arguments. Every method returns a
//! [`MetadataError`] if the store fails.
#![expect(clippy::missing_errors_doc, reason = "said once for all repositories in the head of the module")]

mod accounts;
mod collections;
mod credentials;
mod databases;
mod deliveries;
mod events;
mod facts;
mod hooks;
mod idempotency;
mod mirrors;
mod oauth;
mod operations;
mod personal_data;
mod pulls;
mod ref_log;
mod refs;
mod releases;
mod request_counts;
mod uploads;
mod watches;
mod write_keys;

pub use accounts::{AccountRepository, MemberRepository, OrganizationRepository, UserFilter, UserRepository};
pub use collections::{CollectionRepository, DueCollection};
pub use credentials::{AttemptWindow, InvitationRepository, SessionRepository, TokenRepository, UserKeyRepository};
pub use databases::{CollaboratorRepository, DatabaseFilter, DatabaseRepository, Ranking, SizeChange, StarRepository};
pub use deliveries::{
    AttemptRepository, DeliveryBacklog, DeliveryRepository, DeliveryState, DueDelivery, Lease, LeaseTurn, Places,
};
pub use events::{ActivityRepository, EventRepository};
pub use facts::{BranchFacts, RequestFacts, RequestTarget, RoleSources, TargetDatabase};
pub use hooks::HookRepository;
pub use idempotency::{IdempotencyRepository, SavedAnswer};
pub use mirrors::MirrorRepository;
pub use oauth::{ApplicationRepository, AuthorizationCodeRepository, DeviceAuthorizationRepository, GrantRepository};
pub use operations::{OperationBacklog, OperationFilter, OperationRepository, OperationState};
pub use personal_data::PersonalDataRepository;
pub use pulls::{
    FetchBacklog, FetchEnd, PullCommentRepository, PullFetch, PullFetchRepository, PullFilter, PullRepository,
    PullStanding,
};
pub use ref_log::RefLogRepository;
pub use refs::{BranchRepository, DatabaseCounts, RefRepository, TagRepository};
pub use releases::ReleaseRepository;
pub use request_counts::{RequestCountRepository, RequestWindow};
pub use uploads::UploadRepository;
pub use watches::{WatchKey, WatchMarks};
pub use write_keys::{WriteKey, WriteKeys};

use branchyard_auth::HashedToken;

/// An error of the metadata store.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// A unique name or key is in use. Which one follows from the method that was called.
    #[error("taken")]
    Taken,
    /// The store is busy, unreachable or full. A later try may succeed.
    #[error("the metadata store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Any other failure, for the operator.
    #[error("the metadata store failed: {context}")]
    Fault {
        /// The operation that failed.
        context: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

type Result<T> = std::result::Result<T, MetadataError>;

/// The metadata store.
pub trait Metadata: Send + Sync {
    /// Begins a read-only transaction on a consistent snapshot.
    ///
    /// # Errors
    /// [`MetadataError`] if no connection is available.
    fn read(&self) -> Result<Box<dyn Transaction + '_>>;

    /// Begins a transaction that only reads, like [`Metadata::read`], without a snapshot: each look-up may see a later state than the one
    /// before it. Costs nothing by itself where a transaction costs a round trip.
    ///
    /// For one look-up, or for several that need not agree.
    ///
    /// # Errors
    /// [`MetadataError`] if no connection is available.
    fn look(&self) -> Result<Box<dyn Transaction + '_>> {
        self.read()
    }

    /// Returns what the first look-ups of a request find, read in one statement, if its token exists. A store in which single look-ups
    /// are faster leaves the database out.
    ///
    /// # Errors
    /// [`MetadataError`].
    fn request_facts(&self, token: &HashedToken, target: Option<&RequestTarget>) -> Result<Option<RequestFacts>> {
        let _ = target;
        Ok(self.look()?.tokens().by_hash(token)?.map(RequestFacts::of_token))
    }

    /// Returns a mark for each of `keys` that exists. A store on another machine reads all of them in one statement.
    ///
    /// # Errors
    /// [`MetadataError`].
    fn watch_marks(&self, keys: &[WatchKey]) -> Result<WatchMarks> {
        watches::look_up(self.look()?.as_mut(), keys)
    }

    /// Begins a transaction that may write. It has `keys` to itself until it ends.
    ///
    /// # Errors
    /// [`MetadataError`] if no connection is available, or if another transaction does not give back a key in time.
    fn write(&self, keys: &WriteKeys) -> Result<Box<dyn Transaction + '_>>;

    /// Returns a version of the state that a transaction would see if it began now. While the version stays the same,
    /// no process has changed anything. Versions do not recur. Returns `None` if the version cannot be determined
    /// cheaply; callers then cache nothing.
    fn version(&self) -> Option<u64>;

    /// Returns a version of what decides who may do what: users, tokens, organizations, members, collaborators, and
    /// databases except for what a write changes of them. It changes at most as often as [`Metadata::version`], and may
    /// stay the same through writes, events and operations. `None` and recurrence as for [`Metadata::version`].
    fn rights_version(&self) -> Option<u64> {
        self.version()
    }

    /// Removes values that were replaced or deleted before from the files of the store, as far as the store can. A
    /// transaction that still reads an old snapshot may prevent it.
    ///
    /// # Errors
    /// [`MetadataError`] if the store cannot be reached.
    fn scrub(&self) -> Result<()>;
}

/// What the end of a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The call returns once the disk has the commit and everything that the transaction read.
    Synced,
    /// The call returns once the disk has everything that the transaction read. A power failure shortly afterwards
    /// may undo the commit.
    ///
    /// For changes that are repeated in any case after a power failure, which ends this process too. An example is
    /// the lease of work that has not begun.
    Unsynced,
    /// Like [`Durability::Unsynced`], but without waiting for what the transaction read.
    ///
    /// For changes that no caller learns of before another transaction is committed as [`Durability::Synced`], which
    /// waits for every commit before it.
    Relaxed,
}

/// A transaction. Dropping a transaction rolls it back, after the disk has everything that it read.
///
/// A store may send what only adds or notes something later, together with other statements, but before the next look-up and the
/// commit. If that fails, the look-up or the commit returns the error.
pub trait Transaction: Repositories {
    /// Takes further keys, for what a transaction learns only within itself. Each has to come after all keys that the transaction holds,
    /// in the order of [`WriteKey`]. What was read before may have changed meanwhile, and is read again.
    ///
    /// # Errors
    /// [`MetadataError`] if another transaction does not give back a key in time.
    fn hold(&mut self, keys: &[WriteKey]) -> Result<()>;

    /// Makes all changes of the transaction visible to others.
    ///
    /// # Errors
    /// [`MetadataError`]. Nothing was changed, except that with [`MetadataError::Unavailable`] the outcome is
    /// unknown.
    fn commit(self: Box<Self>, durability: Durability) -> Result<()>;

    /// Commits as [`Durability::Synced`] and calls `on_visible` as soon as other transactions see the changes, which
    /// can be before the disk has them. A transaction that reads these changes is durable only once this one is.
    ///
    /// # Errors
    /// As [`Transaction::commit`]. `on_visible` may have been called despite an error.
    fn commit_notifying(self: Box<Self>, on_visible: &mut dyn FnMut()) -> Result<()>;

    /// Rolls back without waiting until the disk has what the transaction read.
    ///
    /// For callers that reveal nothing of what they read before they commit another transaction as
    /// [`Durability::Synced`].
    fn discard(self: Box<Self>);
}

/// The repositories of a transaction, one for each aggregate.
pub trait Repositories {
    /// Returns the repository of names of users and organizations, which share one namespace.
    fn accounts(&mut self) -> &mut dyn AccountRepository;
    /// Returns the repository of users with their email addresses.
    fn users(&mut self) -> &mut dyn UserRepository;
    /// Returns the repository of organizations.
    fn organizations(&mut self) -> &mut dyn OrganizationRepository;
    /// Returns the repository of memberships in organizations.
    fn members(&mut self) -> &mut dyn MemberRepository;
    /// Returns the repository of API tokens.
    fn tokens(&mut self) -> &mut dyn TokenRepository;
    /// Returns the repository of the keys of users.
    fn user_keys(&mut self) -> &mut dyn UserKeyRepository;
    /// Returns the repository of browser sessions.
    fn sessions(&mut self) -> &mut dyn SessionRepository;
    /// Returns the repository of invitations to sign up.
    fn invitations(&mut self) -> &mut dyn InvitationRepository;
    /// Returns the repository of applications.
    fn applications(&mut self) -> &mut dyn ApplicationRepository;
    /// Returns the repository of grants.
    fn grants(&mut self) -> &mut dyn GrantRepository;
    /// Returns the repository of authorization codes.
    fn authorization_codes(&mut self) -> &mut dyn AuthorizationCodeRepository;
    /// Returns the repository of devices that wait for their users.
    fn device_authorizations(&mut self) -> &mut dyn DeviceAuthorizationRepository;
    /// Returns the repository of mirrors.
    fn mirrors(&mut self) -> &mut dyn MirrorRepository;
    /// Returns the repository of databases.
    fn databases(&mut self) -> &mut dyn DatabaseRepository;
    /// Returns the repository of collaborators of databases.
    fn collaborators(&mut self) -> &mut dyn CollaboratorRepository;
    /// Returns the repository of stars of databases.
    fn stars(&mut self) -> &mut dyn StarRepository;
    /// Returns the repository of branches.
    fn branches(&mut self) -> &mut dyn BranchRepository;
    /// Returns the repository of tags.
    fn tags(&mut self) -> &mut dyn TagRepository;
    /// Returns the repository of refs of all kinds.
    fn refs(&mut self) -> &mut dyn RefRepository;
    /// Returns the log of changes of refs.
    fn ref_log(&mut self) -> &mut dyn RefLogRepository;
    /// Returns the repository of the records of garbage collections.
    fn collections(&mut self) -> &mut dyn CollectionRepository;
    /// Returns the repository of pull requests.
    fn pulls(&mut self) -> &mut dyn PullRepository;
    /// Returns the repository of fetches for pull requests across forks.
    fn pull_fetches(&mut self) -> &mut dyn PullFetchRepository;
    /// Returns the repository of comments on pull requests.
    fn pull_comments(&mut self) -> &mut dyn PullCommentRepository;
    /// Returns the repository of releases.
    fn releases(&mut self) -> &mut dyn ReleaseRepository;
    /// Returns the repository of operations.
    fn operations(&mut self) -> &mut dyn OperationRepository;
    /// Returns the repository of upload sessions.
    fn uploads(&mut self) -> &mut dyn UploadRepository;
    /// Returns the repository of answers saved for idempotency keys.
    fn idempotency(&mut self) -> &mut dyn IdempotencyRepository;
    /// Returns the outbox of events.
    fn events(&mut self) -> &mut dyn EventRepository;
    /// Returns the activity log of databases.
    fn activities(&mut self) -> &mut dyn ActivityRepository;
    /// Returns the repository of webhooks of databases.
    fn hooks(&mut self) -> &mut dyn HookRepository;
    /// Returns the repository of deliveries of webhooks.
    fn deliveries(&mut self) -> &mut dyn DeliveryRepository;
    /// Returns the repository of attempts of deliveries.
    fn attempts(&mut self) -> &mut dyn AttemptRepository;
    /// Returns the repository of counted requests.
    fn request_counts(&mut self) -> &mut dyn RequestCountRepository;
    /// Returns the repository of what refers to one user.
    fn personal_data(&mut self) -> &mut dyn PersonalDataRepository;
}

impl<
    T: AccountRepository
        + UserRepository
        + OrganizationRepository
        + MemberRepository
        + TokenRepository
        + UserKeyRepository
        + SessionRepository
        + InvitationRepository
        + ApplicationRepository
        + GrantRepository
        + AuthorizationCodeRepository
        + DeviceAuthorizationRepository
        + MirrorRepository
        + DatabaseRepository
        + CollaboratorRepository
        + StarRepository
        + BranchRepository
        + TagRepository
        + RefRepository
        + RefLogRepository
        + CollectionRepository
        + PullRepository
        + PullFetchRepository
        + PullCommentRepository
        + ReleaseRepository
        + OperationRepository
        + UploadRepository
        + IdempotencyRepository
        + EventRepository
        + ActivityRepository
        + HookRepository
        + DeliveryRepository
        + AttemptRepository
        + RequestCountRepository
        + PersonalDataRepository,
> Repositories for T
{
    fn accounts(&mut self) -> &mut dyn AccountRepository {
        self
    }

    fn users(&mut self) -> &mut dyn UserRepository {
        self
    }

    fn organizations(&mut self) -> &mut dyn OrganizationRepository {
        self
    }

    fn members(&mut self) -> &mut dyn MemberRepository {
        self
    }

    fn tokens(&mut self) -> &mut dyn TokenRepository {
        self
    }

    fn user_keys(&mut self) -> &mut dyn UserKeyRepository {
        self
    }

    fn sessions(&mut self) -> &mut dyn SessionRepository {
        self
    }

    fn invitations(&mut self) -> &mut dyn InvitationRepository {
        self
    }

    fn applications(&mut self) -> &mut dyn ApplicationRepository {
        self
    }

    fn grants(&mut self) -> &mut dyn GrantRepository {
        self
    }

    fn authorization_codes(&mut self) -> &mut dyn AuthorizationCodeRepository {
        self
    }

    fn device_authorizations(&mut self) -> &mut dyn DeviceAuthorizationRepository {
        self
    }

    fn mirrors(&mut self) -> &mut dyn MirrorRepository {
        self
    }

    fn databases(&mut self) -> &mut dyn DatabaseRepository {
        self
    }

    fn collaborators(&mut self) -> &mut dyn CollaboratorRepository {
        self
    }

    fn stars(&mut self) -> &mut dyn StarRepository {
        self
    }

    fn branches(&mut self) -> &mut dyn BranchRepository {
        self
    }

    fn tags(&mut self) -> &mut dyn TagRepository {
        self
    }

    fn refs(&mut self) -> &mut dyn RefRepository {
        self
    }

    fn ref_log(&mut self) -> &mut dyn RefLogRepository {
        self
    }

    fn collections(&mut self) -> &mut dyn CollectionRepository {
        self
    }

    fn pulls(&mut self) -> &mut dyn PullRepository {
        self
    }

    fn pull_fetches(&mut self) -> &mut dyn PullFetchRepository {
        self
    }

    fn pull_comments(&mut self) -> &mut dyn PullCommentRepository {
        self
    }

    fn releases(&mut self) -> &mut dyn ReleaseRepository {
        self
    }

    fn operations(&mut self) -> &mut dyn OperationRepository {
        self
    }

    fn uploads(&mut self) -> &mut dyn UploadRepository {
        self
    }

    fn idempotency(&mut self) -> &mut dyn IdempotencyRepository {
        self
    }

    fn events(&mut self) -> &mut dyn EventRepository {
        self
    }

    fn activities(&mut self) -> &mut dyn ActivityRepository {
        self
    }

    fn hooks(&mut self) -> &mut dyn HookRepository {
        self
    }

    fn deliveries(&mut self) -> &mut dyn DeliveryRepository {
        self
    }

    fn attempts(&mut self) -> &mut dyn AttemptRepository {
        self
    }

    fn request_counts(&mut self) -> &mut dyn RequestCountRepository {
        self
    }

    fn personal_data(&mut self) -> &mut dyn PersonalDataRepository {
        self
    }
}
