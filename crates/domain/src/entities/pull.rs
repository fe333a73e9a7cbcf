//! Pull requests.

use super::DatabaseLocator;
use crate::errors::{NotShown, PullStateError};
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

/// The two commits a pull shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullHeads {
    /// Head of the source branch.
    pub from: CommitHash,
    /// Head of the target branch when `from` was stored.
    pub to: CommitHash,
}

/// Why a pull shows nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullHidden {
    /// An administrator of the source withdrew it.
    Withdrawn,
    /// Its source was deleted or made private, or its base was made public.
    WithSource,
}

/// What a pull shows of its source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullContent {
    /// The heads that are shown. `None` when the pull is hidden, or comes from a release that stored none.
    pub heads: Option<PullHeads>,
    /// Since when the commits of `heads.from` wait to be fetched into the base; `None` when they are there.
    pub fetch_due_at: Option<Timestamp>,
    /// Why it is hidden. A hidden pull has no heads and is never open.
    pub hidden: Option<PullHidden>,
    /// Whether its author agreed that everybody may see the source branch.
    pub is_published: bool,
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
    /// The heads that the pull shows, and how far they are fetched.
    pub content: PullContent,
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

    /// Whether source and base are one database.
    pub fn is_within(&self) -> bool {
        self.from_database_id == self.database_id
    }

    /// Shows these heads from now on. The commits of another database are fetched first.
    pub fn show(&mut self, heads: PullHeads, now: Timestamp) {
        self.content.fetch_due_at = (!self.is_within()).then_some(now);
        self.content.heads = Some(heads);
    }

    /// Takes back all that the pull shows, and closes it. Returns whether it was open.
    ///
    /// # Errors
    /// Merged is final.
    pub fn hide(&mut self, why: PullHidden, at: Timestamp) -> Result<bool, PullStateError> {
        let was_open = self.close(at)?;
        let hidden = self.content.hidden.or(Some(why));
        self.content = PullContent { hidden, ..PullContent::default() };
        Ok(was_open)
    }

    /// The heads that the pull shows, whether or not their commits have been fetched.
    ///
    /// # Errors
    /// [`NotShown`] says why there are none.
    pub fn shown(&self) -> Result<&PullHeads, NotShown> {
        match (self.content.hidden, &self.content.heads) {
            (Some(PullHidden::Withdrawn), _) => Err(NotShown::Withdrawn),
            (Some(PullHidden::WithSource), _) => Err(NotShown::HiddenWithSource),
            (None, None) => Err(NotShown::NoHeads),
            (None, Some(heads)) => Ok(heads),
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
                self.content.fetch_due_at = None;
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
