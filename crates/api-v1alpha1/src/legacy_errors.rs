//! Error texts of v1alpha1. Clients match the beginnings of these texts (v1alpha1 §3). Errors without a text here have the text
//! that all versions share.

use branchyard_domain::errors::{
    AccessError, DatabaseError, ImportError, ImportField, OperationError, PullError, PullStateError, ReadError,
    RefError, ReleaseError,
};
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{ApiError, import_field_name};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use crate::request::not_authenticated;

/// An error of the domain that gets its v1alpha1 text when it is converted.
pub(crate) struct LegacyError<E>(pub(crate) E);

fn absent(what: &str, name: &str) -> ApiError {
    Problem::new(ErrorCode::NotFound, format!("{what} not found: {name}")).into()
}

fn exists(what: &str, name: &str) -> ApiError {
    Problem::new(ErrorCode::Conflict, format!("{what} {name} already exists")).into()
}

/// Creates a 400 for a field of the body.
pub(crate) fn field(name: &str, text: impl Into<String>) -> Problem {
    let text = text.into();
    Problem::new(ErrorCode::ValidationFailed, format!("{name}: {text}"))
        .with_error(FieldError::at_pointer(format!("/{name}"), text))
}

/// Creates the error for an operation that is unknown, belongs to another database, or is hidden from the caller.
pub(crate) fn no_such_operation() -> Problem {
    Problem::new(ErrorCode::NotFound, "operation not found")
}

impl From<LegacyError<AccessError>> for ApiError {
    fn from(LegacyError(error): LegacyError<AccessError>) -> Self {
        match error {
            AccessError::SignInRequired => not_authenticated().into(),
            other => other.into(),
        }
    }
}

impl From<LegacyError<RefError>> for ApiError {
    fn from(LegacyError(error): LegacyError<RefError>) -> Self {
        match error {
            RefError::NoSuchRef { name, .. } if CommitHash::looks_like(&name) => absent("commit", &name),
            RefError::NoSuchRef { name, .. } | RefError::NoSuchBranch(name) => absent("branch", &name),
            RefError::NoSuchTag(name) => absent("tag", &name),
            RefError::BranchExists(name) => exists("branch", &name),
            RefError::TagExists(name) => exists("tag", &name),
            RefError::DefaultBranch(_) => {
                Problem::new(ErrorCode::Unprocessable, "cannot delete the default branch").into()
            }
            RefError::Access(error) => LegacyError(error).into(),
            other => other.into(),
        }
    }
}

impl From<LegacyError<DatabaseError>> for ApiError {
    fn from(LegacyError(error): LegacyError<DatabaseError>) -> Self {
        match error {
            DatabaseError::NameTaken(name) => exists("database", &name),
            DatabaseError::Access(error) => LegacyError(error).into(),
            other => other.into(),
        }
    }
}

impl From<LegacyError<OperationError>> for ApiError {
    fn from(LegacyError(error): LegacyError<OperationError>) -> Self {
        match error {
            OperationError::NoSuchOperation => no_such_operation().into(),
            OperationError::NoSuchBranch(name) => absent("branch", &name),
            OperationError::NameTaken(name) => exists("database", &name),
            OperationError::Access(error) => LegacyError(error).into(),
            other => other.into(),
        }
    }
}

impl From<LegacyError<ReleaseError>> for ApiError {
    fn from(LegacyError(error): LegacyError<ReleaseError>) -> Self {
        match error {
            ReleaseError::NoSuchCommit(name) => absent("commit", &name),
            ReleaseError::NoSuchTag(name) => absent("tag", &name),
            ReleaseError::Exists(name) => exists("release", &name),
            ReleaseError::Access(error) => LegacyError(error).into(),
            other => other.into(),
        }
    }
}

/// The error text for a pull request that would make a private branch public.
const PUBLISH: &str = "the source database is not public, but the base is: open or reopen this pull request with API v2 (POST \
    /api/v2/databases/{owner}/{database}/pulls with publish: true) or on the page /{owner}/{database}/pulls/new, which asks for consent to make the \
    branch visible to everyone";

impl From<LegacyError<PullError>> for ApiError {
    fn from(LegacyError(error): LegacyError<PullError>) -> Self {
        let text = error.to_string();
        match error {
            PullError::NoSuchBranch { branch, .. } => absent("branch", &branch),
            PullError::BranchGone(branch) => absent("branch", branch.as_str()),
            PullError::Duplicate(number) => exists("pull request", &format!("{number} of these branches")),
            PullError::State(PullStateError::Merged) => {
                Problem::new(ErrorCode::Unprocessable, "pull request is already merged").into()
            }
            // v1alpha1 has no field for the consent that this requires.
            PullError::NeedsPublish => Problem::new(ErrorCode::Unprocessable, PUBLISH).into(),
            PullError::OtherTarget(name) => field("toBranchRepoName", format!("must be {name}")).into(),
            PullError::OtherNetwork(_) => field("fromBranchRepoName", text).into(),
            PullError::SameBranch => field("fromBranchName", text).into(),
            PullError::Access(error) => LegacyError(error).into(),
            other => other.into(),
        }
    }
}

impl From<LegacyError<ReadError>> for ApiError {
    fn from(LegacyError(error): LegacyError<ReadError>) -> Self {
        match error {
            ReadError::Ref(error) => LegacyError(error).into(),
            ReadError::NoSuchTable(name) => absent("table", &name),
            ReadError::NoSuchColumn(name) => absent("column", &name),
            ReadError::Content(text) => Problem::new(ErrorCode::Unprocessable, text).into(),
            ReadError::TimedOut(ms) => {
                Problem::new(ErrorCode::Unprocessable, format!("query error: query timed out after {ms} ms")).into()
            }
            ReadError::Port(fault) => fault.into(),
        }
    }
}

impl From<LegacyError<ImportError>> for ApiError {
    fn from(LegacyError(error): LegacyError<ImportError>) -> Self {
        match error {
            ImportError::Fields(wrong) => {
                let faults: Vec<FieldError> = wrong
                    .into_iter()
                    .map(|(field, text)| FieldError::at_pointer(format!("/{}", upload_field(field)), text))
                    .collect();
                Problem::new(ErrorCode::ValidationFailed, "the file cannot be imported with these settings")
                    .with_errors(faults)
                    .into()
            }
            ImportError::NoSuchBranch(name) => absent("branch", &name),
            ImportError::PartCutShort(_) => field("file", "was cut short").into(),
            ImportError::Access(error) => LegacyError(error).into(),
            other => other.into(),
        }
    }
}

/// Returns the name in `params` of a field of an import.
fn upload_field(field: ImportField) -> &'static str {
    match field {
        ImportField::Branch => "branchName",
        ImportField::Table => "tableName",
        ImportField::FileName => "fileName",
        ImportField::FileType => "fileType",
        ImportField::PrimaryKeys => "primaryKeys",
        ref other => import_field_name(other),
    }
}
