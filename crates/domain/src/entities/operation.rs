//! Operations: accepted work that takes effect exactly once, or fails and changes nothing.

use std::collections::BTreeMap;

use super::{DatabaseLocator, FileType};
use crate::values::{
    AccountId, CommitHash, DatabaseId, OperationId, OwnerName, PullNumber, RefName, Timestamp, UploadId,
};

/// Which side wins a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The branch merged into.
    Ours,
    /// The branch merged from.
    Theirs,
}

/// How an import treats the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    /// Make it; it must not exist.
    Create,
    /// Make it, dropping what was there.
    Overwrite,
    /// Upsert by primary key.
    Update,
    /// Keep the definition, exchange all rows.
    Replace,
}

/// What an import is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRequest {
    /// The upload that holds the file.
    pub upload_id: UploadId,
    /// The branch to land on, or to open the pull to.
    pub branch: RefName,
    /// The table; empty only for SQL scripts.
    pub table: String,
    /// Name of the file, informative.
    pub file_name: String,
    /// Its format.
    pub file_type: FileType,
    /// How to treat the table.
    pub mode: ImportMode,
    /// Columns of the primary key, in order.
    pub primary_keys: Vec<String>,
    /// Message of the commit.
    pub message: String,
    /// Land on this branch instead and open a pull from it.
    pub pull_branch: Option<RefName>,
    /// File column → table column.
    pub column_map: BTreeMap<String, String>,
}

/// What a merge brings together, as it was when the merge was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullEnds {
    /// The source database.
    pub from: DatabaseLocator,
    /// The branch to merge.
    pub from_branch: RefName,
    /// The branch to merge into.
    pub to_branch: RefName,
}

/// The input of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Run statements on a branch, as one commit.
    SqlWrite {
        /// Where `to_branch` starts when it does not exist, and what is merged into it.
        from_branch: RefName,
        /// Where the statements run.
        to_branch: RefName,
        /// The statements; empty for the merge alone.
        statements: String,
        /// Message of the commit.
        message: String,
    },
    /// Merge a pull.
    Merge {
        /// Which.
        pull: PullNumber,
        /// What it brings together, for those who list operations.
        ends: PullEnds,
        /// Message of the merge commit.
        message: String,
        /// Who wins in tables with conflicts.
        resolve: BTreeMap<String, Side>,
    },
    /// Copy the database to another owner.
    Fork {
        /// The new owner.
        owner_id: AccountId,
        /// The new owner's name.
        owner: OwnerName,
        /// Id of the database to be.
        fork_id: DatabaseId,
    },
    /// Import a file.
    Import(ImportRequest),
}

/// Which kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// See [`Work::SqlWrite`].
    SqlWrite,
    /// See [`Work::Merge`].
    Merge,
    /// See [`Work::Fork`].
    Fork,
    /// See [`Work::Import`].
    Import,
}

impl Work {
    /// Which kind of work this is.
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::SqlWrite { .. } => OperationKind::SqlWrite,
            Self::Merge { .. } => OperationKind::Merge,
            Self::Fork { .. } => OperationKind::Fork,
            Self::Import(_) => OperationKind::Import,
        }
    }
}

/// What an operation that succeeded brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Head of the target branch at the end.
    pub commit: Option<CommitHash>,
    /// Its head before; where the branch was made, the commit it was made at.
    pub previous: Option<CommitHash>,
    /// Rows that the statements of a write inserted, updated or deleted.
    pub rows_affected: Option<u64>,
    /// The pull that was merged or opened.
    pub pull: Option<PullNumber>,
    /// The fork.
    pub database: Option<(DatabaseId, DatabaseLocator)>,
}

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Its own content made it fail.
    Content,
    /// Two sides changed the same thing.
    MergeConflict,
    /// Something it needs is gone.
    NotFound,
    /// Something stands in its way.
    Conflict,
    /// The state of a resource forbids it.
    Unprocessable,
    /// Canceled, or its database was deleted.
    Canceled,
    /// Its creator lost the permission.
    PermissionDenied,
    /// A fault of the server.
    Internal,
    /// Storage or engine unavailable.
    Unavailable,
}

/// A place in an imported file, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProblem {
    /// The line on which the record begins, from 1.
    pub line: u64,
    /// The column, when one is to blame.
    pub column: Option<String>,
    /// What is wrong.
    pub detail: String,
}

/// Why an operation failed, in words for its creator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFailure {
    /// The class of the failure.
    pub kind: FailureKind,
    /// What happened.
    pub detail: String,
    /// Places in the file, at most 100.
    pub rows: Vec<RowProblem>,
}

impl OperationFailure {
    /// A failure without places in a file.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), rows: Vec::new() }
    }
}

/// Where an operation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationStatus {
    /// Accepted, not begun.
    Queued,
    /// Being worked on, or interrupted and to be resumed.
    Running,
    /// Took effect; final.
    Succeeded(Outcome),
    /// Changed nothing; final.
    Failed(OperationFailure),
}

/// Accepted work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// The database it belongs to.
    pub database_id: DatabaseId,
    /// How that database is called; part of the operation's public id.
    pub locator: DatabaseLocator,
    /// What to do.
    pub work: Work,
    /// Where it stands.
    pub status: OperationStatus,
    /// Who asked for it.
    pub created_by: AccountId,
    /// The name of who asked for it.
    pub created_by_name: OwnerName,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When work on it first began.
    pub started_at: Option<Timestamp>,
    /// When it was settled.
    pub finished_at: Option<Timestamp>,
    /// How often work on it began.
    pub attempts: u32,
}

impl Operation {
    /// Whether it can still be canceled: exactly while queued.
    pub fn cancelable(&self) -> bool {
        matches!(self.status, OperationStatus::Queued)
    }

    /// Whether it is over.
    pub fn settled(&self) -> bool {
        matches!(self.status, OperationStatus::Succeeded(_) | OperationStatus::Failed(_))
    }

    /// Takes out the commit that the operation made, and the texts it was made with: statements and message hold what was written.
    pub fn conceal(&mut self) {
        if let OperationStatus::Succeeded(outcome) = &mut self.status {
            outcome.commit = None;
        }
        match &mut self.work {
            Work::SqlWrite { statements, message, .. } => (*statements, *message) = Default::default(),
            Work::Merge { message, .. } => message.clear(),
            Work::Import(import) => import.message.clear(),
            Work::Fork { .. } => {}
        }
    }

    /// Whether the commit that the operation made is not shown, because nothing in its database reaches it any more.
    pub fn is_concealed(&self) -> bool {
        match (&self.status, &self.work) {
            (_, Work::Fork { .. }) => false,
            (OperationStatus::Succeeded(outcome), _) => outcome.commit.is_none(),
            _ => false,
        }
    }
}
