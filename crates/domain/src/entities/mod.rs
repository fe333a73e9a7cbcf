//! Entities: plain structs, with states as enums whose transitions can be refused.

mod account;
mod commit;
mod database;
mod event;
mod log;
mod operation;
mod pull;
mod refs;
mod release;
mod token;
mod upload;

pub use account::{Account, AccountKind, Email, Member, MemberRole, Organization, User};
pub use commit::{
    Cell, Change, Commit, Conflict, ConflictKind, ForeignKey, Index, RowChange, Signature, TableChange, TableColumn,
    TableKind, TableSchema,
};
pub use database::{Collaborator, Database, DatabaseLocator, Role, Visibility};
pub use event::{Event, EventKind, PullAction};
pub use log::{LogEntry, LogPosition, LogWalk};
pub use operation::{
    Failure, FailureKind, ImportMode, ImportRequest, Operation, OperationKind, OperationStatus, Outcome, PullEnds,
    RowProblem, Side, Work,
};
pub use pull::{Pull, PullComment, PullState};
pub use refs::{Branch, Tag};
pub use release::Release;
pub use token::{LastUse, Token};
pub use upload::{FileType, Upload, UploadPart};
