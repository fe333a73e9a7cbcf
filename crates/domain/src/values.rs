//! Value types, which are validated once, when they are parsed.

mod application_id;
mod chunk;
mod commit;
mod data_key;
mod email;
mod ids;
mod names;
mod object_key;
mod redirect_uri;
mod scope;
mod text;
mod time;
mod trace_context;
mod web_address;

pub use application_id::ApplicationId;
pub use branchyard_auth::{PublicKey, PublicKeyFormatError, RemoteKeyId, TokenExpiry};
pub use chunk::ChunkHash;
pub use commit::{CommitHash, CommitPrefix};
pub use data_key::{DataKeyId, DataKeyScope};
pub use email::EmailAddress;
pub use ids::{
    AccountId, ActivityId, AttemptId, CommentId, DatabaseId, DeliveryId, EventId, GrantId, HookId, InvitationId,
    OperationId, PullNumber, RefLogId, ReleaseId, SessionId, TokenId, UploadId, UserKeyId,
};
pub use names::{DatabaseName, OwnerName, RefName, Revision, TableName};
pub use object_key::{ObjectKey, ObjectSeal};
pub use redirect_uri::RedirectUri;
pub use scope::Scope;
pub use text::{ApplicationName, Description, DisplayName, LongText, Title, TokenName};
pub use time::Timestamp;
pub use trace_context::TraceContext;
pub use web_address::WebAddress;

/// A validation error. The text states the broken rule for the user who sent the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    /// Returns an error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
