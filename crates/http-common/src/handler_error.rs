//! The error type of handlers.

use actix_web::http::StatusCode;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, ResponseError};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use crate::api_error::ApiError;
use crate::api_response::ApiResponse;
use crate::request_context::explain;
use crate::request_id::RequestId;
use branchyard_executor::PoolError;

/// A handler's reason for not producing its own response.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// A problem, which [`crate::layer`] renders.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// The saved response of an idempotency key, which is sent again.
    #[error("a saved answer")]
    Replay(Box<ApiResponse>),
}

/// The result of a handler.
pub type HandlerResult = Result<ApiResponse, HandlerError>;

impl HandlerError {
    /// Converts an error of the domain outside a [`crate::RequestContext`]. A fault is logged with the request's id.
    pub fn of(refusal: ApiError, request: &HttpRequest) -> Self {
        let id = request.extensions().get::<RequestId>().cloned();
        explain(refusal, &id.unwrap_or_default())
    }

    /// Creates a 400 for one query parameter or header.
    pub fn parameter(name: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        Problem::new(ErrorCode::ValidationFailed, format!("{name}: {text}"))
            .with_error(FieldError::at_parameter(name, text))
            .into()
    }

    /// Creates a 404 with this text.
    pub fn not_found(text: impl Into<String>) -> Self {
        Problem::new(ErrorCode::NotFound, text).into()
    }
}

impl From<PoolError> for HandlerError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Full | PoolError::TooLong => {
                Problem::new(ErrorCode::ServiceUnavailable, "the server is busy; try again").retry_after(1).into()
            }
            PoolError::CallerQueueFull(most) => {
                let detail =
                    format!("{most} reads of yours wait already; wait for one to finish, or send fewer at a time");
                Problem::new(ErrorCode::RateLimited, detail).retry_after(1).into()
            }
            PoolError::ShareInUse => {
                let detail = "as many reads of yours are running as your share of this server allows, and none finished in \
                              time; wait for one to finish, or send fewer at a time";
                Problem::new(ErrorCode::RateLimited, detail).retry_after(1).into()
            }
            PoolError::Lost => Problem::internal().into(),
        }
    }
}

impl ResponseError for HandlerError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Problem(problem) => {
                StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::Replay(answer) => answer.status_code(),
        }
    }

    fn error_response(&self) -> HttpResponse {
        match self {
            Self::Problem(_) => HttpResponse::new(self.status_code()),
            Self::Replay(answer) => answer.as_ref().clone().into_response(),
        }
    }
}
