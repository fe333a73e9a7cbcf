//! The record of each request, from its head to the last byte of its answer, for the access log and for traces.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::HeaderMap;
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::{self, Bytes};
use actix_web::{Error, HttpMessage as _, HttpRequest};
use branchyard_domain::values::{AccountId, TraceContext};
use branchyard_domain::{CallContext, CallSubject};
use branchyard_executor::CallerKey;

use crate::request_id::RequestId;
use crate::state::AppState;

/// The route of requests that match none.
pub const NO_ROUTE: &str = "none";
/// The status of a request whose connection ended before there was an answer. No response has this status.
const CUT_OFF: u16 = 499;

/// A request that has ended.
#[derive(Debug)]
pub struct EndedRequest<'a> {
    /// The id, as in `X-Request-Id`.
    pub id: &'a str,
    /// The method. [`Method`] accepts any token, so a client can send words of its own.
    pub method: &'a Method,
    /// The pattern of the route, or [`NO_ROUTE`].
    pub route: &'a str,
    /// The status of the answer; 499 if the connection ended before there was one.
    pub status: u16,
    /// Time from the head of the request to the last byte of the answer.
    pub latency: Duration,
    /// Bytes of the answer's body, after compression, that were handed to the connection.
    pub bytes: u64,
    /// The authenticated user.
    pub user: Option<AccountId>,
    /// The database and the operation that the request concerned.
    pub subject: CallSubject,
    /// The trace that the client named.
    pub received: Option<TraceContext>,
    /// The trace context in which the request was handled.
    pub own: Option<TraceContext>,
}

/// Observes requests.
pub trait RequestObserver: Send + Sync {
    /// Returns the trace context in which to handle a request: the one that the client named, or a child of it.
    fn began(&self, received: Option<TraceContext>) -> Option<TraceContext> {
        received
    }

    /// Called once for each request, when its answer has been sent or its connection has ended. Must not block.
    fn ended(&self, request: &EndedRequest<'_>);
}

/// The observer of an application's requests, as application data. Requests of an application without one are not observed.
#[derive(Clone)]
pub struct RequestLog(Arc<dyn RequestObserver>);

impl RequestLog {
    /// Creates a log that passes requests to `observer`.
    pub fn new(observer: Arc<dyn RequestObserver>) -> Self {
        Self(observer)
    }
}

/// The pattern of a request's route, which is expensive to find. Kept in the extensions of the request.
#[derive(Debug, Clone)]
pub struct RoutePattern(Rc<str>);

impl RoutePattern {
    /// Returns the pattern of the route that answered with `status`. A route without the method of the request did not match.
    pub fn of(request: &HttpRequest, status: StatusCode) -> Self {
        if let Some(known) = request.extensions().get::<Self>() {
            return known.clone();
        }
        let pattern = request.match_pattern().filter(|_| status != StatusCode::METHOD_NOT_ALLOWED);
        let pattern = Self(pattern.map_or_else(|| Rc::from(NO_ROUTE), Rc::from));
        request.extensions_mut().insert(pattern.clone());
        pattern
    }

    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The request itself, once it is routed. Kept in the extensions of the request until the request ends, because a request that is
/// cut off is known by nothing else. The middleware empties the slot, so that the request does not keep itself alive.
#[derive(Clone, Default)]
pub(crate) struct RoutedRequest(Rc<RefCell<Option<HttpRequest>>>);

impl RoutedRequest {
    /// Records that a request has been routed.
    pub(crate) fn note(request: &HttpRequest) {
        let slot = request.extensions().get::<Self>().cloned();
        if let Some(Self(slot)) = slot {
            slot.replace(Some(request.clone()));
        }
    }
}

/// Returns the trace that a client named. Two headers, like an invalid one, name none.
fn received_trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all("traceparent");
    let value = values.next()?;
    let is_alone = values.next().is_none();
    TraceContext::parse(value.to_str().ok()?).ok().filter(|_| is_alone)
}

/// A request under way. Passed to the observer when it is dropped, which is when the answer has been sent or cannot be sent.
struct RequestRecord {
    observer: Option<Arc<dyn RequestObserver>>,
    began: Instant,
    id: RequestId,
    method: Method,
    routed: RoutedRequest,
    context: Arc<CallContext>,
    received: Option<TraceContext>,
    own: Option<TraceContext>,
    route: RoutePattern,
    status: u16,
    bytes: u64,
    user: Option<AccountId>,
}

impl RequestRecord {
    fn begin(request: &ServiceRequest, id: RequestId) -> Self {
        let observer = request.app_data::<web::Data<RequestLog>>().map(|log| Arc::clone(&log.0));
        let received = received_trace(request.headers());
        let own = observer.as_ref().map_or(received, |observer| observer.began(received));
        let routed = RoutedRequest::default();
        request.extensions_mut().insert(routed.clone());
        Self {
            observer,
            began: Instant::now(),
            id,
            method: request.method().clone(),
            routed,
            context: CallContext::new(own),
            received,
            own,
            route: RoutePattern(Rc::from(NO_ROUTE)),
            status: CUT_OFF,
            bytes: 0,
            user: None,
        }
    }

    fn note_request(&mut self, request: &HttpRequest, status: StatusCode) {
        self.route = RoutePattern::of(request, status);
        if let Some(CallerKey::User(user)) = request.extensions().get::<CallerKey>() {
            self.user = Some(*user);
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let routed = self.routed.0.take();
        let Some(observer) = self.observer.take() else { return };
        if let (CUT_OFF, Some(request)) = (self.status, routed) {
            self.note_request(&request, StatusCode::OK);
        }
        observer.ended(&EndedRequest {
            id: self.id.as_str(),
            method: &self.method,
            route: self.route.as_str(),
            status: self.status,
            latency: self.began.elapsed(),
            bytes: self.bytes,
            user: self.user,
            subject: self.context.subject(),
            received: self.received,
            own: self.own,
        });
    }
}

/// Assigns the id of a request, handles the request in its own context and span, and passes it to the application's
/// [`RequestLog`] when it has ended. Middleware for the whole application, around all others.
///
/// # Errors
/// The errors of the inner service.
pub async fn log_request(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(state) = request.app_data::<web::Data<AppState>>() else {
        return Ok(next.call(request).await?.map_into_boxed_body());
    };
    let id = RequestId::of(request.headers(), &state.services);
    request.extensions_mut().insert(id.clone());
    // The level is that of errors, so that no filter of the log removes the id from a line.
    let span = tracing::error_span!("request", request_id = id.as_str(), trace_id = tracing::field::Empty);
    let mut record = RequestRecord::begin(&request, id);
    if let (Some(trace), false) = (record.own, span.is_disabled()) {
        span.record("trace_id", trace.trace_id_text());
    }
    let context = Arc::clone(&record.context);
    let answer = {
        let mut answer = pin!(next.call(request));
        poll_fn(|waker| context.enter(|| span.in_scope(|| answer.as_mut().poll(waker)))).await
    };
    match answer {
        Ok(answer) => {
            record.status = answer.status().as_u16();
            record.note_request(answer.request(), answer.status());
            record.routed.0.take();
            Ok(answer.map_body(|_, body| BoxBody::new(LoggedBody { body: body.boxed(), record })))
        }
        Err(error) => {
            record.status = error.as_response_error().status_code().as_u16();
            Err(error)
        }
    }
}

/// A body that counts the bytes handed to the connection.
struct LoggedBody {
    body: BoxBody,
    record: RequestRecord,
}

impl MessageBody for LoggedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, waker: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_next(waker);
        if let Poll::Ready(Some(Ok(bytes))) = &polled {
            self.record.bytes += bytes.len() as u64;
        }
        polled
    }

    // `try_into_bytes` is not implemented: an implementation would end the record before the bytes have been sent.
}

/// Captures the context and the span of the current request for work on another thread.
pub(crate) fn in_context<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let context = CallContext::current().map(|context| (context, tracing::Span::current()));
    move || {
        let _entered = context.as_ref().map(|(context, span)| (span.enter(), context.begin()));
        // Called in one place, so that it is compiled once.
        work()
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::received_trace;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_one_valid_traceparent_counts() {
        let read = |values: &[&str]| {
            let request = values
                .iter()
                .fold(TestRequest::default(), |request, value| request.append_header(("Traceparent", *value)));
            received_trace(request.to_http_request().headers()).map(|trace| trace.to_string())
        };
        assert_eq!(read(&[TRACE]).as_deref(), Some(TRACE));
        for values in [&[][..], &[""], &["00-x"], &[TRACE, TRACE], &[TRACE, "x"]] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
