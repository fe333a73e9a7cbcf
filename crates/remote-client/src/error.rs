//! Why a request to a remote failed.

use branchyard_remote_protocol::Malformed;

/// Why a request to a remote failed. The messages are for the one who named the remote.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// There was no response, or it broke off.
    #[error("{0}")]
    Connection(&'static str),
    /// Nothing arrived for so long that another request would not fare better.
    #[error("the remote sent nothing for {0} seconds")]
    Silent(u64),
    /// The server refused the request.
    #[error("the server of the remote answered {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message, without control characters.
        message: String,
    },
    /// The response is not what the protocol demands.
    #[error("the server of the remote sent what is not accepted: {0}")]
    Malformed(String),
    /// A time limit passed.
    #[error("the remote did not send everything within {0} seconds")]
    TooSlow(u64),
    /// The caller wants no more.
    #[error("the request was aborted")]
    Aborted,
    /// A callback failed.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

impl RemoteError {
    /// Returns `true` if the same request may succeed if it is repeated at once.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::Refused { status: 429 | 502..=504, .. })
    }
}

impl From<Malformed> for RemoteError {
    fn from(Malformed(reason): Malformed) -> Self {
        Self::Malformed(reason.to_owned())
    }
}
