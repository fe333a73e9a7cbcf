use serde::Serialize;
use serde_json::value::RawValue;

use super::DatabaseEcho;

/// The outcome of SQL. Clients compare the exact spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum ExecutionStatus {
    Success,
    RowLimit,
    Timeout,
    Error,
}

/// The write of a request to start one.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WriteEcho {
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) from_branch_name: String,
    pub(crate) to_branch_name: String,
    pub(crate) query: String,
    /// Empty if no write was started. Clients rely on the empty name.
    pub(crate) operation_name: String,
}

/// A write whose operation was started.
#[derive(Debug, Serialize)]
pub(crate) struct WriteStarted {
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    #[serde(flatten)]
    pub(crate) echo: WriteEcho,
}

/// The poll of an unfinished write. It has no field that clients could take for a result.
#[derive(Debug, Serialize)]
pub(crate) struct WritePending {
    #[serde(rename = "_id")]
    pub(crate) id: String,
    pub(crate) operation_name: String,
    pub(crate) done: bool,
}

/// The result of an operation.
#[derive(Debug, Serialize)]
pub(crate) struct ResultDetails {
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    pub(crate) owner_name: String,
    pub(crate) repository_name: String,
    pub(crate) from_commit_id: String,
    pub(crate) to_commit_id: String,
}

/// The poll of a finished write. Older clients read the status and the message beside the details.
#[derive(Debug, Serialize)]
pub(crate) struct WriteDone {
    #[serde(flatten)]
    pub(crate) pending: WritePending,
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    pub(crate) res_details: ResultDetails,
}

/// The operation name that a poll sent.
#[derive(Debug, Serialize)]
pub(crate) struct NamedEcho {
    pub(crate) operation_name: String,
}

/// The `status` of a poll of a merge or an import.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum PollStatus {
    Success,
    Error,
}

/// The state of a merge or an import in a poll.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum JobStatus {
    Pending,
    #[serde(rename = "In Progress")]
    InProgress,
    Completed,
    Failed,
}

/// The poll of a merge or an import.
#[derive(Debug, Serialize)]
pub(crate) struct JobPoll {
    pub(crate) status: PollStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    pub(crate) operation_name: String,
    pub(crate) job_created: bool,
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) pull_id: String,
    pub(crate) job_status: JobStatus,
    pub(crate) done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) res_details: Option<ResultDetails>,
}

/// The import of a request to start one.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct UploadEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) branch_name: String,
    pub(crate) table_name: String,
}

/// An import whose operation was started.
#[derive(Debug, Serialize)]
pub(crate) struct UploadStarted {
    #[serde(flatten)]
    pub(crate) echo: UploadEcho,
    pub(crate) operation_name: String,
    pub(crate) user_operation_name: String,
}

/// The type of a job.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum JobType {
    Import,
    Merge,
}

/// The state of a job in a list.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum JobState {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// An import or a merge as a list item.
#[derive(Debug, Serialize)]
pub(crate) struct Job {
    pub(crate) job_id: String,
    pub(crate) creator: String,
    pub(crate) description: String,
    pub(crate) job_type: JobType,
    pub(crate) status: JobState,
    pub(crate) created_at: String,
    pub(crate) job_error: String,
    pub(crate) error: String,
}

/// A page of jobs.
#[derive(Debug, Serialize)]
pub(crate) struct Jobs {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) next_page_token: String,
    pub(crate) jobs: Box<RawValue>,
}

/// The type of an operation.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum OperationType {
    SqlWrite,
    Import,
    Merge,
    Fork,
}

/// The state of an operation in its creator's list.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum OperationStatus {
    Pending,
    Running,
    Success,
    Failure,
}

/// An operation in its creator's list. `metadata` is a string that contains JSON.
#[derive(Debug, Serialize)]
pub(crate) struct UserOperation {
    pub(crate) operation_name: String,
    pub(crate) creator: String,
    pub(crate) description: String,
    pub(crate) operation_type: OperationType,
    pub(crate) operation_status: OperationStatus,
    pub(crate) error: String,
    pub(crate) metadata: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

/// A page of a user's operations.
#[derive(Debug, Serialize)]
pub(crate) struct UserOperations {
    pub(crate) next_page_token: String,
    pub(crate) operations: Box<RawValue>,
}

/// The user and the operation type that a list request sent.
#[derive(Debug, Serialize)]
pub(crate) struct OperationEcho {
    pub(crate) username: String,
    pub(crate) operation_type: String,
}
