use branchyard_domain::entities::{
    FailureKind, Operation, OperationFailure, OperationKind, OperationStatus, Outcome, RowProblem,
};
use branchyard_domain::usecases::ResultView;
use branchyard_http_common::{Urls, rfc3339};
use branchyard_problem_details::ErrorCode;

use super::database_ref;
use crate::wire;

/// Converts an operation to the reference with which a client polls it.
pub(crate) fn operation_ref(operation: &Operation, urls: &Urls) -> wire::OperationRef {
    wire::OperationRef { id: Urls::operation_id(operation), href: urls.operation(operation) }
}

/// Converts an operation. `view` is what the caller may see of its result.
pub(crate) fn operation(operation: &Operation, view: &ResultView) -> wire::Operation {
    let Operation {
        id: _,
        database_id: _,
        locator: _,
        work,
        status,
        created_by: _,
        created_by_name,
        created_at,
        started_at,
        finished_at,
        attempts: _,
        trace: _,
    } = operation;
    let (status, error, result) = match status {
        OperationStatus::Queued => (wire::OperationStatus::Queued, None, None),
        OperationStatus::Running => (wire::OperationStatus::Running, None, None),
        OperationStatus::Succeeded(outcome) => (wire::OperationStatus::Succeeded, None, result(outcome, view)),
        OperationStatus::Failed(failure) => (wire::OperationStatus::Failed, Some(failure.into()), None),
    };
    wire::Operation {
        id: Urls::operation_id(operation),
        kind: match work.kind() {
            OperationKind::SqlWrite => wire::OperationType::SqlWrite,
            OperationKind::Merge => wire::OperationType::Merge,
            OperationKind::Fork => wire::OperationType::Fork,
            OperationKind::Import => wire::OperationType::Import,
            OperationKind::Purge => wire::OperationType::Purge,
            OperationKind::Push => wire::OperationType::Push,
            OperationKind::MirrorSync => wire::OperationType::MirrorSync,
            OperationKind::Restore => wire::OperationType::Restore,
            OperationKind::Edit => wire::OperationType::Edit,
        },
        status,
        created_at: rfc3339(*created_at),
        started_at: started_at.map(rfc3339),
        finished_at: finished_at.map(rfc3339),
        created_by: created_by_name.to_string(),
        cancelable: operation.cancelable(),
        error,
        result,
    }
}

fn result(outcome: &Outcome, view: &ResultView) -> Option<wire::OperationResult> {
    let Outcome { commit, previous: _, rows_affected: _, pull, database, purged } = outcome;
    if let Some(purged) = purged {
        return Some(wire::OperationResult {
            freed_bytes: Some(purged.freed_bytes),
            kept_by_forks: Some(view.kept_by_forks.iter().map(database_ref).collect()),
            kept_by_other_forks: Some(view.kept_by_other_forks),
            ..wire::OperationResult::default()
        });
    }
    // The database is hidden from the caller, or the result has neither database nor commit because its commit is no longer
    // reachable.
    if (database.is_some() && !view.sees_database) || (database.is_none() && commit.is_none()) {
        return None;
    }
    Some(wire::OperationResult {
        pull_id: pull.map(|number| number.get()),
        commit_sha: commit.as_ref().map(ToString::to_string),
        database: database.as_ref().map(|(_, locator)| database_ref(locator)),
        ..wire::OperationResult::default()
    })
}

impl From<&RowProblem> for wire::RowError {
    fn from(problem: &RowProblem) -> Self {
        let RowProblem { line, column, detail } = problem;
        Self { line: *line, column: column.clone(), detail: detail.clone() }
    }
}

impl From<&OperationFailure> for wire::OperationError {
    fn from(failure: &OperationFailure) -> Self {
        let OperationFailure { kind, detail, rows } = failure;
        let code = match kind {
            FailureKind::Content => ErrorCode::OperationFailed,
            FailureKind::MergeConflict => ErrorCode::MergeConflict,
            FailureKind::NotFound => ErrorCode::NotFound,
            FailureKind::Conflict => ErrorCode::Conflict,
            FailureKind::Unprocessable => ErrorCode::Unprocessable,
            FailureKind::Canceled => ErrorCode::Canceled,
            FailureKind::PermissionDenied => ErrorCode::PermissionDenied,
            FailureKind::Internal => ErrorCode::Internal,
            FailureKind::Unavailable => ErrorCode::ServiceUnavailable,
        };
        let row = code.row();
        Self {
            status: row.status,
            code: row.name,
            title: row.title,
            detail: detail.clone(),
            errors: rows.iter().take(100).map(Into::into).collect(),
        }
    }
}
