use serde::Serialize;
use serde_json::value::RawValue;

use super::DatabaseEcho;

/// How SQL ended. Clients compare it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum ExecutionStatus {
    Success,
    RowLimit,
    Timeout,
    Error,
}

/// A write that was, or was to be, started.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WriteEcho {
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) from_branch_name: String,
    pub(crate) to_branch_name: String,
    pub(crate) query: String,
    /// Empty where nothing was started; clients go by it.
    pub(crate) operation_name: String,
}

/// A write that was accepted.
#[derive(Debug, Serialize)]
pub(crate) struct WriteStarted {
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    #[serde(flatten)]
    pub(crate) echo: WriteEcho,
}

/// A write under way. It carries nothing that could be taken for a result.
#[derive(Debug, Serialize)]
pub(crate) struct WritePending {
    #[serde(rename = "_id")]
    pub(crate) id: String,
    pub(crate) operation_name: String,
    pub(crate) done: bool,
}

/// What an operation brought.
#[derive(Debug, Serialize)]
pub(crate) struct ResultDetails {
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    pub(crate) owner_name: String,
    pub(crate) repository_name: String,
    pub(crate) from_commit_id: String,
    pub(crate) to_commit_id: String,
}

/// A write that is over. Older clients read status and message beside the details.
#[derive(Debug, Serialize)]
pub(crate) struct WriteDone {
    #[serde(flatten)]
    pub(crate) pending: WritePending,
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    pub(crate) res_details: ResultDetails,
}

/// The operation of a poll, as it was named.
#[derive(Debug, Serialize)]
pub(crate) struct NamedEcho {
    pub(crate) operation_name: String,
}

/// `status` of a poll of a merge or an import.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum PollStatus {
    Success,
    Error,
}

/// How a merge or an import stands.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum JobStatus {
    Pending,
    #[serde(rename = "In Progress")]
    InProgress,
    Completed,
    Failed,
}

/// A merge or an import, polled.
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

/// An import that was, or was to be, started.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct UploadEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) branch_name: String,
    pub(crate) table_name: String,
}

/// An import that was accepted.
#[derive(Debug, Serialize)]
pub(crate) struct UploadStarted {
    #[serde(flatten)]
    pub(crate) echo: UploadEcho,
    pub(crate) operation_name: String,
    pub(crate) user_operation_name: String,
}

/// What kind of job.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum JobType {
    Import,
    Merge,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum JobState {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// An import or a merge in a list.
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

/// What kind of operation.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum OperationType {
    SqlWrite,
    Import,
    Merge,
    Fork,
}

/// How an operation of a user stands.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum OperationStatus {
    Pending,
    Running,
    Success,
    Failure,
}

/// An operation of a user. Its metadata is JSON in a string.
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

/// A page of operations of a user.
#[derive(Debug, Serialize)]
pub(crate) struct UserOperations {
    pub(crate) next_page_token: String,
    pub(crate) operations: Box<RawValue>,
}

/// Whose operations of which type were asked for.
#[derive(Debug, Serialize)]
pub(crate) struct OperationEcho {
    pub(crate) username: String,
    pub(crate) operation_type: String,
}
