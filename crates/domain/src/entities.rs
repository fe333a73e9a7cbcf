//! Entities: plain structs whose states are enums with checked transitions.

mod account;
mod activity;
mod application;
mod collection;
mod commit;
mod database;
mod delivery;
mod edit;
mod event;
mod grant;
mod hook;
mod log;
mod mirror;
mod node;
mod object;
mod operation;
mod pull;
mod ref_log;
mod refs;
mod release;
mod row_resolution;
mod session;
mod token;
mod upload;
mod user_key;

pub use account::{Account, AccountKind, Email, Member, MemberRole, Organization, RetiredName, User};
pub use activity::{Activity, ActivityKind};
pub use application::{Application, RegisteredApplication};
pub use collection::CollectionRecord;
pub use commit::{
    Cell, Change, Commit, Conflict, ConflictKind, ForeignKey, Index, RowChange, Signature, TableChange, TableColumn,
    TableKind, TableSchema,
};
pub use database::{Collaborator, Database, DatabaseLocator, FileState, Role, Star, Visibility};
pub use delivery::{Attempt, AttemptError, Delivery, DeliveryDetails, DeliveryStatus, Request};
pub use edit::{CellConflict, EditRequest, EditedValue, NumberLiteral, RowEdit};
pub use event::{Event, EventKind, EventName, PullAction};
pub use grant::{
    AuthorizationCode, DeviceAuthorization, DeviceDecision, Grant, IssuedAccess, RefreshFamily, RefreshUse,
};
pub use hook::{DisabledReason, Hook, HookEvent, HookSecret, PreviousSecret, Sealed};
pub use log::{LogEntry, LogPosition, LogWalk};
pub use mirror::Mirror;
pub use node::{Node, NodeCopies, NodeState, StoredObjects};
pub use object::{ObjectChange, ObjectKind, SchemaObject, Trigger, brought, object_changes};
pub use operation::{
    FailureKind, ImportMode, ImportRequest, Operation, OperationFailure, OperationKind, OperationStatus, Outcome,
    PullEnds, Purged, PushRequest, PushTarget, RowProblem, Side, Work,
};
pub use pull::{AuthoredPull, Pull, PullComment, PullContent, PullHeads, PullHidden, PullState};
pub use ref_log::{RefChange, RefKind, RefLogEntry};
pub use refs::{Branch, Tag, Tagger};
pub use release::Release;
pub use row_resolution::{ResolvedRow, RowResolution};
pub use session::{Invitation, Session};
pub use token::{LastUse, Token};
pub use upload::{FileType, ImportOptions, ImportType, TextEncoding, TextOptions, Upload, UploadPart};
pub use user_key::UserKey;
