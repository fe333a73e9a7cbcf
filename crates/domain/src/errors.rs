//! Errors, one enum per family of use cases. They hold no HTTP terms and keep the cause as `source`.

mod at_time;
mod databases;
mod hooks;
mod mirrors;
mod nodes;
mod oauth;
mod operations;
mod people;
mod pulls;
mod remotes;
mod row_history;

pub use at_time::AtTimeError;
pub use databases::{AccessError, DatabaseError, ReadError, RefError, ReleaseError};
pub use hooks::HookError;
pub use mirrors::MirrorError;
pub use nodes::NodeError;
pub use oauth::{ApplicationError, GrantError};
pub use operations::{EditError, EditFault, HistoryError, ImportError, ImportField, OperationError, QuotaError};
pub use people::{
    AdministrationError, CollaboratorError, KeyError, OrganizationError, PeopleError, SignInError, SignUpError,
    TokenError,
};
pub use pulls::{NotShown, PullError, PullStateError};
pub use remotes::RemoteError;
pub use row_history::{RowHistoryError, RowKeyFault};

use crate::ports::{BlobsError, EngineError, FormatError, MetadataError};

/// A failure of a port, independent of the caller's input.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The metadata store.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The blob store.
    #[error(transparent)]
    Blobs(#[from] BlobsError),
    /// A port declared by a crate that depends on this one.
    #[error(transparent)]
    External(ExternalFault),
    /// A concurrent request with the same idempotency key saved its answer first.
    #[error("another request with this idempotency key was faster")]
    KeyTaken,
    /// Free storage is below the limit, and the change would need some.
    #[error(
        "the server's storage is almost full, so only deletions work; delete what you no longer need, or try again later"
    )]
    StorageLow,
    /// The metadata are older than the databases ([`Hub::set_read_only`](crate::Hub::set_read_only)).
    #[error(
        "the server has lost recent changes of its metadata, so nothing can be changed until its administrator has decided how to go on"
    )]
    ReadOnly,
    /// Concurrent changes prevented completion after several tries.
    #[error("the state changed too often to finish: {0}")]
    Unsettled(&'static str),
}

/// A failure of a port that is declared by a crate that depends on this one.
#[derive(Debug)]
pub struct ExternalFault {
    cause: Box<dyn std::error::Error + Send + Sync>,
    is_temporary: bool,
}

impl ExternalFault {
    /// Wraps an error. `is_temporary` states whether a later try may succeed.
    pub fn new(cause: impl std::error::Error + Send + Sync + 'static, is_temporary: bool) -> Self {
        Self { cause: Box::new(cause), is_temporary }
    }

    /// Returns the wrapped error if it has type `E`.
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// Returns `true` if a later try may succeed.
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl std::fmt::Display for ExternalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for ExternalFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

macro_rules! from_ports {
    ($($family:ident),+) => {$(
        impl From<MetadataError> for $family {
            fn from(error: MetadataError) -> Self {
                Self::Port(PortError::Metadata(error))
            }
        }

        impl From<EngineError> for $family {
            fn from(error: EngineError) -> Self {
                Self::Port(PortError::Engine(error))
            }
        }

        impl From<BlobsError> for $family {
            fn from(error: BlobsError) -> Self {
                Self::Port(PortError::Blobs(error))
            }
        }
    )+};
}

from_ports!(
    HistoryError,
    AdministrationError,
    AccessError,
    SignInError,
    SignUpError,
    PeopleError,
    OrganizationError,
    CollaboratorError,
    TokenError,
    KeyError,
    DatabaseError,
    RefError,
    PullError,
    ReleaseError,
    ReadError,
    RowHistoryError,
    RemoteError,
    OperationError,
    ImportError,
    HookError,
    MirrorError,
    ApplicationError,
    GrantError
);

impl From<FormatError> for PortError {
    fn from(error: FormatError) -> Self {
        Self::Engine(EngineError::Import(error))
    }
}
