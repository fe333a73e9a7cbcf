//! Pull requests.

use super::DatabaseLocator;
use crate::errors::{NotShown, PullStateError};
use crate::values::{AccountId, CommentId, CommitHash, DatabaseId, OwnerName, PullNumber, RefName, Timestamp};

/// The state of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullState {
    /// Open for merging.
    Open,
    /// Closed without a merge. Can be reopened.
    Closed {
        /// When the pull request was closed.
        at: Timestamp,
    },
    /// Merged. Final.
    Merged {
        /// When the pull request was merged.
        at: Timestamp,
        /// Name of the user who merged it.
        by: OwnerName,
        /// Head of the target branch afterwards.
        commit: CommitHash,
        /// The merge base at the time of the merge.
        base: CommitHash,
        /// The merged head of the source branch.
        source: CommitHash,
    },
}

/// The two commits that a pull request compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullHeads {
    /// Head of the source branch.
    pub from: CommitHash,
    /// Head of the target branch when `from` was stored.
    pub to: CommitHash,
}

/// Why the content of a pull request is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullHidden {
    /// An administrator of the source database withdrew the pull request.
    Withdrawn,
    /// The source database was deleted or made private, or the base was made public.
    WithSource,
}

/// The content that a pull request shows of its source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullContent {
    /// The compared heads. `None` if the pull request is hidden, or comes from a server version that did not store
    /// heads.
    pub heads: Option<PullHeads>,
    /// Since when the commits of `heads.from` wait to be fetched into the base. `None` once they are in the base.
    pub fetch_due_at: Option<Timestamp>,
    /// Why the pull request is hidden. A hidden pull request has no heads and is never open.
    pub hidden: Option<PullHidden>,
    /// Whether the author consented to making the source branch public.
    pub is_published: bool,
}

/// A pull request: a proposal to merge one branch into another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// The base database.
    pub database_id: DatabaseId,
    /// Number of the pull request in the base database.
    pub number: PullNumber,
    /// Title.
    pub title: String,
    /// Description.
    pub description: Option<String>,
    /// State of the pull request.
    pub state: PullState,
    /// The user who opened the pull request.
    pub creator_id: AccountId,
    /// Name of that user.
    pub creator: OwnerName,
    /// The source database. May be the base itself, or deleted.
    pub from_database_id: DatabaseId,
    /// Owner and name of the source database when the pull request was opened.
    pub from_locator: DatabaseLocator,
    /// The branch to merge.
    pub from_branch: RefName,
    /// The branch to merge into.
    pub to_branch: RefName,
    /// The compared heads and the progress of their fetch.
    pub content: PullContent,
    /// When the pull request was opened.
    pub created_at: Timestamp,
    /// When the pull request last changed.
    pub updated_at: Timestamp,
    /// Version of the row, incremented by each change.
    pub version: i64,
}

impl Pull {
    /// Closes an open pull request. Returns `false` if it is already closed.
    ///
    /// # Errors
    /// [`PullStateError::Merged`] if the pull request is merged.
    pub fn close(&mut self, at: Timestamp) -> Result<bool, PullStateError> {
        match self.state {
            PullState::Open => {
                self.state = PullState::Closed { at };
                Ok(true)
            }
            PullState::Closed { .. } => Ok(false),
            PullState::Merged { .. } => Err(PullStateError::Merged),
        }
    }

    /// Reopens a closed pull request. Returns `false` if it is already open.
    ///
    /// # Errors
    /// [`PullStateError::Merged`] if the pull request is merged.
    pub fn reopen(&mut self) -> Result<bool, PullStateError> {
        match self.state {
            PullState::Open => Ok(false),
            PullState::Closed { .. } => {
                self.state = PullState::Open;
                Ok(true)
            }
            PullState::Merged { .. } => Err(PullStateError::Merged),
        }
    }

    /// Returns `true` if source and base are the same database.
    pub fn is_within(&self) -> bool {
        self.from_database_id == self.database_id
    }

    /// Sets the heads that the pull request shows. Commits of another database become due to be fetched.
    pub fn show(&mut self, heads: PullHeads, now: Timestamp) {
        self.content.fetch_due_at = (!self.is_within()).then_some(now);
        self.content.heads = Some(heads);
    }

    /// Hides all content of the pull request and closes it. Returns `true` if it was open.
    ///
    /// # Errors
    /// [`PullStateError::Merged`] if the pull request is merged.
    pub fn hide(&mut self, why: PullHidden, at: Timestamp) -> Result<bool, PullStateError> {
        let was_open = self.close(at)?;
        let hidden = self.content.hidden.or(Some(why));
        self.content = PullContent { hidden, ..PullContent::default() };
        Ok(was_open)
    }

    /// Returns the heads that the pull request shows, even if their commits have not been fetched yet.
    ///
    /// # Errors
    /// [`NotShown`] with the reason if there are no heads.
    pub fn shown(&self) -> Result<&PullHeads, NotShown> {
        match (self.content.hidden, &self.content.heads) {
            (Some(PullHidden::Withdrawn), _) => Err(NotShown::Withdrawn),
            (Some(PullHidden::WithSource), _) => Err(NotShown::HiddenWithSource),
            (None, None) => Err(NotShown::NoHeads),
            (None, Some(heads)) => Ok(heads),
        }
    }

    /// Marks an open pull request as merged.
    ///
    /// # Errors
    /// [`PullStateError`] if the pull request is not open.
    pub fn merge(
        &mut self,
        at: Timestamp,
        by: OwnerName,
        commit: CommitHash,
        base: CommitHash,
        source: CommitHash,
    ) -> Result<(), PullStateError> {
        match self.state {
            PullState::Open => {
                self.content.fetch_due_at = None;
                self.state = PullState::Merged { at, by, commit, base, source };
                Ok(())
            }
            PullState::Closed { .. } => Err(PullStateError::Closed),
            PullState::Merged { .. } => Err(PullStateError::Merged),
        }
    }
}

/// What the author of a pull request wrote, without the state of the pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoredPull {
    /// The base database.
    pub database: DatabaseLocator,
    /// Number of the pull request in the base database.
    pub number: PullNumber,
    /// Title.
    pub title: String,
    /// Description.
    pub description: Option<String>,
    /// The branch to merge.
    pub from_branch: RefName,
    /// The branch to merge into.
    pub to_branch: RefName,
    /// When the pull request was created.
    pub created_at: Timestamp,
}

/// A comment on a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullComment {
    /// Id of the comment.
    pub id: CommentId,
    /// Name of the author.
    pub author: OwnerName,
    /// Text of the comment.
    pub body: String,
    /// When the comment was written.
    pub created_at: Timestamp,
    /// When the comment was last edited.
    pub updated_at: Timestamp,
}
