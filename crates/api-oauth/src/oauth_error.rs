//! Errors with the codes of the standards.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use branchyard_domain::errors::{GrantError, PortError};
use branchyard_http_common::{HandlerError, OwnShape, PoolError};
use branchyard_problem_details::Problem;
use serde_json::json;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OAuthError {
    /// An error of RFC 6749 §5.2, RFC 7009 §2.2.1 or RFC 8628 §3.5.
    #[error("{description}")]
    Refused {
        /// The code.
        error: &'static str,
        /// What is wrong, for developers, in ASCII without quotes and backslashes.
        description: String,
        /// The status, which is 400 except for a client that tries to authenticate or is too fast.
        status: StatusCode,
        /// Seconds to wait.
        retry_after: Option<i64>,
    },
    /// An error that has nothing to do with OAuth: the server is busy or failed.
    #[error(transparent)]
    Handler(#[from] HandlerError),
}

impl From<Problem> for OAuthError {
    fn from(problem: Problem) -> Self {
        Self::Handler(problem.into())
    }
}

impl From<PoolError> for OAuthError {
    fn from(error: PoolError) -> Self {
        Self::Handler(error.into())
    }
}

impl OAuthError {
    pub(crate) fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self::Refused { error, description: description.into(), status: StatusCode::BAD_REQUEST, retry_after: None }
    }

    pub(crate) fn invalid_request(description: impl Into<String>) -> Self {
        Self::new("invalid_request", description)
    }

    /// Returns the error for a client that is too fast.
    pub(crate) fn too_fast(description: impl Into<String>, seconds: i64) -> Self {
        let (error, status) = ("slow_down", StatusCode::TOO_MANY_REQUESTS);
        Self::Refused { error, description: description.into(), status, retry_after: Some(seconds.max(1)) }
    }

    /// Returns the error for a client that sends an `Authorization` header (RFC 6749 §5.2).
    pub(crate) fn no_authentication() -> Self {
        let description = "all clients are public; send client_id in the body and no Authorization header".to_owned();
        Self::Refused { error: "invalid_client", description, status: StatusCode::UNAUTHORIZED, retry_after: None }
    }

    /// Converts an error of the domain. Returns a fault of a port as `Err`.
    pub(crate) fn of(error: GrantError) -> Result<Self, PortError> {
        let description = error.to_string();
        let code = match error {
            GrantError::UnknownApplication => "invalid_client",
            GrantError::Replayed { grant, user } => {
                tracing::warn!(grant_id = %grant, user_id = %user, "a code or a former refresh token was sent again, so its grant was ended");
                "invalid_grant"
            }
            GrantError::Invalid
            | GrantError::UnknownRedirectUri
            | GrantError::SessionEnded
            | GrantError::NoSuchGrant => "invalid_grant",
            GrantError::WiderScope => "invalid_scope",
            GrantError::Pending => "authorization_pending",
            GrantError::SlowDown(_) => "slow_down",
            GrantError::Denied => "access_denied",
            GrantError::Expired => "expired_token",
            GrantError::TooManyDevices => {
                let (error, status) = ("temporarily_unavailable", StatusCode::SERVICE_UNAVAILABLE);
                return Ok(Self::Refused { error, description, status, retry_after: Some(60) });
            }
            GrantError::Port(fault) => return Err(fault),
        };
        Ok(Self::new(code, description))
    }

    /// Returns `true` if a code or token was wrong, so that the attempt counts as failed.
    pub(crate) fn is_failed_attempt(&self) -> bool {
        matches!(self, Self::Refused { error: "invalid_grant" | "invalid_client", .. })
    }
}

impl ResponseError for OAuthError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Refused { status, .. } => *status,
            Self::Handler(error) => error.status_code(),
        }
    }

    fn error_response(&self) -> HttpResponse {
        let (error, description, retry_after) = match self {
            Self::Refused { error, description, retry_after, .. } => (error, description, retry_after),
            Self::Handler(error) => return error.error_response(),
        };
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((header::CACHE_CONTROL, "no-store")).insert_header((header::PRAGMA, "no-cache"));
        if let Some(seconds) = retry_after {
            response.insert_header((header::RETRY_AFTER, seconds.to_string()));
        }
        if self.status_code() == StatusCode::UNAUTHORIZED {
            // The scheme that clients use for their secrets, which RFC 6749 §5.2 requires here.
            response.insert_header((header::WWW_AUTHENTICATE, "Basic realm=\"branchyard\""));
        }
        // RFC 6749 §5.2 allows these characters alone.
        let description: String =
            description.chars().filter(|c| matches!(c, ' ' | '!' | '#'..='[' | ']'..='~')).collect();
        let mut response = response.json(json!({"error": error, "error_description": description}));
        response.extensions_mut().insert(OwnShape);
        response
    }
}
