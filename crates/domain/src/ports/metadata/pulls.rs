//! Pull requests, their fetches and comments.

use super::Result;
use crate::entities::{Pull, PullComment};
use crate::values::{AccountId, CommentId, CommitHash, DatabaseId, PullNumber, RefName, Timestamp};

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

/// Pull requests.
pub trait PullRepository {
    /// Takes the next number of a database; numbers are never given twice.
    fn next_number(&mut self, database: DatabaseId) -> Result<PullNumber>;
    /// Adds a pull. `Taken` when an open one has the same source and target.
    fn add(&mut self, pull: &Pull) -> Result<()>;
    /// A pull.
    fn get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>>;
    /// The open pull between two branches.
    fn find_open(
        &mut self,
        database: DatabaseId,
        from_database: DatabaseId,
        from_branch: &RefName,
        to_branch: &RefName,
    ) -> Result<Option<Pull>>;
    /// Changes title, description, state, content, `updated_at` if the version still is `pull.version`; the version then counts up.
    /// Gives whether it was changed. `Taken` when it would be the second open one between its branches.
    fn update(&mut self, pull: &Pull) -> Result<bool>;
    /// Pulls by number descending, before `before`.
    fn list(
        &mut self,
        database: DatabaseId,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>>;
    /// Has the open pulls from a branch show `head` with the present head of their target. The commits of those to other databases are due to be
    /// fetched at `now`. Returns how many of these there are.
    fn record_source_move(
        &mut self,
        database: DatabaseId,
        branch: &RefName,
        head: &CommitHash,
        now: Timestamp,
    ) -> Result<u64>;
    /// Pulls to other databases that are neither merged nor hidden, by base, then number, after that pair.
    fn list_unmerged_from(
        &mut self,
        source: DatabaseId,
        after: Option<(DatabaseId, PullNumber)>,
        limit: usize,
    ) -> Result<Vec<Pull>>;
    /// Pulls from other databases that are neither merged nor hidden, by number, after `after`.
    fn list_unmerged_to(&mut self, base: DatabaseId, after: Option<PullNumber>, limit: usize) -> Result<Vec<Pull>>;
}

/// Fetches of the commits that pull requests across forks bring.
pub trait PullFetchRepository {
    /// Pulls whose fetch is due at `now` and not leased, those that wait longest first; of each author at most `per_author`.
    fn due(&mut self, now: Timestamp, per_author: u32, limit: usize) -> Result<Vec<PullFetch>>;
    /// Leases a fetch that is due at `now` until `until`. Returns whether it was due and free.
    fn lease(&mut self, database: DatabaseId, number: PullNumber, now: Timestamp, until: Timestamp) -> Result<bool>;
    /// Has the lease of a fetch that is leased end at `until`. Returns whether it was leased.
    fn extend_lease(&mut self, database: DatabaseId, number: PullNumber, until: Timestamp) -> Result<bool>;
    /// What is due at `now`, leased or not.
    fn backlog(&mut self, now: Timestamp) -> Result<FetchBacklog>;
    /// Ends the lease of a fetch. A source that moved meanwhile leaves the fetch due. Returns whether the pull shows what was fetched.
    fn settle(&mut self, database: DatabaseId, number: PullNumber, end: FetchEnd<'_>) -> Result<bool>;
    /// Ends all leases of fetches. Closes and hides the open pulls without heads from another database that is not public: a release that asked for
    /// no consent opened them. Has every other open pull that does not show the present head of its source show that, as
    /// [`PullRepository::record_source_move`] does. Returns how many fetches are due.
    fn recover(&mut self, now: Timestamp) -> Result<u64>;
}

/// Comments on pull requests.
pub trait PullCommentRepository {
    /// Adds a comment.
    fn add(&mut self, database: DatabaseId, number: PullNumber, author: AccountId, comment: &PullComment)
    -> Result<()>;
    /// Comments, oldest first, after `after`.
    fn list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>>;
}
