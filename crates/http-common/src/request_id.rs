//! Request ids. A suitable id of the client is kept; otherwise the server creates one.

use actix_web::http::header::HeaderMap;
use actix_web::{HttpMessage as _, HttpRequest};
use branchyard_domain::Hub;

const NAME: &str = "x-request-id";

/// The id of a request. It appears in `X-Request-Id`, in problem documents and in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestId(String);

impl RequestId {
    /// Returns the client's id if it has 1 to 128 characters of `[A-Za-z0-9._:-]`.
    pub(crate) fn sent(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(NAME)?.to_str().ok()?;
        let fit = (1..=128).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'));
        fit.then(|| Self(text.to_owned()))
    }

    /// Returns the client's id if it is valid, and otherwise a new one.
    pub fn of(headers: &HeaderMap, hub: &Hub) -> Self {
        Self::sent(headers).unwrap_or_else(|| Self::fresh(hub))
    }

    /// Returns the id that the request was assigned, or else the client's id if it is valid, or else a new one.
    pub fn of_request(request: &HttpRequest, hub: &Hub) -> Self {
        let assigned = request.extensions().get::<Self>().cloned();
        assigned.unwrap_or_else(|| Self::of(request.headers(), hub))
    }

    /// Creates a new id.
    pub(crate) fn fresh(hub: &Hub) -> Self {
        Self(format!("req_{}", hub.fresh_id().hyphenated()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::RequestId;
    use actix_web::test::TestRequest;

    #[test]
    fn only_fit_ids_are_reused() {
        for (text, fit) in [
            ("a", true),
            ("A.z_0:-", true),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
            ("a b", false),
            ("", false),
        ] {
            let request = TestRequest::default().insert_header(("X-Request-Id", text)).to_http_request();
            assert_eq!(RequestId::sent(request.headers()).is_some(), fit, "{text}");
        }
    }
}
