//! A request of this version. The handler runs even if the request is refused, because every endpoint has its own format for errors
//! (v1alpha1 §2).

use std::future::Future;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::{StatusCode, header};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, HttpResponse, HttpResponseBuilder};
use branchyard_domain::entities::User;
use branchyard_http_common::{HandlerError, OwnShape, RequestContext, RequestId, path_segment, sent_parameter};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::future::LocalBoxFuture;
use serde::Serialize;

use crate::settings::LegacySettings;
use crate::wire::{ExecutionStatus, Place};

/// A request, with its context or the error that refuses it.
pub(crate) struct LegacyRequest {
    call: Result<RequestContext, HandlerError>,
    pub(crate) request: HttpRequest,
}

impl FromRequest for LegacyRequest {
    type Error = actix_web::Error;
    type Future = LocalBoxFuture<'static, Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let call = RequestContext::from_request(request, payload);
        Box::pin(Self::made(request.clone(), call))
    }
}

/// Whether an endpoint sends 401 or 404. Elsewhere these become 400, like most errors. 413, 415, 429, 500 and 503 are always sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statuses {
    /// The endpoint sends neither 401 nor 404.
    Flat,
    /// 401 for a missing or invalid credential.
    User,
    /// 404 for a missing resource.
    Export,
}

/// The format of an error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Fields `status` and `message`.
    Message,
    /// Fields `query_execution_status` and `query_execution_message`.
    Sql,
}

#[derive(Serialize)]
struct RefusedRequest<'a, E: Serialize> {
    status: &'static str,
    message: String,
    #[serde(flatten)]
    echo: &'a E,
}

#[derive(Serialize)]
struct RefusedSql<'a, E: Serialize> {
    query_execution_status: ExecutionStatus,
    query_execution_message: String,
    #[serde(flatten)]
    echo: &'a E,
}

impl LegacyRequest {
    async fn made(
        request: HttpRequest,
        call: impl Future<Output = Result<RequestContext, HandlerError>>,
    ) -> Result<Self, actix_web::Error> {
        Ok(Self { call: call.await, request })
    }

    /// Creates a request whose body the handler reads itself.
    pub(crate) async fn without_body(request: HttpRequest) -> Self {
        Self { call: RequestContext::without_body(&request).await, request }
    }

    /// Returns the context, or the error if the credential, the quota or the body was refused.
    pub(crate) fn call(&self) -> Result<&RequestContext, HandlerError> {
        match &self.call {
            Ok(call) => Ok(call),
            Err(HandlerError::Problem(problem)) => Err(problem.clone().into()),
            Err(HandlerError::Replay(_)) => Err(Problem::internal().into()),
        }
    }

    /// Returns the settings of the application.
    pub(crate) fn settings(&self) -> LegacySettings {
        LegacySettings::of(&self.request)
    }

    /// Returns a segment of the path, percent-decoded once.
    pub(crate) fn segment(&self, name: &str) -> String {
        path_segment(&self.request, name)
    }

    /// Returns the owner and the database of the path as they were sent.
    pub(crate) fn place(&self) -> Place {
        Place { owner: self.segment("owner"), name: self.segment("database") }
    }

    /// Returns a query parameter as it was sent, for responses that repeat it; empty if absent.
    pub(crate) fn parameter(&self, name: &str) -> String {
        sent_parameter(&self.request, name).unwrap_or_default()
    }

    /// Returns a string of the body as it was sent, for responses that repeat it; empty if absent.
    pub(crate) fn sent(&self, field: &str) -> String {
        self.call.as_ref().ok().and_then(|call| call.sent_string(field)).unwrap_or_default()
    }

    /// Creates an error response with `status` and `message`.
    pub(crate) fn refuse(&self, statuses: Statuses, failure: &HandlerError, echo: &impl Serialize) -> HttpResponse {
        self.refused(Family::Message, statuses, failure, echo)
    }

    /// Creates an error response with `query_execution_status` and `query_execution_message`.
    pub(crate) fn refuse_sql(&self, failure: &HandlerError, echo: &impl Serialize) -> HttpResponse {
        self.refused(Family::Sql, Statuses::Flat, failure, echo)
    }

    /// Creates the response to a read that failed because of its statement or its ref. The HTTP status is 200.
    pub(crate) fn failed_sql(&self, message: String, echo: &impl Serialize) -> HttpResponse {
        let query_execution_status = ExecutionStatus::Error;
        done(&RefusedSql { query_execution_status, query_execution_message: message, echo })
    }

    /// Creates the response of an endpoint whose format has `status` and `message`.
    pub(crate) fn answer(&self, outcome: Result<impl Serialize, HandlerError>, echo: &impl Serialize) -> HttpResponse {
        match outcome {
            Ok(body) => done(&body),
            Err(failure) => self.refuse(Statuses::Flat, &failure, echo),
        }
    }

    fn refused(
        &self,
        family: Family,
        statuses: Statuses,
        failure: &HandlerError,
        echo: &impl Serialize,
    ) -> HttpResponse {
        let internal = Problem::internal();
        let problem = match failure {
            HandlerError::Problem(problem) => problem,
            HandlerError::Replay(_) => &internal,
        };
        let message = self.message(problem);
        let needs_scope = problem.is_insufficient_scope();
        // A new refusal, which no older client knows.
        let status = if needs_scope { StatusCode::FORBIDDEN } else { status(problem.code(), statuses) };
        let mut response = HttpResponse::build(status);
        for (name, value) in problem.headers() {
            if name == "retry-after" || needs_scope || status == StatusCode::UNAUTHORIZED {
                response.insert_header((name, value));
            }
        }
        match family {
            Family::Message => body(response, &RefusedRequest { status: "Error", message, echo }),
            Family::Sql => {
                let query_execution_status = ExecutionStatus::Error;
                body(response, &RefusedSql { query_execution_status, query_execution_message: message, echo })
            }
        }
    }

    fn message(&self, problem: &Problem) -> String {
        let detail = problem.detail();
        let fault = problem.errors().first();
        match problem.code() {
            ErrorCode::Internal => {
                let id = self.request.extensions().get::<RequestId>().cloned().unwrap_or_default();
                format!("internal error (request {})", id.as_str())
            }
            ErrorCode::PermissionDenied if !detail.starts_with("permission denied: ") => {
                format!("permission denied: {detail}")
            }
            ErrorCode::UnsupportedMediaType => format!("Invalid request body: {detail}"),
            ErrorCode::ValidationFailed => match fault {
                Some(fault) => match (fault.parameter(), fault.pointer()) {
                    (Some(parameter), _) => format!("invalid {parameter}: {}", fault.detail()),
                    (None, Some(pointer)) if !pointer.is_empty() => {
                        format!("Invalid request body: {}: {}", pointer.trim_start_matches('/'), fault.detail())
                    }
                    (None, _) => format!("Invalid request body: {}", fault.detail()),
                },
                None => format!("Invalid request body: {detail}"),
            },
            _ => detail.to_owned(),
        }
    }
}

fn status(code: ErrorCode, statuses: Statuses) -> StatusCode {
    match code {
        ErrorCode::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Unauthenticated if statuses == Statuses::User => StatusCode::UNAUTHORIZED,
        ErrorCode::NotFound if statuses == Statuses::Export => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Returns the signed-in user, or the error for an anonymous caller.
pub(crate) fn signed_in(call: &RequestContext) -> Result<Arc<User>, HandlerError> {
    call.caller.user().cloned().ok_or_else(|| not_authenticated().into())
}

/// Returns the error for an anonymous caller where a user is required.
pub(crate) fn not_authenticated() -> Problem {
    Problem::new(ErrorCode::Unauthenticated, "Not authenticated")
}

/// Creates a 200 response.
pub(crate) fn done(answer: &impl Serialize) -> HttpResponse {
    body(HttpResponse::Ok(), answer)
}

/// Media type of all JSON responses.
pub(crate) const JSON: &str = "application/json; charset=utf-8";

/// Sets the JSON body of a response. Serializing wire types cannot fail, because their maps have string keys.
pub(crate) fn body(mut response: HttpResponseBuilder, answer: &impl Serialize) -> HttpResponse {
    let text = serde_json::to_string(answer).unwrap_or_else(|error| {
        tracing::error!(%error, "a wire type did not serialize");
        "{}".to_owned()
    });
    response.extensions_mut().insert(OwnShape);
    response.insert_header((header::CONTENT_TYPE, JSON)).body(text)
}
