//! Conversion between columns and values. The content of a column is parsed like any other external input.

use branchyard_auth::UserCode;
use branchyard_deployments::entities::{BackupKind, DeploymentFailureKind, DeploymentRole, Metered, RunState};
use branchyard_deployments::ports::{DeploymentOperationKind, Resolution};
use branchyard_deployments::values::{BackupId, DeploymentId, DeploymentName, InstanceId, ServedName};
use branchyard_domain::entities::{
    AccountKind, AttemptError, DisabledReason, EventName, FileType, ImportType, MemberRole, OperationKind, PullAction,
    RefKind, Role, TextEncoding, Visibility,
};
use branchyard_domain::ports::{DeliveryState, OperationState, PullFilter};
use branchyard_domain::values::{
    AccountId, ActivityId, ApplicationId, AttemptId, CommentId, CommitHash, DataKeyId, DataKeyScope, DatabaseId,
    DatabaseName, DeliveryId, EventId, GrantId, HookId, Invalid, InvitationId, OperationId, OwnerName, PullNumber,
    RedirectUri, RefLogId, RefName, ReleaseId, Scope, SessionId, Timestamp, TokenId, TraceContext, UploadId, UserKeyId,
};

use crate::error::Unreadable;

pub(crate) type Read<T> = Result<T, Unreadable>;

/// Maximum length in bytes of a text that is searched for. A longer text has no matches.
pub(crate) const LONGEST_SEARCH: usize = PullFilter::MAX_CONTAINS;

/// Returns the `LIKE` pattern that finds a text anywhere in a `search_key`.
pub(crate) fn anywhere(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for c in text.to_lowercase().chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// A value stored in one column.
pub(crate) trait StoredValue: Sized {
    type Column;
    fn read(column: Self::Column) -> Result<Self, String>;
}

/// Reads a column. An error names the column.
pub(crate) fn read<T: StoredValue>(name: &'static str, column: T::Column) -> Read<T> {
    T::read(column).map_err(|why| Unreadable { column: name, why })
}

/// Reads a nullable column. An error names the column.
pub(crate) fn read_if<T: StoredValue>(name: &'static str, column: Option<T::Column>) -> Read<Option<T>> {
    column.map(|column| read(name, column)).transpose()
}

/// Returns the value of a nullable column that must not be null in the state of its row.
pub(crate) fn present<T>(name: &'static str, column: Option<T>) -> Read<T> {
    column.ok_or_else(|| Unreadable { column: name, why: "nothing, where the state wants a value".to_owned() })
}

macro_rules! stored_texts {
    ($($type:ty),+ $(,)?) => {$(
        impl StoredValue for $type {
            type Column = String;
            fn read(column: String) -> Result<Self, String> {
                Self::parse(&column).map_err(|Invalid(why)| why)
            }
        }
    )+};
}

stored_texts!(
    AccountId,
    TokenId,
    UserKeyId,
    SessionId,
    GrantId,
    ApplicationId,
    RedirectUri,
    Scope,
    InvitationId,
    RefLogId,
    DataKeyId,
    DataKeyScope,
    DatabaseId,
    CommentId,
    ReleaseId,
    OperationId,
    UploadId,
    EventId,
    ActivityId,
    HookId,
    DeliveryId,
    AttemptId,
    OwnerName,
    DatabaseName,
    RefName,
    CommitHash,
    TraceContext,
    BackupId,
    DeploymentId,
    DeploymentName,
    InstanceId,
    ServedName,
);

impl StoredValue for UserCode {
    type Column = String;
    fn read(column: String) -> Result<Self, String> {
        Self::parse(&column).map_err(|error| error.to_string())
    }
}

impl StoredValue for PullNumber {
    type Column = i64;
    fn read(column: i64) -> Result<Self, String> {
        Self::new(column).map_err(|Invalid(why)| why)
    }
}

/// Counts and sizes, which are never negative and fit a signed column.
macro_rules! stored_counts {
    ($($type:ty),+) => {$(
        impl StoredValue for $type {
            type Column = i64;
            fn read(column: i64) -> Result<Self, String> {
                Self::try_from(column).map_err(|error| error.to_string())
            }
        }
    )+};
}

stored_counts!(u16, u32, u64);

impl<const N: usize> StoredValue for [u8; N] {
    type Column = Vec<u8>;
    fn read(column: Vec<u8>) -> Result<Self, String> {
        Self::try_from(column).map_err(|column| format!("{} bytes, not {N}", column.len()))
    }
}

/// An enum stored as a word.
pub(crate) trait StoredWord: Copy {
    fn word(self) -> &'static str;
}

macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        impl StoredWord for $type {
            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl StoredValue for $type {
            type Column = String;
            fn read(column: String) -> Result<Self, String> {
                match column.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("'{column}'")),
                }
            }
        }
    )+};
}

words! {
    AccountKind { User = "user", Organization = "organization" }
    Role { Read = "read", Write = "write", Admin = "admin" }
    MemberRole { Owner = "owner", Member = "member" }
    Visibility { Public = "public", Private = "private" }
    OperationKind { SqlWrite = "sql_write", Merge = "merge", Fork = "fork", Import = "import", Purge = "purge", Push = "push", MirrorSync = "mirror_sync", Restore = "restore", Edit = "edit" }
    RefKind { Branch = "branch", Tag = "tag" }
    OperationState { Queued = "queued", Running = "running", Succeeded = "succeeded", Failed = "failed" }
    PullAction {
        Opened = "pull_opened",
        Closed = "pull_closed",
        Reopened = "pull_reopened",
        Merged = "pull_merged",
    }
    DisabledReason { Gone = "gone", Failing = "failing" }
    EventName { Push = "push", PullRequest = "pull_request", Branch = "branch", Ping = "ping" }
    DeliveryState { Pending = "pending", Delivered = "delivered", Failed = "failed" }
    RunState { Starting = "starting", Started = "started", Stopping = "stopping", Stopped = "stopped" }
    DeploymentRole { Reader = "reader", ReaderAndPulls = "reader_and_pulls", Writer = "writer", Admin = "admin" }
    Metered { Compute = "compute", Storage = "storage" }
    BackupKind { Nightly = "nightly", Manual = "manual", Final = "final" }
    Resolution { Fine = "fine", Coarse = "coarse" }
    DeploymentOperationKind { RebootInstance = "reboot_instance", CreateBackup = "create_backup", Delete = "delete" }
    DeploymentFailureKind { Expired = "expired", Failed = "failed", Internal = "internal" }
    AttemptError {
        Timeout = "timeout", Refused = "refused", Dns = "dns", Tls = "tls", BlockedAddress = "blocked_address",
        Redirect = "redirect", Connection = "connection",
    }
    ImportType { Integer = "INTEGER", Real = "REAL", Numeric = "NUMERIC", Text = "TEXT", Blob = "BLOB" }
    TextEncoding { Utf8 = "utf-8", Utf16 = "utf-16", Windows1252 = "windows-1252" }
    FileType {
        Csv = "csv", Psv = "psv", Tsv = "tsv", Xlsx = "xlsx", Json = "json", Sql = "sql", Yaml = "yaml", Parquet = "parquet",
        Sqlite = "sqlite",
    }
}

pub(crate) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Converts a size or count for a signed column.
pub(crate) fn signed(column: &'static str, value: u64) -> Read<i64> {
    i64::try_from(value).map_err(|_| Unreadable { column, why: format!("{value}, which is too large") })
}

/// Converts a page size for a `LIMIT` clause.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a count of rows for the port. A negative count becomes 0.
pub(crate) fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or(0)
}

/// Converts rows to entities. Fails with the first row that does not parse.
pub(crate) fn all<R, T>(rows: Vec<R>, read: impl FnMut(R) -> Read<T>) -> Result<Vec<T>, crate::error::StoreError> {
    Ok(rows.into_iter().map(read).collect::<Read<Vec<T>>>()?)
}

/// Converts at most one row to an entity.
pub(crate) fn one<R, T>(row: Option<R>, read: impl FnMut(R) -> Read<T>) -> Result<Option<T>, crate::error::StoreError> {
    Ok(row.map(read).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_parse_names_its_column() {
        let error = read::<Role>("role", "owner".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "column role has an invalid value: 'owner'");
        assert!(read::<u32>("attempts", -1).is_err());
        assert!(read::<[u8; 32]>("hash", vec![0; 31]).is_err());
        assert!(signed("size", u64::MAX).is_err());
    }
}
