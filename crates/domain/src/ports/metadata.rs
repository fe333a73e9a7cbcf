//! The metadata store: people, databases, refs, pulls, operations.
//!
//! All work happens in a [`Unit`]: a transaction that ends once, by [`Unit::save`] or by being dropped. Look-ups give
//! `Option`; lists are keyset pages (`after` is the key of the last item seen, `limit` the most items wanted). Times and ids
//! come in as arguments. Every method fails with a [`MetadataError`] when the store does.
#![expect(clippy::missing_errors_doc, reason = "said once for all repositories in the head of the module")]

use crate::entities::{
    Account, Activity, Attempt, Branch, Collaborator, Database, Delivery, Email, Event, Hook, HookEvent, Invitation,
    LastUse, Member, MemberRole, Operation, OperationKind, Organization, Pull, PullComment, Release, Request, Role,
    Session, Star, Tag, Token, Upload, UploadPart, User, Visibility,
};
use crate::values::{
    AccountId, CommentId, CommitHash, DatabaseId, DatabaseName, DeliveryId, EventId, HookId, InvitationId, OperationId,
    OwnerName, PullNumber, RefName, SessionId, Timestamp, TokenId, UploadId,
};
use branchyard_auth::HashedToken;

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
    /// Begins a unit that only reads; it sees one state.
    ///
    /// # Errors
    /// [`MetadataError`] when no connection is to be had.
    fn read(&self) -> Result<Box<dyn Unit + '_>>;

    /// Begins a unit that may write; no other such unit interferes with what it reads and writes.
    ///
    /// # Errors
    /// [`MetadataError`] when no connection is to be had.
    fn write(&self) -> Result<Box<dyn Unit + '_>>;

    /// A number for the state that a unit would see if it began now: while it stays the same, nobody, in this process or another,
    /// has changed anything. Numbers never come back. `None` when telling would cost as much as looking; then nothing is remembered.
    fn version(&self) -> Option<u64>;
}

/// A unit of work. Dropping it changes nothing.
pub trait Unit:
    AccountRepository
    + MemberRepository
    + TokenRepository
    + SessionRepository
    + InvitationRepository
    + DatabaseRepository
    + CollaboratorRepository
    + StarRepository
    + RefRepository
    + PullRepository
    + ReleaseRepository
    + OperationRepository
    + UploadRepository
    + IdempotencyRepository
    + EventRepository
    + ActivityRepository
    + HookRepository
    + DeliveryRepository
{
    /// Makes everything done in it visible to others and durable.
    ///
    /// # Errors
    /// [`MetadataError`]; then nothing was changed, or, with [`MetadataError::Unavailable`], it is not known whether it was.
    fn save(self: Box<Self>) -> Result<()>;

    /// The same, and calls `seen` as soon as others can see it, which may be before it is durable: what they then save is durable only when this is.
    ///
    /// # Errors
    /// As [`Unit::save`]; `seen` may have been called nevertheless.
    fn save_telling(self: Box<Self>, seen: &mut dyn FnMut()) -> Result<()>;

    /// The same, but for a moment a power cut, which ends this process too, may take it back. For what then has to be done anew in any case, such
    /// as leases of work that has not begun: it need not wait for the disk.
    ///
    /// # Errors
    /// As [`Unit::save`].
    fn save_unsynced(self: Box<Self>) -> Result<()>;

    /// Ends a unit as dropping it does, but does not wait until what it saw is durable. For who tells nobody about it before a unit of their
    /// own is saved, which is durable only when all that is.
    fn leave(self: Box<Self>);

    /// Both: waits neither for what it did nor for what it saw.
    ///
    /// # Errors
    /// As [`Unit::save`].
    fn save_and_leave(self: Box<Self>) -> Result<()>;
}

/// Users and organizations.
pub trait AccountRepository {
    /// The account of a name, whatever the case; not that of an organization that was removed.
    fn account_by_name(&mut self, name: &OwnerName) -> Result<Option<Account>>;
    /// Adds a user with their addresses. `Taken` when the name is.
    fn user_add(&mut self, user: &User) -> Result<()>;
    /// A user with their addresses.
    fn user_get(&mut self, id: AccountId) -> Result<Option<User>>;
    /// Changes what a user says of themselves, their password and whether they administer the server; gives whether the user is
    /// there.
    fn user_update(&mut self, user: &User) -> Result<bool>;
    /// Replaces the addresses of a user.
    fn user_set_emails(&mut self, user: AccountId, emails: &[Email]) -> Result<()>;
    /// Whether there is any user.
    fn user_any(&mut self) -> Result<bool>;
    /// Adds an organization. `Taken` when the name is.
    fn organization_add(&mut self, organization: &Organization) -> Result<()>;
    /// An organization.
    fn organization_get(&mut self, id: AccountId) -> Result<Option<Organization>>;
    /// Changes display name, description and base role; gives whether the organization is there.
    fn organization_update(&mut self, organization: &Organization) -> Result<bool>;
    /// What an organization owns besides databases, of that which crates over this one keep in the same store; `None` if nothing. The word is plural,
    /// for a sentence.
    fn organization_owns_others(&mut self, id: AccountId) -> Result<Option<&'static str>>;
    /// Removes an organization and its memberships. Its name is free then; its id stays taken, because databases that were
    /// deleted go on naming it.
    fn organization_remove(&mut self, id: AccountId, at: Timestamp) -> Result<()>;
    /// The organizations of a user with the user's role, by lower-case name, after `after`.
    fn organization_list(
        &mut self,
        user: AccountId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(Organization, MemberRole)>>;
}

/// Memberships in organizations.
pub trait MemberRepository {
    /// Adds or changes a membership; gives whether it was added.
    fn member_put(&mut self, organization: AccountId, user: AccountId, role: MemberRole, at: Timestamp)
    -> Result<bool>;
    /// A membership.
    fn member_get(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>>;
    /// Removes a membership; gives it as it was.
    fn member_remove(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>>;
    /// Members by lower-case name, after `after`.
    fn member_list(&mut self, organization: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<Member>>;
    /// How many owners an organization has.
    fn owner_count(&mut self, organization: AccountId) -> Result<u64>;
}

/// API tokens.
pub trait TokenRepository {
    /// Adds a token.
    fn token_add(&mut self, token: &Token) -> Result<()>;
    /// The token of this hash and its user: one indexed read.
    fn token_by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Token, User)>>;
    /// Tokens of a user, newest first, after `after`.
    fn token_list(&mut self, user: AccountId, after: Option<TokenId>, limit: usize) -> Result<Vec<Token>>;
    /// How many unexpired tokens a user has.
    fn token_count_live(&mut self, user: AccountId, now: Timestamp) -> Result<u64>;
    /// Removes a token of a user; gives it as it was.
    fn token_remove(&mut self, user: AccountId, token: TokenId) -> Result<Option<Token>>;
    /// Notes the last use of a token.
    fn token_touch(&mut self, token: TokenId, last_use: &LastUse) -> Result<()>;
}

/// Sessions.
pub trait SessionRepository {
    /// Adds a session.
    fn session_add(&mut self, session: &Session) -> Result<()>;
    /// The session of this hash and its user: one indexed read.
    fn session_by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Session, User)>>;
    /// All sessions of a user, newest first.
    fn session_list(&mut self, user: AccountId) -> Result<Vec<Session>>;
    /// Notes the last use of a session and when it ends now.
    fn session_touch(&mut self, session: SessionId, last_use: &LastUse, expires_at: Timestamp) -> Result<()>;
    /// Removes a session of a user; gives whether there was one.
    fn session_remove(&mut self, user: AccountId, session: SessionId) -> Result<bool>;
    /// Removes sessions that ended at `now` or before; gives how many.
    fn session_purge(&mut self, now: Timestamp) -> Result<u64>;
}

/// Invitations to sign up.
pub trait InvitationRepository {
    /// Adds an invitation.
    fn invitation_add(&mut self, invitation: &Invitation) -> Result<()>;
    /// The invitation of this hash.
    fn invitation_by_hash(&mut self, hash: &HashedToken) -> Result<Option<Invitation>>;
    /// All invitations, newest first.
    fn invitation_list(&mut self) -> Result<Vec<Invitation>>;
    /// Removes an invitation; gives whether there was one.
    fn invitation_remove(&mut self, invitation: InvitationId) -> Result<bool>;
    /// Removes invitations that expired at `now` or before; gives how many.
    fn invitation_purge(&mut self, now: Timestamp) -> Result<u64>;
}

/// Filters of the list of databases.
#[derive(Debug, Clone, Default)]
pub struct DatabaseFilter {
    /// Only of this owner.
    pub owner: Option<OwnerName>,
    /// Only with this in name or description, whatever the case.
    pub contains: Option<String>,
    /// Only of this visibility.
    pub visibility: Option<Visibility>,
    /// Only those that this user starred.
    pub starred_by: Option<AccountId>,
}

/// What databases are ranked by, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// How many people starred them.
    Stars,
    /// When a commit last arrived; those without any come last.
    LastWrite,
    /// When they were created.
    Creation,
}

impl Ranking {
    /// What puts a database in its place.
    pub fn of(self, database: &Database) -> i64 {
        match self {
            Self::Stars => database.star_count,
            Self::LastWrite => database.last_write_at.map_or(0, Timestamp::as_micros),
            Self::Creation => database.created_at.as_micros(),
        }
    }
}

/// Databases.
pub trait DatabaseRepository {
    /// Adds a database. `Taken` when its owner has one of that name.
    fn database_add(&mut self, database: &Database) -> Result<()>;
    /// A live database by owner and name, whatever the case.
    fn database_by_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>>;
    /// A database by id, deleted ones included.
    fn database_get(&mut self, id: DatabaseId) -> Result<Option<Database>>;
    /// Changes description, visibility, default branch, `last_write_at`, `size_bytes`, `deleted_at` of the row, if its version
    /// still is `database.version`; the version then counts up. Gives whether it was changed.
    fn database_update(&mut self, database: &Database) -> Result<bool>;
    /// Notes the time of a write and the size of the file, without a new version.
    fn database_wrote(&mut self, id: DatabaseId, at: Timestamp, size_bytes: i64) -> Result<()>;
    /// Live databases visible to `viewer`, by lower-case owner, then name, after that pair.
    fn database_list(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Live databases visible to `viewer`, the highest in the ranking first, among equals by id descending, after the place and the id
    /// of the last one seen.
    fn database_ranking(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        ranking: Ranking,
        after: Option<(i64, DatabaseId)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Live databases that a user owns, or has a role on as a collaborator or through an organization; those written to last come first.
    fn database_list_of(&mut self, user: AccountId, limit: usize) -> Result<Vec<Database>>;
    /// How many live databases an account owns.
    fn database_count(&mut self, owner: AccountId) -> Result<u64>;
    /// Live direct forks visible to `viewer`, by lower-case owner, then name, after that pair.
    fn fork_list(
        &mut self,
        viewer: Option<AccountId>,
        parent: DatabaseId,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// How many live databases of a network that `viewer` sees are forks.
    fn fork_count(&mut self, viewer: Option<AccountId>, network: DatabaseId) -> Result<u64>;
    /// Ids of all live databases, ascending, after `after`.
    fn database_ids(&mut self, after: Option<DatabaseId>, limit: usize) -> Result<Vec<DatabaseId>>;
}

/// Collaborators.
pub trait CollaboratorRepository {
    /// Adds or changes a collaborator; gives whether it was added.
    fn collaborator_put(&mut self, database: DatabaseId, user: AccountId, role: Role, at: Timestamp) -> Result<bool>;
    /// A collaborator.
    fn collaborator_get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>>;
    /// Removes a collaborator; gives it as it was.
    fn collaborator_remove(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>>;
    /// Collaborators by lower-case name, after `after`.
    fn collaborator_list(
        &mut self,
        database: DatabaseId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Collaborator>>;
}

/// Stars. Each method that changes them changes the `star_count` of the database with them.
pub trait StarRepository {
    /// Adds a star; gives whether it is new.
    fn star_add(&mut self, database: DatabaseId, user: AccountId, at: Timestamp) -> Result<bool>;
    /// Removes a star; gives whether there was one.
    fn star_remove(&mut self, database: DatabaseId, user: AccountId) -> Result<bool>;
    /// The star of a user.
    fn star_get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Star>>;
    /// Stars of a database by lower-case name of the user, after `after`.
    fn star_list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Star>>;
    /// Removes all stars of a database.
    fn star_clear(&mut self, database: DatabaseId) -> Result<()>;
}

/// Branches and tags.
pub trait RefRepository {
    /// Adds a branch. `Taken` when the name is.
    fn branch_add(&mut self, database: DatabaseId, branch: &Branch) -> Result<()>;
    /// A branch.
    fn branch_get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Branch>>;
    /// Moves a branch from `expected` to `head`; gives whether it was at `expected` (compare-and-set).
    fn branch_move(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        head: &CommitHash,
        at: Timestamp,
    ) -> Result<bool>;
    /// Removes a branch that is at `expected`; gives whether it was.
    fn branch_remove(&mut self, database: DatabaseId, name: &RefName, expected: &CommitHash) -> Result<bool>;
    /// Branches by name byte-wise, after `after`.
    fn branch_list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Branch>>;
    /// Adds a tag. `Taken` when the name is.
    fn tag_add(&mut self, database: DatabaseId, tag: &Tag) -> Result<()>;
    /// A tag.
    fn tag_get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Tag>>;
    /// Removes a tag; gives whether it existed.
    fn tag_remove(&mut self, database: DatabaseId, name: &RefName) -> Result<bool>;
    /// Tags by name byte-wise, after `after`.
    fn tag_list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Tag>>;
    /// Copies all branches and tags of a database to another that has none.
    fn refs_copy(&mut self, from: DatabaseId, to: DatabaseId) -> Result<()>;
    /// Distinct commits that branches, tags and pulls of a database name, ascending, after `after`: of a pull what its merge took, else the heads it
    /// shows once they are fetched.
    fn named_commits(
        &mut self,
        database: DatabaseId,
        after: Option<&CommitHash>,
        limit: usize,
    ) -> Result<Vec<CommitHash>>;
}

/// Filters of the list of pulls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullFilter {
    /// Only those that stand there.
    pub standing: Option<PullStanding>,
    /// Only with this in title or description, whatever the case; a text above [`PullFilter::MAX_CONTAINS`] is in none.
    pub contains: Option<String>,
}

impl PullFilter {
    /// Bytes of the longest text that is searched for. SQLite refuses patterns above 50,000 bytes.
    pub const MAX_CONTAINS: usize = 20_000;
}

/// State of a pull without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStanding {
    /// See [`crate::entities::PullState::Open`].
    Open,
    /// See [`crate::entities::PullState::Closed`].
    Closed,
    /// See [`crate::entities::PullState::Merged`].
    Merged,
}

/// A pull whose commits are to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFetch {
    /// The base database.
    pub database_id: DatabaseId,
    /// The number of the pull there.
    pub number: PullNumber,
    /// The user who opened the pull.
    pub author: AccountId,
    /// How often fetching failed since its source last moved.
    pub tries: u32,
}

/// Pulls whose commits wait to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchBacklog {
    /// Pulls whose fetch is due or under way.
    pub due: u64,
    /// Since when the oldest of them is due.
    pub oldest_due_at: Option<Timestamp>,
}

/// How a fetch for a pull ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchEnd<'a> {
    /// This head of the source is in the base now.
    Fetched(&'a CommitHash),
    /// It failed and is to be tried again then.
    Failed(Timestamp),
    /// There is nothing to fetch.
    Dropped,
}

/// Pulls and their comments.
pub trait PullRepository {
    /// Takes the next number of a database; numbers are never given twice.
    fn pull_next_number(&mut self, database: DatabaseId) -> Result<PullNumber>;
    /// Adds a pull. `Taken` when an open one has the same source and target.
    fn pull_add(&mut self, pull: &Pull) -> Result<()>;
    /// A pull.
    fn pull_get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>>;
    /// The open pull between two branches.
    fn pull_open_between(
        &mut self,
        database: DatabaseId,
        from_database: DatabaseId,
        from_branch: &RefName,
        to_branch: &RefName,
    ) -> Result<Option<Pull>>;
    /// Changes title, description, state, content, `updated_at` if the version still is `pull.version`; the version then counts up.
    /// Gives whether it was changed. `Taken` when it would be the second open one between its branches.
    fn pull_update(&mut self, pull: &Pull) -> Result<bool>;
    /// Pulls by number descending, before `before`.
    fn pull_list(
        &mut self,
        database: DatabaseId,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>>;
    /// Has the open pulls from a branch show `head` with the present head of their target. The commits of those to other databases are due to be
    /// fetched at `now`. Returns how many of these there are.
    fn pull_source_moved(
        &mut self,
        database: DatabaseId,
        branch: &RefName,
        head: &CommitHash,
        now: Timestamp,
    ) -> Result<u64>;
    /// Pulls to other databases that are neither merged nor hidden, by base, then number, after that pair.
    fn pull_unmerged_from(
        &mut self,
        source: DatabaseId,
        after: Option<(DatabaseId, PullNumber)>,
        limit: usize,
    ) -> Result<Vec<Pull>>;
    /// Pulls from other databases that are neither merged nor hidden, by number, after `after`.
    fn pull_unmerged_to(&mut self, base: DatabaseId, after: Option<PullNumber>, limit: usize) -> Result<Vec<Pull>>;
    /// Pulls whose fetch is due at `now` and not leased, those that wait longest first; of each author at most `per_author`.
    fn pull_fetch_due(&mut self, now: Timestamp, per_author: u32, limit: usize) -> Result<Vec<PullFetch>>;
    /// Leases a fetch that is due at `now` until `until`. Returns whether it was due and free.
    fn pull_fetch_lease(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool>;
    /// Has the lease of a fetch that is leased end at `until`. Returns whether it was leased.
    fn pull_fetch_prolong(&mut self, database: DatabaseId, number: PullNumber, until: Timestamp) -> Result<bool>;
    /// What is due at `now`, leased or not.
    fn pull_fetch_backlog(&mut self, now: Timestamp) -> Result<FetchBacklog>;
    /// Ends the lease of a fetch. A source that moved meanwhile leaves the fetch due. Returns whether the pull shows what was fetched.
    fn pull_fetch_end(&mut self, database: DatabaseId, number: PullNumber, end: FetchEnd<'_>) -> Result<bool>;
    /// Ends all leases of fetches. Closes and hides the open pulls without heads from another database that is not public: a release that asked for
    /// no consent opened them. Has every other open pull that does not show the present head of its source show that, as
    /// [`PullRepository::pull_source_moved`] does. Returns how many fetches are due.
    fn pull_fetch_recover(&mut self, now: Timestamp) -> Result<u64>;
    /// Adds a comment.
    fn comment_add(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        author: AccountId,
        comment: &PullComment,
    ) -> Result<()>;
    /// Comments, oldest first, after `after`.
    fn comment_list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>>;
}

/// Releases.
pub trait ReleaseRepository {
    /// Adds a release. `Taken` when its tag has one.
    fn release_add(&mut self, database: DatabaseId, release: &Release) -> Result<()>;
    /// The release of a tag.
    fn release_get(&mut self, database: DatabaseId, tag: &RefName) -> Result<Option<Release>>;
    /// Releases, newest first (then by tag), after that pair.
    fn release_list(
        &mut self,
        database: DatabaseId,
        after: Option<(Timestamp, &str)>,
        limit: usize,
    ) -> Result<Vec<Release>>;
    /// Changes title, description and `updated_at` of the release of a tag; gives whether there is one.
    fn release_update(&mut self, database: DatabaseId, release: &Release) -> Result<bool>;
    /// Removes the release of a tag; gives whether there was one.
    fn release_remove(&mut self, database: DatabaseId, tag: &RefName) -> Result<bool>;
}

/// Filters of the list of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationFilter {
    /// Only in this state.
    pub state: Option<OperationState>,
    /// Only of these kinds.
    pub kinds: Option<&'static [OperationKind]>,
}

/// State of an operation without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    /// See [`crate::entities::OperationStatus::Queued`].
    Queued,
    /// See [`crate::entities::OperationStatus::Running`].
    Running,
    /// See [`crate::entities::OperationStatus::Succeeded`].
    Succeeded,
    /// See [`crate::entities::OperationStatus::Failed`].
    Failed,
}

/// Operations.
pub trait OperationRepository {
    /// Adds an operation.
    fn operation_add(&mut self, operation: &Operation) -> Result<()>;
    /// An operation.
    fn operation_get(&mut self, id: OperationId) -> Result<Option<Operation>>;
    /// Operations of a database, newest first, before `before`.
    fn operation_list(
        &mut self,
        database: DatabaseId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>>;
    /// Operations that a user asked for in any database, newest first, before `before`.
    fn operation_list_by(
        &mut self,
        creator: AccountId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>>;
    /// How many wait in a database.
    fn operation_count_queued(&mut self, database: DatabaseId) -> Result<u64>;
    /// The unsettled operations of a database, oldest first.
    fn operation_pending(&mut self, database: DatabaseId) -> Result<Vec<Operation>>;
    /// Leases an operation that may run: queued, or running with a lease that ended, in a database none of whose operations is running under a
    /// live lease. Of the creators of such, `turn` says whose; of these, the oldest. It becomes running, one attempt more, leased to `holder`
    /// until `until`.
    fn operation_lease(
        &mut self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        turn: LeaseTurn<'_>,
    ) -> Result<Option<Operation>>;
    /// Prolongs the lease of `holder`; gives whether it still had it.
    fn operation_extend(&mut self, id: OperationId, holder: &str, until: Timestamp) -> Result<bool>;
    /// Ends a running operation of `holder` (or, with `None`, a queued one) with the status and times given. Gives whether it
    /// was in that state.
    fn operation_settle(&mut self, operation: &Operation, holder: Option<&str>) -> Result<bool>;
    /// Operations that wait, and operations that run.
    fn operation_backlog(&mut self) -> Result<OperationBacklog>;
    /// Ends the leases of all workers of a node (`<node>/…`), for its start; gives how many.
    fn operation_recover(&mut self, node: &str) -> Result<u64>;
    /// Hands what `holder` has leased back to the queue, where its place is kept. The attempt counts, or it is as if it had not been made.
    fn operation_hand_back(&mut self, holder: &str, counts: bool) -> Result<()>;
    /// Whether a fork of this name is being made for this owner.
    fn operation_forking_to(&mut self, owner: AccountId, name: &DatabaseName) -> Result<bool>;
    /// Removes operations settled before `before`; gives how many.
    fn operation_purge(&mut self, before: Timestamp) -> Result<u64>;
}

/// Upload sessions.
pub trait UploadRepository {
    /// Opens a session.
    fn upload_add(&mut self, upload: &Upload) -> Result<()>;
    /// A session with its parts.
    fn upload_get(&mut self, id: UploadId) -> Result<Option<Upload>>;
    /// Notes a part that has arrived, replacing an earlier one of its number.
    fn upload_part_put(&mut self, id: UploadId, part: &UploadPart) -> Result<()>;
    /// Marks a session as used by an import; gives whether it was unused.
    fn upload_use(&mut self, id: UploadId, operation: OperationId) -> Result<bool>;
    /// How many unused, unexpired sessions a user has.
    fn upload_count_open(&mut self, user: AccountId, now: Timestamp) -> Result<u64>;
    /// Removes a session.
    fn upload_remove(&mut self, id: UploadId) -> Result<()>;
    /// Sessions to collect: unused ones that expired, and those whose import is settled or gone.
    fn upload_abandoned(&mut self, now: Timestamp, limit: usize) -> Result<Vec<UploadId>>;
}

/// An answer kept for an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedAnswer {
    /// Who asked.
    pub caller: AccountId,
    /// Method and path.
    pub scope: String,
    /// The key.
    pub key: String,
    /// SHA-256 of the request body.
    pub request_hash: [u8; 32],
    /// The answer, as the adapter encoded it.
    pub answer: Vec<u8>,
    /// When it was given.
    pub created_at: Timestamp,
}

/// Saved answers.
pub trait IdempotencyRepository {
    /// Keeps an answer. `Taken` when the key has one.
    fn answer_add(&mut self, answer: &SavedAnswer) -> Result<()>;
    /// The answer of a key, unless it was given before `not_before`.
    fn answer_get(
        &mut self,
        caller: AccountId,
        scope: &str,
        key: &str,
        not_before: Timestamp,
    ) -> Result<Option<SavedAnswer>>;
    /// Removes answers given before `before`; gives how many.
    fn answer_purge(&mut self, before: Timestamp) -> Result<u64>;
}

/// The outbox.
pub trait EventRepository {
    /// Appends an event.
    fn event_add(&mut self, event: &Event) -> Result<()>;
    /// Events of a database in the order they were appended, after `after`.
    fn event_list(&mut self, database: DatabaseId, after: Option<EventId>, limit: usize) -> Result<Vec<Event>>;
    /// Events of which no deliveries were made yet, in the order they were appended.
    fn event_waiting(&mut self, limit: usize) -> Result<Vec<Event>>;
    /// Notes that the deliveries of an event were made; without any, it is removed.
    fn event_dispatched(&mut self, id: EventId, at: Timestamp) -> Result<()>;
    /// Removes events whose deliveries were made and are gone; gives how many.
    fn event_purge(&mut self) -> Result<u64>;
}

/// What happened, for people to look back on.
pub trait ActivityRepository {
    /// Notes something; the name of who did it is not kept.
    fn activity_add(&mut self, activity: &Activity) -> Result<()>;
    /// What happened in a database, newest first.
    fn activity_list(&mut self, database: DatabaseId, limit: usize) -> Result<Vec<Activity>>;
    /// What happened to a pull, newest first.
    fn activity_of_pull(&mut self, database: DatabaseId, number: PullNumber, limit: usize) -> Result<Vec<Activity>>;
    /// Removes what happened before `before`, except to pulls; gives how much.
    fn activity_purge(&mut self, before: Timestamp) -> Result<u64>;
    /// Removes all of a database.
    fn activity_clear(&mut self, database: DatabaseId) -> Result<()>;
}

/// Hooks.
pub trait HookRepository {
    /// Registers a hook.
    fn hook_add(&mut self, hook: &Hook) -> Result<()>;
    /// A hook of a database.
    fn hook_get(&mut self, database: DatabaseId, id: HookId) -> Result<Option<Hook>>;
    /// Hooks of a database by id, which is by creation, after `after`; each with its newest delivery.
    fn hook_list(
        &mut self,
        database: DatabaseId,
        after: Option<HookId>,
        limit: usize,
    ) -> Result<Vec<(Hook, Option<Delivery>)>>;
    /// How many hooks a database has.
    fn hook_count(&mut self, database: DatabaseId) -> Result<u64>;
    /// Changes everything but id, database and creation; gives whether the hook is there.
    fn hook_update(&mut self, hook: &Hook) -> Result<bool>;
    /// Removes a hook with its deliveries; gives whether it was there.
    fn hook_remove(&mut self, id: HookId) -> Result<bool>;
    /// Removes all hooks of a database, their deliveries, and its events.
    fn hook_clear(&mut self, database: DatabaseId) -> Result<()>;
    /// The active hooks of a database that want an event, by id, each with its newest delivery.
    fn hook_subscribed(&mut self, database: DatabaseId, event: HookEvent) -> Result<Vec<(HookId, Option<DeliveryId>)>>;
}

/// Status of a delivery without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// See [`crate::entities::DeliveryStatus::Pending`].
    Pending,
    /// See [`crate::entities::DeliveryStatus::Delivered`].
    Delivered,
    /// See [`crate::entities::DeliveryStatus::Failed`].
    Failed,
}

/// Deliveries that somebody alone may attempt now, one after the other. It is the hook that is leased: there is one attempt at a time for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The hook.
    pub hook: Hook,
    /// Its first due deliveries, by event, with their bodies; at least one.
    pub deliveries: Vec<(Delivery, String)>,
    /// When it ends by itself. It tells this lease from others of the same holder, too.
    pub until: Timestamp,
}

/// Operations that are not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationBacklog {
    /// Waiting.
    pub queued: u64,
    /// Being run, or to be run again.
    pub running: u64,
}

/// What waits to be told to hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryBacklog {
    /// Events whose deliveries are still to be made.
    pub events: u64,
    /// Deliveries that are due or being attempted.
    pub due: u64,
    /// Since when the oldest of them is due.
    pub oldest_due_at: Option<Timestamp>,
}

/// Whose operation is leased next: creators take turns in the order of their ids, and the first one follows the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseTurn<'a> {
    /// The creator whose turn was last.
    pub after: Option<AccountId>,
    /// Creators that are passed over.
    pub without: &'a [AccountId],
}

/// What may be leased at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places<'a> {
    /// Hooks in all.
    pub hooks: usize,
    /// Of these, hooks whose last attempt failed, and slow ones.
    pub held_back: usize,
    /// Deliveries of a hook; one whose last attempt failed and a slow one have one.
    pub run: usize,
    /// Hooks that are slow.
    pub slow: &'a [HookId],
}

/// Deliveries and their attempts.
pub trait DeliveryRepository {
    /// Queues deliveries.
    fn delivery_add(&mut self, deliveries: &[Delivery]) -> Result<()>;
    /// Those of these deliveries that are there, in any order.
    fn delivery_get_all(&mut self, ids: &[DeliveryId]) -> Result<Vec<Delivery>>;
    /// A delivery of a hook.
    fn delivery_get(&mut self, hook: HookId, id: DeliveryId) -> Result<Option<Delivery>>;
    /// Deliveries of a hook, newest first, before `before`.
    fn delivery_list(
        &mut self,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Delivery>>;
    /// What the last attempt of a delivery sent, unless there was none, and the body.
    fn delivery_request(&mut self, id: DeliveryId) -> Result<Option<(Option<Request>, String)>>;
    /// The attempts of a delivery that are kept, oldest first.
    fn attempt_list(&mut self, delivery: DeliveryId) -> Result<Vec<Attempt>>;
    /// Adds an attempt, what it sent, and the status and counts that its delivery has by it, while the hook is held: when the hook is
    /// due is noted by [`DeliveryRepository::delivery_release`]. Of the attempts before it, the latest are kept, `keep` with this one.
    fn attempt_add(&mut self, delivery: &Delivery, attempt: &Attempt, request: &Request, keep: usize) -> Result<()>;
    /// Changes status and counts of a delivery; gives whether it is there.
    fn delivery_update(&mut self, delivery: &Delivery) -> Result<bool>;
    /// Gives up all pending deliveries of a hook; gives how many.
    fn delivery_give_up(&mut self, hook: HookId, at: Timestamp) -> Result<u64>;
    /// Returns `true` if a delivery is due in a hook that has no lease and that these places admit.
    fn delivery_is_due(&mut self, now: Timestamp, places: Places<'_>) -> Result<bool>;
    /// Leases hooks that nobody holds and that have something due, those that wait longest first.
    fn delivery_lease(
        &mut self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        places: Places<'_>,
    ) -> Result<Vec<Lease>>;
    /// Of leases, each of a hook and with its end, those that `holder` still has, with the hook as it is now; in any order.
    fn delivery_held(&mut self, holder: &str, leases: &[(HookId, Timestamp)]) -> Result<Vec<(Hook, Timestamp)>>;
    /// Ends the leases of hooks.
    fn delivery_release(&mut self, hooks: &[HookId]) -> Result<()>;
    /// Ends all leases of `holder`; gives how many.
    fn delivery_recover(&mut self, holder: &str) -> Result<u64>;
    /// What waits at `now`.
    fn delivery_backlog(&mut self, now: Timestamp) -> Result<DeliveryBacklog>;
    /// Removes deliveries finished before `before`, at most `limit`; gives how many.
    fn delivery_purge(&mut self, before: Timestamp, limit: usize) -> Result<u64>;
}
