//! Errors of the domain as answers of this service: a status, and `{"error": …}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use branchyard_domain::errors::{
    AccessError, DatabaseError, OperationError, PortError, PullError, ReadError, RefError,
};
use serde_json::json;

/// An answer that is not a success.
pub(crate) struct ApiError {
    status: StatusCode,
    text: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.text}))).into_response()
    }
}

/// A fault of the service. Its cause is for the operator, not for the client.
impl From<PortError> for ApiError {
    fn from(error: PortError) -> Self {
        tracing::error!(error = &error as &dyn std::error::Error, "a store failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the service failed; try again")
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Port(error) => error.into(),
            AccessError::SignInRequired => Self::new(StatusCode::UNAUTHORIZED, "send a token"),
            // Whether a database exists that the caller may not see stays hidden.
            AccessError::NoSuchDatabase => Self::new(StatusCode::NOT_FOUND, "no such database"),
            error @ AccessError::Denied(_) => Self::new(StatusCode::FORBIDDEN, error.to_string()),
            error @ AccessError::Mirror => Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
        }
    }
}

/// The families of errors that have the two kinds above, and otherwise a fault of the request.
macro_rules! families {
    ($($family:ident { $($inner:ident),+ })+) => {$(
        impl From<$family> for ApiError {
            fn from(error: $family) -> Self {
                match error {
                    $($family::$inner(error) => error.into(),)+
                    error => Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
                }
            }
        }
    )+};
}

families! {
    DatabaseError { Port, Access }
    RefError { Port, Access }
    ReadError { Port, Ref }
    OperationError { Port, Access }
    PullError { Port, Access }
}
