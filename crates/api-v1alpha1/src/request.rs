//! One request of this version: its handler runs even when it is refused, because every endpoint refuses in a shape of its own
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

/// A request, and whether it may go on.
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

/// What is kept of HTTP where the rest is 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statuses {
    /// Nothing.
    Flat,
    /// 401 too.
    User,
    /// 404 too.
    Export,
}

/// The shape of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `status` and `message`.
    Message,
    /// `query_execution_status` and `query_execution_message`.
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

    /// A request whose body the handler takes itself.
    pub(crate) async fn without_body(request: HttpRequest) -> Self {
        Self { call: RequestContext::without_body(&request).await, request }
    }

    /// The call, when the credential and the body are fit.
    pub(crate) fn call(&self) -> Result<&RequestContext, HandlerError> {
        match &self.call {
            Ok(call) => Ok(call),
            Err(HandlerError::Problem(problem)) => Err(problem.clone().into()),
            Err(HandlerError::Replay(_)) => Err(Problem::internal().into()),
        }
    }

    /// Limits and dates.
    pub(crate) fn settings(&self) -> LegacySettings {
        LegacySettings::of(&self.request)
    }

    /// A segment of the path, decoded once.
    pub(crate) fn segment(&self, name: &str) -> String {
        path_segment(&self.request, name)
    }

    /// Owner and database of the path, as they were sent.
    pub(crate) fn place(&self) -> Place {
        Place { owner: self.segment("owner"), name: self.segment("database") }
    }

    /// A parameter as it was sent, for answers that repeat it.
    pub(crate) fn parameter(&self, name: &str) -> String {
        sent_parameter(&self.request, name).unwrap_or_default()
    }

    /// A string of the body as it was sent, for answers that repeat it.
    pub(crate) fn sent(&self, field: &str) -> String {
        self.call.as_ref().ok().and_then(|call| call.sent_string(field)).unwrap_or_default()
    }

    /// A refusal with `status` and `message`.
    pub(crate) fn refuse(&self, statuses: Statuses, failure: &HandlerError, echo: &impl Serialize) -> HttpResponse {
        self.refused(Family::Message, statuses, failure, echo)
    }

    /// A refusal with `query_execution_status` and `query_execution_message`.
    pub(crate) fn refuse_sql(&self, failure: &HandlerError, echo: &impl Serialize) -> HttpResponse {
        self.refused(Family::Sql, Statuses::Flat, failure, echo)
    }

    /// A read that failed for a reason its statement or its ref is to blame for: no error of HTTP.
    pub(crate) fn failed_sql(&self, message: String, echo: &impl Serialize) -> HttpResponse {
        let query_execution_status = ExecutionStatus::Error;
        done(&RefusedSql { query_execution_status, query_execution_message: message, echo })
    }

    /// The answer of an endpoint of the family with `status` and `message`.
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
        let status = status(problem.code(), statuses);
        let mut response = HttpResponse::build(status);
        for (name, value) in problem.headers() {
            if name == "retry-after" || status == StatusCode::UNAUTHORIZED {
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

/// The person who asks.
pub(crate) fn signed_in(call: &RequestContext) -> Result<Arc<User>, HandlerError> {
    call.caller.user().cloned().ok_or_else(|| not_authenticated().into())
}

/// What an anonymous caller is told where a person is needed.
pub(crate) fn not_authenticated() -> Problem {
    Problem::new(ErrorCode::Unauthenticated, "Not authenticated")
}

/// 200 with a body.
pub(crate) fn done(answer: &impl Serialize) -> HttpResponse {
    body(HttpResponse::Ok(), answer)
}

/// The type of every answer that is JSON.
pub(crate) const JSON: &str = "application/json; charset=utf-8";

/// A JSON body. Wire types cannot fail to serialize: their maps have string keys.
pub(crate) fn body(mut response: HttpResponseBuilder, answer: &impl Serialize) -> HttpResponse {
    let text = serde_json::to_string(answer).unwrap_or_else(|error| {
        tracing::error!(%error, "a wire type did not serialize");
        "{}".to_owned()
    });
    response.extensions_mut().insert(OwnShape);
    response.insert_header((header::CONTENT_TYPE, JSON)).body(text)
}
