//! The closed sets of words in the JSON of API v2.

use serde::Serialize;
use utoipa::ToSchema;

/// Who sees a database without a role of their own.
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

/// Where a pull request stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PullState {
    Open,
    Closed,
    Merged,
}

/// What kind of work an operation is. `dolt_ci` is reserved by the published API and never produced.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OperationType {
    Import,
    Merge,
    SqlWrite,
    Fork,
    #[expect(dead_code, reason = "reserved by the published API, never produced")]
    DoltCi,
}

/// Where an operation stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
}

/// How a SQL read ended.
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

/// What happened to a row.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowChange {
    Added,
    Removed,
    Modified,
}

/// What happened to a table.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TableChange {
    Added,
    Dropped,
    Modified,
}

/// What kind of thing two sides disagree on.
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

/// An object with code of its own.
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

/// Why the server switched a hook off: the receiver answered 410, or failed for days.
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

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeliveryStatus {
    Pending,
    Delivered,
    Failed,
}

/// Why an attempt failed, unless its status says so.
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
