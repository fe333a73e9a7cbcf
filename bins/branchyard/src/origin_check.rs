//! Warns when requests come to another origin than `public_url`. Addresses in answers begin with `public_url`, and clients refuse
//! to follow addresses of another origin.

use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web::Data;
use branchyard_api_remotes::RemoteEndpoint;
use branchyard_http_common::{Proxies, RequestOrigin};

/// The health endpoints, which monitoring asks at any address of the server.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// The origins that a server names in its answers, and whether it has warned about another one.
pub(crate) struct OriginCheck {
    public_url: String,
    known: Vec<RequestOrigin>,
    /// The scheme of the listener.
    scheme: &'static str,
    proxies: Proxies,
    has_warned: AtomicBool,
}

impl OriginCheck {
    /// Creates a check for a listener of `scheme` that accepts requests to `public_url` and to `hosted_url`.
    pub(crate) fn new(public_url: &str, hosted_url: &str, scheme: &'static str, proxies: Proxies) -> Self {
        let known = [public_url, hosted_url].into_iter().filter_map(RequestOrigin::of_url).collect();
        Self { public_url: public_url.to_owned(), known, scheme, proxies, has_warned: AtomicBool::new(false) }
    }

    /// Returns the origin of a request if the server is to warn about it, which happens once.
    fn unexpected(&self, request: &ServiceRequest) -> Option<RequestOrigin> {
        if self.has_warned.load(Ordering::Relaxed) || HEALTH.contains(&request.path()) || is_of_remotes(request.path())
        {
            return None;
        }
        let origin = RequestOrigin::of_request(request, self.scheme, &self.proxies)
            .filter(|origin| !self.known.contains(origin))?;
        (!self.has_warned.swap(true, Ordering::Relaxed)).then_some(origin)
    }

    fn warn(&self, origin: &RequestOrigin) {
        let behind_a_proxy = self.known.iter().any(|known| known.has_other_scheme(origin));
        let advice = if behind_a_proxy {
            "if a proxy provides TLS, list it in http.trusted_proxies and let it send X-Forwarded-Proto"
        } else {
            "set public_url to the origin that clients use, and let a proxy pass the Host header on"
        };
        tracing::warn!(
            public_url = self.public_url,
            %origin,
            "requests come to another origin than public_url, and clients refuse addresses of another origin; {advice}"
        );
    }
}

/// Returns `true` for an address of remotes: their clients leave the port out of `Host`.
fn is_of_remotes(path: &str) -> bool {
    let last = path.rsplit('/').next();
    RemoteEndpoint::ALL.iter().any(|endpoint| last == Some(endpoint.name()))
}

/// Middleware that warns once about a request to an unexpected origin.
///
/// # Errors
/// Forwards the errors of the inner service.
pub(crate) async fn check(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    if let Some(check) = request.app_data::<Data<OriginCheck>>()
        && let Some(origin) = check.unexpected(&request)
    {
        check.warn(&origin);
    }
    next.call(request).await
}

#[cfg(test)]
mod tests {
    use super::OriginCheck;
    use actix_web::test::TestRequest;
    use branchyard_http_common::Proxies;

    fn seen(check: &OriginCheck, host: &str, path: &str) -> Option<String> {
        let request = TestRequest::with_uri(path).insert_header(("Host", host)).to_srv_request();
        check.unexpected(&request).map(|origin| origin.to_string())
    }

    #[test]
    fn the_first_request_to_another_origin_is_reported_and_no_further_one() {
        let check = OriginCheck::new("http://yard.test", "http://deployments.test:8080", "http", Proxies::default());
        assert_eq!(seen(&check, "yard.test", "/"), None);
        assert_eq!(seen(&check, "YARD.test:80", "/api/v2/user"), None);
        assert_eq!(seen(&check, "deployments.test:8080", "/api/v1/user"), None);
        assert_eq!(seen(&check, "127.0.0.1:8080", "/healthz"), None);
        assert_eq!(seen(&check, "127.0.0.1:8080", "/readyz"), None);
        assert_eq!(seen(&check, "deployments.test", "/ana/trees/refs"), None);
        assert_eq!(seen(&check, "127.0.0.1:8080", "/api/v2/user").as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(seen(&check, "127.0.0.1:8080", "/api/v2/user"), None);
        assert_eq!(seen(&check, "other.test", "/"), None);
    }
}
