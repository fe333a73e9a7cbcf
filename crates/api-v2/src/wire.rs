//! The JSON types of API v2. They are frozen: within v2 fields may be added, but nothing else may change. No domain type
//! appears here.
//!
//! The doc comments of types and fields are published as descriptions in the OpenAPI document.

mod branch;
mod database;
mod diff;
mod hook;
mod import;
mod mirror;
mod operation;
mod organization;
mod pull;
mod query;
mod row_history;
mod token;
mod user;
mod user_key;
mod words;

pub(crate) use branch::{Branch, Release, Tag};
pub(crate) use database::{Database, DatabaseRef};
pub(crate) use diff::{
    Commit, CommitAuthor, Conflict, ForeignKey, Index, ObjectDiff, Row, RowDiff, SchemaColumn, SqlPreview, TableDiff,
    TableSchema, Trigger,
};
pub(crate) use hook::{Delivery, DeliveryAttempt, DeliveryRequest, DeliverySummary, Hook, LastDelivery};
pub(crate) use import::{ImportUpload, ImportUploadPart};
pub(crate) use mirror::Mirror;
pub(crate) use operation::{Operation, OperationError, OperationRef, OperationResult, RowError};
pub(crate) use organization::{Collaborator, Member, Organization};
pub(crate) use pull::{BranchRef, Pull, PullComment, PullSummary, WithdrawnPull};
pub(crate) use query::{QueryColumn, QueryResult};
pub(crate) use row_history::{BlamedColumns, CellBlame, HistoryMeta, RowBlame, RowRevision, Searched};
pub(crate) use token::{Token, TokenUse};
pub(crate) use user::{EmailAddress, User};
pub(crate) use user_key::UserKey;
pub(crate) use words::{
    AttemptError, ConflictKind, DeliveryStatus, DisabledReason, EventName, HookEvent, MemberRole, ObjectKind,
    OperationStatus, OperationType, PullBrings, PullState, QueryStatus, Role, RowChange, TableChange, TableKind,
    Visibility,
};
