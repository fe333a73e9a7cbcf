//! Metrics of HTTP requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, web};
use branchyard_api_remotes::RemoteEndpoint;
use branchyard_http_common::{NO_ROUTE, RoutePattern};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::{Histograms, Labels, Metrics, seconds};

const APIS: [&str; 5] = ["v2", "v1alpha1", "hosted-v1", "remotes", "pages"];

/// Metrics of requests and refused connections.
pub(crate) struct RequestMetrics {
    requests: Family<Labels<4>, Counter>,
    duration: Histograms<2>,
    rate_limited: Family<Labels<1>, Counter>,
    auth_failures: Family<Labels<1>, Counter>,
    connections_refused: Counter,
}

impl RequestMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(seconds),
            rate_limited: Family::default(),
            auth_failures: Family::default(),
            connections_refused: Counter::default(),
        };
        // Creates the series, so that counters start at 0 instead of being absent.
        for api in APIS {
            drop(made.rate_limited.get_or_create(&[("api", api.to_owned())]));
            drop(made.auth_failures.get_or_create(&[("api", api.to_owned())]));
        }
        registry.register("http_requests", "Requests answered", made.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from the head of a request to the head of its answer",
            Unit::Seconds,
            made.duration.clone(),
        );
        registry.register("http_rate_limited", "Requests answered 429", made.rate_limited.clone());
        registry.register("http_auth_failures", "Requests answered 401", made.auth_failures.clone());
        let (name, help) = ("http_connections_refused", "Connections above the limit of their address");
        registry.register(name, help, made.connections_refused.clone());
        made
    }

    pub(crate) fn connection_refused(&self) {
        self.connections_refused.inc();
    }

    fn answered(&self, api: &str, method: &str, route: &str, status: StatusCode, took: Duration) {
        let api = || ("api", api.to_owned());
        let route = || ("route", route.to_owned());
        let labels = [api(), ("method", method.to_owned()), route(), ("status", status.as_str().to_owned())];
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&[api(), route()]).observe(took.as_secs_f64());
        match status {
            StatusCode::TOO_MANY_REQUESTS => drop(self.rate_limited.get_or_create(&[api()]).inc()),
            StatusCode::UNAUTHORIZED => drop(self.auth_failures.get_or_create(&[api()]).inc()),
            _ => {}
        }
    }
}

/// Counts a request by its route template, which contains no user data.
pub(crate) async fn count(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let metrics = request.app_data::<web::Data<Arc<Metrics>>>().cloned();
    let (api, method, began) = (api(request.path()), method_word(request.method()), Instant::now());
    let answer = next.call(request).await;
    let (route, status) = match &answer {
        Ok(answer) => (Some(RoutePattern::of(answer.request(), answer.status())), answer.status()),
        Err(error) => (None, error.as_response_error().status_code()),
    };
    if let Some(metrics) = metrics {
        let route = route.as_ref().map_or(NO_ROUTE, RoutePattern::as_str);
        metrics.requests.answered(api, method, route, status, began.elapsed());
    }
    answer
}

fn api(path: &str) -> &'static str {
    match path.strip_prefix("/api/").and_then(|below| below.split('/').next()) {
        Some("v2") => "v2",
        Some("v1alpha1") => "v1alpha1",
        Some("v1") => "hosted-v1",
        _ if is_remote(path) => "remotes",
        _ => "pages",
    }
}

fn is_remote(path: &str) -> bool {
    let mut segments = path.split('/').skip(3);
    let endpoint = segments.next().unwrap_or_default();
    segments.next().is_none() && RemoteEndpoint::ALL.iter().any(|known| known.name() == endpoint)
}

/// Returns the word for a method, in metrics and in the log. Unknown methods share one label, because clients can send arbitrary method names.
pub(crate) fn method_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
