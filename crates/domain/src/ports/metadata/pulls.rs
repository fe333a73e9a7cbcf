//! Pull requests, their fetches and comments.

use super::Result;
use crate::entities::{Pull, PullComment};
use crate::values::{AccountId, CommentId, CommitHash, DatabaseId, PullNumber, RefName, Timestamp};

/// Filters for lists of pull requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullFilter {
    /// Pull requests in this state.
    pub standing: Option<PullStanding>,
    /// Pull requests with this text in title or description, compared case-insensitively. No pull request matches a
    /// text longer than [`PullFilter::MAX_CONTAINS`].
    pub contains: Option<String>,
}

impl PullFilter {
    /// Maximum length of the search text, in bytes. SQLite rejects patterns above 50,000 bytes.
    pub const MAX_CONTAINS: usize = 20_000;
}

/// State of a pull request without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStanding {
    /// See [`crate::entities::PullState::Open`].
    Open,
    /// See [`crate::entities::PullState::Closed`].
    Closed,
    /// See [`crate::entities::PullState::Merged`].
    Merged,
}

/// A pull request whose commits have to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFetch {
    /// The base database.
    pub database_id: DatabaseId,
    /// The number of the pull request in that database.
    pub number: PullNumber,
    /// The user who opened the pull request.
    pub author: AccountId,
    /// Number of failed fetches since the source last moved.
    pub tries: u32,
}

/// Fetches that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchBacklog {
    /// Pull requests whose fetch is due or in progress.
    pub due: u64,
    /// Since when the oldest of these fetches is due.
    pub oldest_due_at: Option<Timestamp>,
}

/// How a fetch for a pull request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchEnd<'a> {
    /// This head of the source is now in the base database.
    Fetched(&'a CommitHash),
    /// The fetch failed and is due again at this time.
    Failed(Timestamp),
    /// There is nothing to fetch.
    Dropped,
}

/// The repository of pull requests.
pub trait PullRepository {
    /// Allocates the next number of a database. Numbers are never reused.
    fn next_number(&mut self, database: DatabaseId) -> Result<PullNumber>;
    /// Adds a pull request. Returns `MetadataError::Taken` if an open one has the same source and target.
    fn add(&mut self, pull: &Pull) -> Result<()>;
    /// Returns a pull request.
    fn get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>>;
    /// Returns the open pull request between two branches.
    fn find_open(
        &mut self,
        database: DatabaseId,
        from_database: DatabaseId,
        from_branch: &RefName,
        to_branch: &RefName,
    ) -> Result<Option<Pull>>;
    /// Updates title, description, state, content and `updated_at` if the stored version equals `pull.version`, and
    /// increments the version. Returns `false` if the versions differ, and `MetadataError::Taken` if another open
    /// pull request has the same source and target.
    fn update(&mut self, pull: &Pull) -> Result<bool>;
    /// Lists pull requests by descending number, before `before`.
    fn list(
        &mut self,
        database: DatabaseId,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>>;
    /// Sets the source head of the open pull requests from a branch to `head`, and their target head to the present
    /// head of the target. For pull requests to other databases, a fetch becomes due at `now`. Returns the number of
    /// these fetches.
    fn record_source_move(
        &mut self,
        database: DatabaseId,
        branch: &RefName,
        head: &CommitHash,
        now: Timestamp,
    ) -> Result<u64>;
    /// Lists pull requests to other databases that are neither merged nor hidden, by base and number, after that
    /// pair.
    fn list_unmerged_from(
        &mut self,
        source: DatabaseId,
        after: Option<(DatabaseId, PullNumber)>,
        limit: usize,
    ) -> Result<Vec<Pull>>;
    /// Lists pull requests from other databases that are neither merged nor hidden, by number, after `after`.
    fn list_unmerged_to(&mut self, base: DatabaseId, after: Option<PullNumber>, limit: usize) -> Result<Vec<Pull>>;
    /// Returns for each of `commits` that the merge of a pull request made, or moved the target to, the commit and the number of
    /// the pull request. Merges that found everything in the target already are left out.
    fn merged_as(&mut self, database: DatabaseId, commits: &[CommitHash]) -> Result<Vec<(CommitHash, PullNumber)>>;
}

/// The repository of fetches of commits for pull requests across forks.
pub trait PullFetchRepository {
    /// Lists pull requests whose fetch is due at `now` and not leased, longest-waiting first. Returns at most
    /// `per_author` of each author, and none whose base or source is quarantined.
    fn due(&mut self, now: Timestamp, per_author: u32, limit: usize) -> Result<Vec<PullFetch>>;
    /// Leases a fetch that is due at `now` until `until`. Returns `false` if the fetch is not due or is leased.
    fn lease(&mut self, database: DatabaseId, number: PullNumber, now: Timestamp, until: Timestamp) -> Result<bool>;
    /// Extends the lease of a fetch to `until`. Returns `false` if the fetch is not leased.
    fn extend_lease(&mut self, database: DatabaseId, number: PullNumber, until: Timestamp) -> Result<bool>;
    /// Counts the fetches that are due at `now`, leased or not.
    fn backlog(&mut self, now: Timestamp) -> Result<FetchBacklog>;
    /// Ends the lease of a fetch. The fetch stays due if the source moved in the meantime. Returns `true` if the pull
    /// request shows the fetched head.
    fn settle(&mut self, database: DatabaseId, number: PullNumber, end: FetchEnd<'_>) -> Result<bool>;
    /// Ends all leases of fetches. Closes and hides open pull requests without heads whose source is another database
    /// that is not public; an earlier release opened these without consent. Updates every other open pull request
    /// whose source head is outdated, as [`PullRepository::record_source_move`] does. Returns the number of due
    /// fetches.
    fn recover(&mut self, now: Timestamp) -> Result<u64>;
}

/// The repository of comments on pull requests.
pub trait PullCommentRepository {
    /// Adds a comment.
    fn add(&mut self, database: DatabaseId, number: PullNumber, author: AccountId, comment: &PullComment)
    -> Result<()>;
    /// Lists comments, oldest first, after `after`.
    fn list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>>;
}
