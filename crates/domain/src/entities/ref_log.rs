//! The log of changes of branches and tags.

use crate::values::{AccountId, CommitHash, RefLogId, RefName, Timestamp};

/// What a ref is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefKind {
    /// A branch.
    Branch,
    /// A tag.
    Tag,
}

/// What the log records of a change of a ref, besides the commits before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefChange {
    /// Id of the record.
    pub id: RefLogId,
    /// When the ref is changed.
    pub at: Timestamp,
    /// The user who changes it.
    pub by: AccountId,
    /// Whether the ref does not reach its former commit any more. Always the case if it is deleted.
    pub is_left_behind: bool,
}

/// A recorded change of a ref. Nothing can be read through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefLogEntry {
    /// Id of the record.
    pub id: RefLogId,
    /// What the ref is.
    pub kind: RefKind,
    /// Name of the ref.
    pub name: RefName,
    /// The commit before. `None` if the ref did not exist, or if the entry is erased.
    pub old: Option<CommitHash>,
    /// The commit afterwards. `None` if the ref was deleted.
    pub new: Option<CommitHash>,
    /// When the ref was changed.
    pub at: Timestamp,
    /// The user who changed it. `None` for a deletion that an earlier release recorded.
    pub by: Option<AccountId>,
    /// Whether the ref does not reach `old` any more. Garbage collections keep such commits for a while.
    pub is_left_behind: bool,
    /// Whether `old` was removed from the log, because nothing may be restored to it.
    pub is_erased: bool,
}

impl RefLogEntry {
    /// Removes the former commit from the entry.
    pub fn erase(&mut self) {
        (self.old, self.is_left_behind, self.is_erased) = (None, false, true);
    }
}
