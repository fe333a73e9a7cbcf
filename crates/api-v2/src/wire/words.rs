//! The closed sets of words in the JSON of API v2.

use serde::Serialize;
use utoipa::ToSchema;

/// The callers that can see a database without a role on it.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Visibility {
    Public,
    Private,
}

/// A role on a database; each includes those before it.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Read,
    Write,
    Admin,
}

/// A role in an organization.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MemberRole {
    Owner,
    Member,
}

/// The state of a pull request.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PullState {
    Open,
    Closed,
    Merged,
}

/// The kind of an operation. `dolt_ci` is reserved by the published API and never used.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OperationType {
    Import,
    Merge,
    SqlWrite,
    Fork,
    Purge,
    Push,
    MirrorSync,
    Restore,
    Edit,
    #[expect(dead_code, reason = "reserved by the published API, never produced")]
    DoltCi,
}

/// The status of an operation.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
}

/// The outcome of a SQL read.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueryStatus {
    Success,
    RowLimit,
    Timeout,
    Error,
    #[expect(dead_code, reason = "reserved by the published API, never produced")]
    NotWorkspace,
}

/// The change of a row.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowChange {
    Added,
    Removed,
    Modified,
}

/// The change of a table.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TableChange {
    Added,
    Dropped,
    Modified,
}

/// The kind of object that the two sides disagree on.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConflictKind {
    Row,
    Schema,
    Constraint,
}

/// Table or view.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TableKind {
    Table,
    View,
}

/// An index, trigger or view.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ObjectKind {
    Index,
    Trigger,
    View,
}

/// A kind of object with code.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PullBrings {
    Trigger,
    View,
}

/// What a hook can subscribe to.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) enum HookEvent {
    #[serde(rename = "on_push")]
    Push,
    #[serde(rename = "on_pull_request")]
    PullRequest,
    #[serde(rename = "on_branch")]
    Branch,
}

/// The reason why the server switched a hook off: the receiver answered 410, or all attempts failed for days.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DisabledReason {
    Gone,
    Failing,
}

/// The `event_name` of a payload.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventName {
    Push,
    PullRequest,
    Branch,
    Ping,
}

/// The status of a delivery.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeliveryStatus {
    Pending,
    Delivered,
    Failed,
}

/// The reason why an attempt failed, unless its status shows it.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptError {
    Timeout,
    Refused,
    Dns,
    Tls,
    BlockedAddress,
    Redirect,
    Connection,
}
