//! Converts operations to the four representations of v1alpha1 (§4.4).

use branchyard_domain::entities::{
    DatabaseLocator, FailureKind, Operation, OperationFailure, OperationStatus, Outcome, PullEnds, PushTarget, Work,
};
use branchyard_http_common::{rfc3339, to_json};
use serde::Serialize;

use crate::{names, wire};

/// Maximum bytes of a statement in a description.
const DESCRIBED_BYTES: usize = 1_000;

/// Returns the reason of a failure as v1alpha1 phrases it.
fn text_of_failure(failure: &OperationFailure) -> String {
    let detail = &failure.detail;
    match failure.kind {
        FailureKind::MergeConflict => format!("merge conflict: {detail}"),
        FailureKind::Canceled => "operation canceled".to_owned(),
        FailureKind::PermissionDenied => format!("permission denied: {detail}"),
        FailureKind::Content
        | FailureKind::NotFound
        | FailureKind::Conflict
        | FailureKind::Unprocessable
        | FailureKind::Internal
        | FailureKind::Unavailable => detail.clone(),
    }
}

fn rows_message(rows: u64) -> String {
    let affected = if rows == 1 { "1 row affected".to_owned() } else { format!("{rows} rows affected") };
    format!("Query OK, {affected}. Rows matched: {rows}  Changed: {rows}  Warnings: 0.")
}

fn succeeded(operation: &Operation, outcome: &Outcome, message: String) -> wire::ResultDetails {
    let text = |commit: &Option<branchyard_domain::values::CommitHash>| {
        commit.as_ref().map(ToString::to_string).unwrap_or_default()
    };
    wire::ResultDetails {
        query_execution_status: wire::ExecutionStatus::Success,
        query_execution_message: message,
        owner_name: operation.locator.owner.to_string(),
        repository_name: operation.locator.name.to_string(),
        from_commit_id: text(&outcome.previous),
        to_commit_id: text(&outcome.commit),
    }
}

fn failed(operation: &Operation, message: String) -> wire::ResultDetails {
    wire::ResultDetails {
        query_execution_status: wire::ExecutionStatus::Error,
        query_execution_message: message,
        owner_name: operation.locator.owner.to_string(),
        repository_name: operation.locator.name.to_string(),
        from_commit_id: String::new(),
        to_commit_id: String::new(),
    }
}

/// Returns the poll of an unfinished write. `name` is the spelling that the poll used.
pub(crate) fn pending(name: &str) -> wire::WritePending {
    wire::WritePending { id: name.to_owned(), operation_name: name.to_owned(), done: false }
}

/// Returns the poll of a finished write; `None` if the write is not finished.
pub(crate) fn write_done(operation: &Operation, name: &str) -> Option<wire::WriteDone> {
    let details = match &operation.status {
        OperationStatus::Queued | OperationStatus::Running => return None,
        OperationStatus::Succeeded(outcome) => {
            succeeded(operation, outcome, rows_message(outcome.rows_affected.unwrap_or_default()))
        }
        OperationStatus::Failed(failure) => failed(operation, text_of_failure(failure)),
    };
    Some(wire::WriteDone {
        pending: wire::WritePending { done: true, ..pending(name) },
        query_execution_status: details.query_execution_status,
        query_execution_message: details.query_execution_message.clone(),
        res_details: details,
    })
}

/// Returns the poll of a fork, or the text of its failure. The new database is named only if the caller may see it.
pub(crate) fn fork_poll(operation: &Operation, sees_result: bool, name: &str) -> Result<wire::ForkPoll, String> {
    let made = match &operation.status {
        OperationStatus::Queued | OperationStatus::Running => None,
        OperationStatus::Succeeded(outcome) => Some(outcome.database.as_ref().filter(|_| sees_result)),
        OperationStatus::Failed(failure) => return Err(text_of_failure(failure)),
    };
    let done = made.is_some();
    let (owner, database) = match made.flatten() {
        Some((_, DatabaseLocator { owner, name })) => (owner.to_string(), name.to_string()),
        None => (String::new(), String::new()),
    };
    Ok(wire::ForkPoll {
        status: if done { wire::SUCCESS } else { "Pending" },
        done,
        operation_name: name.to_owned(),
        database_owner: owner.clone(),
        owner_name: owner,
        database_name: database,
    })
}

/// Returns the poll of a merge or an import. `pull_id` is the one of the path; without it, the number of the operation's pull
/// request is used.
pub(crate) fn job_poll(operation: &Operation, name: &str, pull_id: Option<&str>) -> wire::JobPoll {
    let (job_status, details) = match &operation.status {
        OperationStatus::Queued => (wire::JobStatus::Pending, None),
        OperationStatus::Running => (wire::JobStatus::InProgress, None),
        OperationStatus::Succeeded(outcome) => {
            (wire::JobStatus::Completed, Some(succeeded(operation, outcome, String::new())))
        }
        OperationStatus::Failed(failure) => {
            (wire::JobStatus::Failed, Some(failed(operation, text_of_failure(failure))))
        }
    };
    let own = match &operation.status {
        OperationStatus::Succeeded(outcome) => outcome.pull.map(|number| number.to_string()).unwrap_or_default(),
        OperationStatus::Queued | OperationStatus::Running | OperationStatus::Failed(_) => String::new(),
    };
    let message = match &operation.status {
        OperationStatus::Failed(failure) => Some(text_of_failure(failure)),
        OperationStatus::Queued | OperationStatus::Running | OperationStatus::Succeeded(_) => None,
    };
    wire::JobPoll {
        status: if message.is_some() { wire::PollStatus::Error } else { wire::PollStatus::Success },
        message,
        operation_name: name.to_owned(),
        job_created: true,
        database: wire::DatabaseEcho {
            database_owner: operation.locator.owner.to_string(),
            database_name: operation.locator.name.to_string(),
        },
        pull_id: pull_id.map_or(own, str::to_owned),
        job_status,
        done: details.is_some(),
        res_details: details,
    }
}

fn error_of(operation: &Operation) -> String {
    match &operation.status {
        OperationStatus::Failed(failure) => text_of_failure(failure),
        OperationStatus::Queued | OperationStatus::Running | OperationStatus::Succeeded(_) => String::new(),
    }
}

fn description(operation: &Operation) -> String {
    match &operation.work {
        Work::SqlWrite { .. } if operation.is_concealed() => "Run query".to_owned(),
        Work::SqlWrite { from_branch, to_branch, statements, .. } if statements.is_empty() => {
            format!("Merge {from_branch} into {to_branch}")
        }
        Work::SqlWrite { statements, .. } => {
            let end = (0..=DESCRIBED_BYTES.min(statements.len())).rev().find(|at| statements.is_char_boundary(*at));
            format!("Run query {}", statements.get(..end.unwrap_or(0)).unwrap_or_default())
        }
        Work::Merge { pull, .. } => format!("Merge pull request #{pull}"),
        Work::Fork { .. } => format!("Fork {}", operation.locator),
        Work::Purge => format!("Purge {}", operation.locator),
        Work::MirrorSync => format!("Sync {}", operation.locator),
        Work::Restore { to_branch, .. } => format!("Restore {to_branch}"),
        Work::Edit(edit) => format!("Edit {}", edit.table),
        Work::Push(push) => format!("Push {}", push.target.name()),
        Work::Import(import) if import.table.is_empty() => format!("Import {}", import.file_name),
        Work::Import(import) => format!("Import {} into {}", import.file_name, import.table),
    }
}

/// Returns an import or a merge as an item of the list of jobs.
pub(crate) fn job(operation: &Operation) -> wire::Job {
    let error = error_of(operation);
    wire::Job {
        job_id: names::of_job(operation),
        creator: operation.created_by_name.to_string(),
        description: description(operation),
        job_type: match &operation.work {
            Work::Import(_) => wire::JobType::Import,
            Work::Merge { .. }
            | Work::SqlWrite { .. }
            | Work::Fork { .. }
            | Work::Edit(_)
            | Work::Purge
            | Work::Push(_)
            | Work::MirrorSync
            | Work::Restore { .. } => wire::JobType::Merge,
        },
        status: match &operation.status {
            OperationStatus::Queued => wire::JobState::Pending,
            OperationStatus::Running => wire::JobState::Running,
            OperationStatus::Succeeded(_) => wire::JobState::Succeeded,
            OperationStatus::Failed(_) => wire::JobState::Failed,
        },
        created_at: rfc3339(operation.created_at),
        job_error: error.clone(),
        error,
    }
}

/// The source and target of an operation. The fields are in alphabetical order.
#[derive(Debug, Default, Serialize)]
struct OperationMetadata {
    from_branch_name: String,
    from_repo_name: String,
    from_repo_owner: String,
    sql_query: String,
    to_branch_name: String,
    to_repo_name: String,
    to_repo_owner: String,
}

fn metadata(operation: &Operation) -> OperationMetadata {
    let DatabaseLocator { owner, name } = &operation.locator;
    let here = OperationMetadata {
        from_repo_name: name.to_string(),
        from_repo_owner: owner.to_string(),
        to_repo_name: name.to_string(),
        to_repo_owner: owner.to_string(),
        ..OperationMetadata::default()
    };
    match &operation.work {
        Work::SqlWrite { from_branch, to_branch, statements, message: _, expected_head: _, start: _ } => {
            OperationMetadata {
                from_branch_name: from_branch.to_string(),
                to_branch_name: to_branch.to_string(),
                sql_query: statements.clone(),
                ..here
            }
        }
        Work::Merge { ends: PullEnds { from, from_branch, to_branch }, .. } => OperationMetadata {
            from_branch_name: from_branch.to_string(),
            from_repo_name: from.name.to_string(),
            from_repo_owner: from.owner.to_string(),
            to_branch_name: to_branch.to_string(),
            ..here
        },
        Work::Fork { owner, .. } => OperationMetadata { to_repo_owner: owner.to_string(), ..here },
        Work::Import(import) => OperationMetadata {
            from_branch_name: import.pull_branch.as_ref().map(ToString::to_string).unwrap_or_default(),
            to_branch_name: import.branch.to_string(),
            ..here
        },
        Work::Push(push) => match &push.target {
            PushTarget::Branch { name, .. } => OperationMetadata { to_branch_name: name.to_string(), ..here },
            PushTarget::Tag { .. } => here,
        },
        Work::Restore { branch, to_branch, .. } => {
            OperationMetadata { from_branch_name: branch.to_string(), to_branch_name: to_branch.to_string(), ..here }
        }
        Work::Edit(edit) => OperationMetadata {
            from_branch_name: edit.branch.to_string(),
            to_branch_name: edit.to_branch.to_string(),
            ..here
        },
        Work::Purge | Work::MirrorSync => here,
    }
}

/// Returns an operation as an item of its creator's list.
pub(crate) fn user_operation(operation: &Operation) -> wire::UserOperation {
    let updated_at = operation.finished_at.or(operation.started_at).unwrap_or(operation.created_at);
    wire::UserOperation {
        operation_name: names::of_user(operation),
        creator: operation.created_by_name.to_string(),
        description: description(operation),
        operation_type: match &operation.work {
            // This API has no word for edits, purges, pushes, syncs and restores, and lists none.
            Work::SqlWrite { .. }
            | Work::Edit(_)
            | Work::Purge
            | Work::Push(_)
            | Work::MirrorSync
            | Work::Restore { .. } => wire::OperationType::SqlWrite,
            Work::Import(_) => wire::OperationType::Import,
            Work::Merge { .. } => wire::OperationType::Merge,
            Work::Fork { .. } => wire::OperationType::Fork,
        },
        operation_status: match &operation.status {
            OperationStatus::Queued => wire::OperationStatus::Pending,
            OperationStatus::Running => wire::OperationStatus::Running,
            OperationStatus::Succeeded(_) => wire::OperationStatus::Success,
            OperationStatus::Failed(_) => wire::OperationStatus::Failure,
        },
        error: error_of(operation),
        metadata: to_json(&metadata(operation)),
        created_at: rfc3339(operation.created_at),
        updated_at: rfc3339(updated_at),
    }
}
