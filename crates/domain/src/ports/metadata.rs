//! The metadata store: people, databases, refs, pulls, operations.
//!
//! All work happens in a [`Transaction`]: a transaction that ends once, by [`Transaction::commit`] or by being dropped. Look-ups give
//! `Option`; lists are keyset pages (`after` is the key of the last item seen, `limit` the most items wanted). Times and ids
//! come in as arguments. Every method fails with a [`MetadataError`] when the store does.
#![expect(clippy::missing_errors_doc, reason = "said once for all repositories in the head of the module")]

mod accounts;
mod credentials;
mod databases;
mod deliveries;
mod events;
mod hooks;
mod idempotency;
mod operations;
mod pulls;
mod refs;
mod releases;
mod uploads;

pub use accounts::{AccountRepository, MemberRepository, OrganizationRepository, UserRepository};
pub use credentials::{InvitationRepository, SessionRepository, TokenRepository};
pub use databases::{CollaboratorRepository, DatabaseFilter, DatabaseRepository, Ranking, StarRepository};
pub use deliveries::{AttemptRepository, DeliveryBacklog, DeliveryRepository, DeliveryState, Lease, LeaseTurn, Places};
pub use events::{ActivityRepository, EventRepository};
pub use hooks::HookRepository;
pub use idempotency::{IdempotencyRepository, SavedAnswer};
pub use operations::{OperationBacklog, OperationFilter, OperationRepository, OperationState};
pub use pulls::{
    FetchBacklog, FetchEnd, PullCommentRepository, PullFetch, PullFetchRepository, PullFilter, PullRepository,
    PullStanding,
};
pub use refs::{BranchRepository, RefRepository, TagRepository};
pub use releases::ReleaseRepository;
pub use uploads::UploadRepository;

/// The metadata store failed, or refused.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// A name or key is taken: the operation tried says which.
    #[error("taken")]
    Taken,
    /// The store is busy, unreachable or full; trying later may help.
    #[error("the metadata store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Any other fault; for the operator.
    #[error("the metadata store failed: {context}")]
    Fault {
        /// What was tried.
        context: &'static str,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

type Result<T> = std::result::Result<T, MetadataError>;

/// The store.
pub trait Metadata: Send + Sync {
    /// Begins a transaction that only reads; it sees one state.
    ///
    /// # Errors
    /// [`MetadataError`] when no connection is to be had.
    fn read(&self) -> Result<Box<dyn Transaction + '_>>;

    /// Begins a transaction that may write; no other such transaction interferes with what it reads and writes.
    ///
    /// # Errors
    /// [`MetadataError`] when no connection is to be had.
    fn write(&self) -> Result<Box<dyn Transaction + '_>>;

    /// A number for the state that a transaction would see if it began now: while it stays the same, nobody, in this process or another,
    /// has changed anything. Numbers never come back. `None` when telling would cost as much as looking; then nothing is remembered.
    fn version(&self) -> Option<u64>;
}

/// What a call that ends a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The disk has the commit, and everything that the transaction saw, before the call returns.
    Synced,
    /// A power cut shortly afterwards can take the commit back. The disk has everything that the transaction saw.
    ///
    /// For changes that have to be made again in any case after a power cut, which ends this process too, such as leases of work that has not begun.
    Unsynced,
    /// As [`Durability::Unsynced`], without waiting for what the transaction saw either.
    ///
    /// For changes that nobody learns of before another transaction is committed as [`Durability::Synced`], which waits for everything before it.
    Relaxed,
}

/// A transaction. Dropping it rolls it back, once the disk has everything that it saw.
pub trait Transaction: Repositories {
    /// Makes all changes of the transaction visible to others.
    ///
    /// # Errors
    /// [`MetadataError`]: nothing was changed, or, with [`MetadataError::Unavailable`], it is unknown whether it was.
    fn commit(self: Box<Self>, durability: Durability) -> Result<()>;

    /// Commits as [`Durability::Synced`], and calls `on_visible` as soon as others see the changes, which can be before the disk has them. What
    /// those others commit is on disk only when this transaction is.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; `on_visible` may have been called nevertheless.
    fn commit_notifying(self: Box<Self>, on_visible: &mut dyn FnMut()) -> Result<()>;

    /// Rolls back without waiting until the disk has what the transaction saw.
    ///
    /// For callers that pass nothing of it on before they commit another transaction as [`Durability::Synced`].
    fn discard(self: Box<Self>);
}

/// The repositories of a transaction, one for each kind of thing the hub stores.
pub trait Repositories {
    /// Names of users and organizations, which share one namespace.
    fn accounts(&mut self) -> &mut dyn AccountRepository;
    /// Users with their email addresses.
    fn users(&mut self) -> &mut dyn UserRepository;
    /// Organizations.
    fn organizations(&mut self) -> &mut dyn OrganizationRepository;
    /// Memberships in organizations.
    fn members(&mut self) -> &mut dyn MemberRepository;
    /// API tokens.
    fn tokens(&mut self) -> &mut dyn TokenRepository;
    /// Sessions of browsers.
    fn sessions(&mut self) -> &mut dyn SessionRepository;
    /// Invitations to sign up.
    fn invitations(&mut self) -> &mut dyn InvitationRepository;
    /// Databases.
    fn databases(&mut self) -> &mut dyn DatabaseRepository;
    /// Collaborators of databases.
    fn collaborators(&mut self) -> &mut dyn CollaboratorRepository;
    /// Stars. Each method that changes them changes the `star_count` of the database with them.
    fn stars(&mut self) -> &mut dyn StarRepository;
    /// Branches.
    fn branches(&mut self) -> &mut dyn BranchRepository;
    /// Tags.
    fn tags(&mut self) -> &mut dyn TagRepository;
    /// All names of commits in a database.
    fn refs(&mut self) -> &mut dyn RefRepository;
    /// Pull requests.
    fn pulls(&mut self) -> &mut dyn PullRepository;
    /// Fetches of the commits that pull requests across forks bring.
    fn pull_fetches(&mut self) -> &mut dyn PullFetchRepository;
    /// Comments on pull requests.
    fn pull_comments(&mut self) -> &mut dyn PullCommentRepository;
    /// Releases.
    fn releases(&mut self) -> &mut dyn ReleaseRepository;
    /// Operations.
    fn operations(&mut self) -> &mut dyn OperationRepository;
    /// Uploads in flight.
    fn uploads(&mut self) -> &mut dyn UploadRepository;
    /// Saved answers of idempotency keys.
    fn idempotency(&mut self) -> &mut dyn IdempotencyRepository;
    /// The outbox of events.
    fn events(&mut self) -> &mut dyn EventRepository;
    /// The activity log of databases.
    fn activities(&mut self) -> &mut dyn ActivityRepository;
    /// Webhooks of databases.
    fn hooks(&mut self) -> &mut dyn HookRepository;
    /// Deliveries of webhooks.
    fn deliveries(&mut self) -> &mut dyn DeliveryRepository;
    /// Attempts of deliveries.
    fn attempts(&mut self) -> &mut dyn AttemptRepository;
}

impl<
    T: AccountRepository
        + UserRepository
        + OrganizationRepository
        + MemberRepository
        + TokenRepository
        + SessionRepository
        + InvitationRepository
        + DatabaseRepository
        + CollaboratorRepository
        + StarRepository
        + BranchRepository
        + TagRepository
        + RefRepository
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
        + AttemptRepository,
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

    fn sessions(&mut self) -> &mut dyn SessionRepository {
        self
    }

    fn invitations(&mut self) -> &mut dyn InvitationRepository {
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
}
