//! Errors of a whole request and of single statements.

use branchyard_domain::ports::SessionError;

/// An error of a whole request. It determines the HTTP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HttpError {
    Protocol(String),
    BatonInvalid,
    BatonReused,
    StreamExpired,
    Unauthenticated { sent: bool },
    NotFound(String),
    MethodNotAllowed { allow: &'static str },
    PayloadTooLarge(u64),
    TooManyStreams(u64),
    RateLimited,
    Internal,
    Unavailable(&'static str),
}

impl HttpError {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Protocol(_) | Self::BatonInvalid | Self::BatonReused | Self::StreamExpired => 400,
            Self::Unauthenticated { .. } => 401,
            Self::NotFound(_) => 404,
            Self::MethodNotAllowed { .. } => 405,
            Self::PayloadTooLarge(_) => 413,
            Self::TooManyStreams(_) | Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable(_) => 503,
        }
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Protocol(_) => "PROTOCOL_ERROR",
            Self::BatonInvalid => "BATON_INVALID",
            Self::BatonReused => "BATON_REUSED",
            Self::StreamExpired => "STREAM_EXPIRED",
            Self::Unauthenticated { .. } => "UNAUTHENTICATED",
            Self::NotFound(_) => "NOT_FOUND",
            Self::MethodNotAllowed { .. } => "METHOD_NOT_ALLOWED",
            Self::PayloadTooLarge(_) => "PAYLOAD_TOO_LARGE",
            Self::TooManyStreams(_) => "TOO_MANY_STREAMS",
            Self::RateLimited => "RATE_LIMITED",
            Self::Internal => "INTERNAL",
            Self::Unavailable(_) => "SERVICE_UNAVAILABLE",
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Self::Protocol(why) | Self::NotFound(why) => why.clone(),
            Self::BatonInvalid => "the baton was not issued here, to this user and for this database".into(),
            Self::BatonReused => "the baton was used before, or another request on the stream is running".into(),
            Self::StreamExpired => {
                "the stream has ended; an open transaction was rolled back; begin anew without a baton".into()
            }
            Self::Unauthenticated { sent: false } => "send a token as `Authorization: Bearer hsat.v1.…`".into(),
            Self::Unauthenticated { sent: true } => "the token is malformed, unknown, expired or revoked".into(),
            Self::MethodNotAllowed { allow } => format!("use {allow}"),
            Self::PayloadTooLarge(most) => format!("the body may have {most} bytes"),
            Self::TooManyStreams(most) => {
                format!("{most} streams are open; close some or raise listener_max_connections")
            }
            Self::RateLimited => "too many rejected credentials from this address; try again in a second".into(),
            Self::Internal => "something went wrong here; the log of the deployment says what".into(),
            Self::Unavailable(why) => (*why).into(),
        }
    }

    /// Returns `true` if the error leaves the stream and its baton unchanged.
    pub(crate) fn keeps_stream(&self) -> bool {
        matches!(
            self,
            Self::BatonReused
                | Self::Unauthenticated { .. }
                | Self::TooManyStreams(_)
                | Self::RateLimited
                | Self::Unavailable(_)
        )
    }
}

/// An error of a statement, or of another request of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatementError {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl StatementError {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    pub(crate) fn busy() -> Self {
        Self::new("SQLITE_BUSY", "database is locked: another transaction is writing")
    }

    pub(crate) fn transaction_timeout(millis: u64) -> Self {
        Self::new("TRANSACTION_TIMEOUT", format!("the transaction took longer than {millis} ms and was rolled back"))
    }

    pub(crate) fn response_too_large(most: usize) -> Self {
        Self::new(
            "RESPONSE_TOO_LARGE",
            format!("the answer would have more than {most} bytes; ask for fewer rows or use a cursor"),
        )
    }

    pub(crate) fn full() -> Self {
        Self::new("SQLITE_FULL", "database or disk is full: the volume of the deployment is used up")
    }
}

impl From<&SessionError> for StatementError {
    fn from(error: &SessionError) -> Self {
        let code = match error {
            SessionError::NeedsTurn { .. } => "SQLITE_BUSY",
            SessionError::NoStatement => "SQL_NO_STATEMENT",
            SessionError::SeveralStatements => "SQL_MANY_STATEMENTS",
            SessionError::Arguments(_) => "ARGS_INVALID",
            SessionError::TimedOut(_) => "QUERY_TIMEOUT",
            SessionError::Statement { code, .. } => return Self::new(&format!("SQLITE_{code}"), error.to_string()),
            SessionError::NoSuchBranch(_) => "SQLITE_ERROR",
            SessionError::Engine(_) => "SQLITE_IOERR",
        };
        Self::new(code, error.to_string())
    }
}
