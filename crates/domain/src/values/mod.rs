//! Values: parsed once, trusted afterwards.

mod backup;
mod commit;
mod email;
mod ids;
mod money;
mod names;
mod settings;
mod text;
mod time;
mod web_address;

pub use backup::BackupId;
pub use branchyard_auth::TokenExpiry;
pub use commit::CommitHash;
pub use email::EmailAddress;
pub use ids::{
    AccountId, ActivityId, AttemptId, CommentId, DatabaseId, DeliveryId, DeploymentId, EventId, HookId, InstanceId,
    InvitationId, OperationId, PullNumber, ReleaseId, SessionId, TokenId, UploadId,
};
pub use money::{HOURS_PER_MONTH, Usd};
pub use names::{DatabaseName, DeploymentName, OwnerName, RefName, Revision, ServedName, TableName};
pub use settings::{Applied, Rule, Setting, Settings};
pub use text::{Description, DisplayName, LongText, Title, TokenName};
pub use time::Timestamp;
pub use web_address::WebAddress;

/// A value that breaks its rules; the text says which rule, in words for the person who sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
