//! Operations: asynchronous work that takes effect exactly once, or fails and changes nothing.

use std::collections::BTreeMap;

use super::{DatabaseLocator, EditRequest, FileType, ImportOptions, RowResolution, Tagger};
use crate::values::{
    AccountId, ChunkHash, CommitHash, DatabaseId, OperationId, OwnerName, PullNumber, RefName, Timestamp, TraceContext,
    UploadId,
};

/// The side that wins a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The branch to merge into.
    Ours,
    /// The branch to merge from.
    Theirs,
}

/// How an import treats its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    /// Create the table, which must not exist.
    Create,
    /// Create the table, dropping an existing one.
    Overwrite,
    /// Upsert rows by primary key.
    Update,
    /// Keep the definition and replace all rows.
    Replace,
}

/// The input of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRequest {
    /// The upload that holds the file.
    pub upload_id: UploadId,
    /// The target branch of the import, or of the pull request that it opens.
    pub branch: RefName,
    /// Name of the table. Empty only for SQL scripts.
    pub table: String,
    /// Name of the file, for information.
    pub file_name: String,
    /// Format of the file.
    pub file_type: FileType,
    /// How to treat the table.
    pub mode: ImportMode,
    /// Columns of the primary key, in order.
    pub primary_keys: Vec<String>,
    /// Message of the commit.
    pub message: String,
    /// The branch to import to instead, from which a pull request is opened.
    pub pull_branch: Option<RefName>,
    /// File column → table column.
    pub column_map: BTreeMap<String, String>,
    /// How the file is read.
    pub options: ImportOptions,
}

/// The branches of a merge, as they were when the merge was requested.
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
    /// Run statements on a branch as one commit.
    SqlWrite {
        /// The branch from which `to_branch` is created if absent, and which is merged into it afterwards.
        from_branch: RefName,
        /// The branch on which the statements run.
        to_branch: RefName,
        /// The statements. Empty for a merge without statements.
        statements: String,
        /// Message of the commit.
        message: String,
        /// The commit that the statements have to run on. The operation fails if they would run on another one.
        expected_head: Option<CommitHash>,
        /// The commit that `to_branch` is created at, which must not exist then. `from_branch` plays no part.
        start: Option<CommitHash>,
    },
    /// Merge a pull request.
    Merge {
        /// Number of the pull request.
        pull: PullNumber,
        /// The merged branches, for lists of operations.
        ends: PullEnds,
        /// Message of the merge commit.
        message: String,
        /// The side that wins conflicts, by table.
        resolve: BTreeMap<String, Side>,
        /// Decisions about single rows, which come before those about tables.
        rows: Vec<RowResolution>,
        /// Whether the target may move to the source without a merge commit.
        fast_forward: bool,
    },
    /// Copy the database to another owner.
    Fork {
        /// The new owner.
        owner_id: AccountId,
        /// Name of the new owner.
        owner: OwnerName,
        /// Id of the new database.
        fork_id: DatabaseId,
    },
    /// Import a file.
    Import(ImportRequest),
    /// Edit rows of a table.
    Edit(EditRequest),
    /// Remove the commits that nothing refers to.
    Purge,
    /// Move a branch or a tag to a commit that a client pushed.
    Push(PushRequest),
    /// Make the branches and tags those of the source of a mirror.
    MirrorSync,
    /// Move a branch to the commit that a branch named at an earlier time.
    Restore {
        /// The branch whose head is looked up.
        branch: RefName,
        /// The time.
        at: Timestamp,
        /// The branch that is moved, or created.
        to_branch: RefName,
    },
}

/// The input of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushRequest {
    /// The branch or tag.
    pub target: PushTarget,
    /// The commit that it moves to.
    pub commit: CommitHash,
    /// The commit that it named when the push was accepted. `None` if it did not exist.
    pub was: Option<CommitHash>,
    /// The hash of the branches and tags that the client had seen, by which a repeated request is recognized.
    pub seen: ChunkHash,
    /// Whether nothing had been written to the database yet. The push then replaces its only branch, whatever its history.
    pub replaces_first: bool,
}

/// The ref that a push moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushTarget {
    /// A branch.
    Branch {
        /// Name of the branch.
        name: RefName,
        /// Whether it may move to a commit that does not descend from its head.
        is_forced: bool,
    },
    /// A tag, with its properties.
    Tag {
        /// Name of the tag.
        name: RefName,
        /// The message.
        message: Option<String>,
        /// The person who made the tag, as the client says.
        tagger: Option<Tagger>,
        /// When the tag was made, as the client says.
        tagged_at: Timestamp,
    },
}

impl PushTarget {
    /// Returns the name of the branch or tag.
    pub fn name(&self) -> &RefName {
        match self {
            Self::Branch { name, .. } | Self::Tag { name, .. } => name,
        }
    }
}

/// The kind of an operation.
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
    /// See [`Work::Edit`].
    Edit,
    /// See [`Work::Purge`].
    Purge,
    /// See [`Work::Push`].
    Push,
    /// See [`Work::MirrorSync`].
    MirrorSync,
    /// See [`Work::Restore`].
    Restore,
}

impl Work {
    /// Returns the kind of work.
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::SqlWrite { .. } => OperationKind::SqlWrite,
            Self::Merge { .. } => OperationKind::Merge,
            Self::Fork { .. } => OperationKind::Fork,
            Self::Import(_) => OperationKind::Import,
            Self::Edit(_) => OperationKind::Edit,
            Self::Purge => OperationKind::Purge,
            Self::Push(_) => OperationKind::Push,
            Self::MirrorSync => OperationKind::MirrorSync,
            Self::Restore { .. } => OperationKind::Restore,
        }
    }
}

/// The result of a successful operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Head of the target branch afterwards.
    pub commit: Option<CommitHash>,
    /// Head of the target branch before. If the operation created the branch, the commit it was created at.
    pub previous: Option<CommitHash>,
    /// Rows that the statements of a write inserted, updated or deleted.
    pub rows_affected: Option<u64>,
    /// The pull request that was merged or opened.
    pub pull: Option<PullNumber>,
    /// The fork.
    pub database: Option<(DatabaseId, DatabaseLocator)>,
    /// What a purge removed.
    pub purged: Option<Purged>,
}

/// The result of a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purged {
    /// Number of bytes by which the file is smaller.
    pub freed_bytes: u64,
    /// Databases of the fork network whose refs still reach commits that were removed.
    pub kept_by: Vec<DatabaseId>,
}

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The content of the operation is at fault, for example an invalid statement or file.
    Content,
    /// The two sides conflict or cannot be merged.
    MergeConflict,
    /// A required resource no longer exists.
    NotFound,
    /// An existing resource or a concurrent change prevents the operation.
    Conflict,
    /// The state of a resource does not allow the operation.
    Unprocessable,
    /// The operation was canceled, or its database was deleted.
    Canceled,
    /// The creator lost the required permission.
    PermissionDenied,
    /// An internal error of the server.
    Internal,
    /// The storage or the engine was unavailable.
    Unavailable,
}

/// An error at one place of an imported file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProblem {
    /// The line on which the record begins, starting at 1.
    pub line: u64,
    /// The column, if the error concerns a single column.
    pub column: Option<String>,
    /// Description of the error.
    pub detail: String,
}

/// Why an operation failed, worded for its creator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFailure {
    /// Class of the failure.
    pub kind: FailureKind,
    /// Description of the failure.
    pub detail: String,
    /// Errors at places of the file, at most 100.
    pub rows: Vec<RowProblem>,
}

impl OperationFailure {
    /// Creates a failure without places in a file.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), rows: Vec::new() }
    }
}

/// The status of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationStatus {
    /// Accepted and not yet started.
    Queued,
    /// Leased by a worker, or interrupted and waiting to be leased again.
    Running,
    /// The operation took effect. Final.
    Succeeded(Outcome),
    /// The operation changed nothing. Final.
    Failed(OperationFailure),
}

/// An accepted operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Id of the operation.
    pub id: OperationId,
    /// The database that the operation belongs to.
    pub database_id: DatabaseId,
    /// Owner and name of that database, which are part of the operation's public id.
    pub locator: DatabaseLocator,
    /// Input of the operation.
    pub work: Work,
    /// Status of the operation.
    pub status: OperationStatus,
    /// The user who created the operation.
    pub created_by: AccountId,
    /// Name of that user.
    pub created_by_name: OwnerName,
    /// When the operation was accepted.
    pub created_at: Timestamp,
    /// When the first attempt began.
    pub started_at: Option<Timestamp>,
    /// When the operation was settled.
    pub finished_at: Option<Timestamp>,
    /// Number of attempts.
    pub attempts: u32,
    /// The trace of the request that created the operation, if it named one.
    pub trace: Option<TraceContext>,
}

impl Operation {
    /// Returns `true` if the operation can be canceled, which is the case only while it is queued.
    pub fn cancelable(&self) -> bool {
        matches!(self.status, OperationStatus::Queued)
    }

    /// Returns `true` if the operation has succeeded or failed.
    pub fn settled(&self) -> bool {
        matches!(self.status, OperationStatus::Succeeded(_) | OperationStatus::Failed(_))
    }

    /// Removes the commit of the operation and the texts it was made from. Statements and messages reveal the written
    /// data.
    pub fn conceal(&mut self) {
        if let OperationStatus::Succeeded(outcome) = &mut self.status {
            outcome.commit = None;
        }
        match &mut self.work {
            Work::SqlWrite { statements, message, .. } => (*statements, *message) = Default::default(),
            Work::Merge { message, rows, .. } => {
                message.clear();
                rows.clear();
            }
            Work::Import(import) => import.message.clear(),
            Work::Edit(edit) => {
                edit.rows.clear();
                edit.message.clear();
            }
            Work::Push(PushRequest { target: PushTarget::Tag { message, .. }, .. }) => *message = None,
            Work::Push(_) | Work::Fork { .. } | Work::Purge | Work::MirrorSync | Work::Restore { .. } => {}
        }
    }

    /// Returns `true` if the commit of the operation is hidden because no ref of the database reaches it any more.
    pub fn is_concealed(&self) -> bool {
        match (&self.status, &self.work) {
            (_, Work::Fork { .. } | Work::Purge) => false,
            (OperationStatus::Succeeded(outcome), _) => outcome.commit.is_none(),
            _ => false,
        }
    }
}
