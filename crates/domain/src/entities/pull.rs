//! Pull requests.

use super::DatabaseLocator;
use crate::errors::PullStateError;
use crate::values::{AccountId, CommentId, CommitHash, DatabaseId, OwnerName, PullNumber, RefName, Timestamp};

/// Where a pull stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullState {
    /// Waiting to be merged.
    Open,
    /// Given up; may be opened again.
    Closed {
        /// When.
        at: Timestamp,
    },
    /// Merged; final.
    Merged {
        /// When.
        at: Timestamp,
        /// By whom.
        by: OwnerName,
        /// Head of the target branch afterwards.
        commit: CommitHash,
        /// Where both sides had parted when it was merged.
        base: CommitHash,
        /// Head of the source branch that was merged.
        source: CommitHash,
    },
}

/// A wish to merge one branch into another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// The base database.
    pub database_id: DatabaseId,
    /// Its number there.
    pub number: PullNumber,
    /// What it is about.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// Where it stands.
    pub state: PullState,
    /// Who opened it.
    pub creator_id: AccountId,
    /// The name of who opened it.
    pub creator: OwnerName,
    /// The source database; may be the base itself, or deleted by now.
    pub from_database_id: DatabaseId,
    /// How the source database was called.
    pub from_locator: DatabaseLocator,
    /// The branch to merge.
    pub from_branch: RefName,
    /// The branch to merge into.
    pub to_branch: RefName,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Counts changes to this pull.
    pub version: i64,
}

impl Pull {
    /// Closes an open pull. Returns whether anything changed.
    ///
    /// # Errors
    /// Merged is final.
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

    /// Opens a closed pull again. Returns whether anything changed.
    ///
    /// # Errors
    /// Merged is final.
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

    /// Marks an open pull as merged.
    ///
    /// # Errors
    /// Only an open pull merges.
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
                self.state = PullState::Merged { at, by, commit, base, source };
                Ok(())
            }
            PullState::Closed { .. } => Err(PullStateError::Closed),
            PullState::Merged { .. } => Err(PullStateError::Merged),
        }
    }
}

/// A remark on a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullComment {
    /// Its id.
    pub id: CommentId,
    /// Who wrote it.
    pub author: OwnerName,
    /// What it says.
    pub body: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
}
