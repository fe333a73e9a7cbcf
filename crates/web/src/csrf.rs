//! Protection against cross-site request forgery: checks of a form's origin, and a token that is bound to the session.

use std::borrow::Cow;

use actix_web::HttpRequest;
use actix_web::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use branchyard_http_common::AppState;

/// The form field with the token. Scripts may send the header instead.
pub(crate) const FIELD: &str = "csrf";
const HEADER: &str = "x-csrf-token";

/// Returns `true` unless the browser's headers say that another site sent the request.
pub(crate) fn is_from_here(state: &AppState, request: &HttpRequest) -> bool {
    let sent = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    if sent("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return false;
    }
    match sent(header::ORIGIN.as_str()) {
        None => true,
        // Browsers send `null` from sandboxed pages, and from our own pages if the referrer policy hides the origin. The token decides.
        Some("null") => sent("sec-fetch-site") == Some("same-origin"),
        Some(origin) => is_our_origin(state, request, origin),
    }
}

/// Returns `true` for the public origin and for the origin that the browser requested. The two differ behind a proxy, and on a
/// development server without `public_url`.
fn is_our_origin(state: &AppState, request: &HttpRequest, origin: &str) -> bool {
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let named = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    origin.eq_ignore_ascii_case(&state.config.public_url)
        || named.is_some_and(|named| !host.is_empty() && named.eq_ignore_ascii_case(host))
}

/// Returns the token in another spelling each time. A page whose length can be observed after compression thus says nothing about it.
pub(crate) fn masked(token: &str, mask: [u8; 32]) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
    let hidden = bytes.iter().zip(mask).map(|(byte, mask)| byte ^ mask);
    URL_SAFE_NO_PAD.encode(mask.into_iter().chain(hidden).collect::<Vec<_>>())
}

/// Undoes [`masked`]. Returns other tokens as they are.
fn unmasked(token: &str) -> Cow<'_, str> {
    match URL_SAFE_NO_PAD.decode(token) {
        Ok(bytes) if bytes.len() == 64 => {
            let (mask, hidden) = bytes.split_at(32);
            let bytes: Vec<u8> = hidden.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
            Cow::Owned(URL_SAFE_NO_PAD.encode(bytes))
        }
        _ => Cow::Borrowed(token),
    }
}

/// Returns `true` if the form or the request's header contains the token of this browser's secret.
pub(crate) fn has_token(state: &AppState, request: &HttpRequest, secret: &str, field: Option<&str>) -> bool {
    let header = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    field.or(header).is_some_and(|token| is_token(state, secret, token))
}

/// Returns `true` if a script of one of our pages in this browser sent the request.
pub(crate) fn is_of_script(state: &AppState, request: &HttpRequest, secret: &str) -> bool {
    is_from_here(state, request) && has_token(state, request, secret, None)
}

/// Returns `true` if this is the token of a browser's secret, in any spelling.
pub(crate) fn is_token(state: &AppState, secret: &str, token: &str) -> bool {
    state.keys.is_form_token(secret, &unmasked(token))
}

#[cfg(test)]
mod tests {
    use super::{is_from_here, masked, unmasked};
    use actix_web::test::TestRequest;
    use branchyard_http_common::{AppState, HttpConfig, ServerKeys, Services};

    fn check(headers: &[(&str, &str)]) -> bool {
        let config = HttpConfig::new("https://yard.test".to_owned());
        let fakes = branchyard_domain_testing::fakes::hub();
        let state =
            AppState::new(Services::new(fakes.hub, fakes.deployments), config, ServerKeys::from_secret([1; 32]));
        let mut request = TestRequest::post().insert_header(("host", "10.0.0.5:8080"));
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        is_from_here(&state, &request.to_http_request())
    }

    #[test]
    fn a_masked_token_is_the_same_token() {
        let token = ServerKeys::from_secret([1; 32]).form_token("ann's session");
        let masks = [[0; 32], [7; 32], [255; 32]];
        for mask in masks {
            assert_ne!(masked(&token, mask), token);
            assert_eq!(unmasked(&masked(&token, mask)), token);
        }
        assert!(!masked(&token, [7; 32]).contains(&token[..8]));
        assert_eq!((unmasked(&token), unmasked("")), (token.as_str().into(), "".into()));
    }

    #[test]
    fn only_our_own_pages_send_our_forms() {
        assert!(check(&[]), "a client that says nothing; the token decides");
        assert!(check(&[("origin", "https://yard.test"), ("sec-fetch-site", "same-origin")]));
        assert!(check(&[("origin", "http://10.0.0.5:8080")]));
        assert!(check(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        assert!(!check(&[("origin", "null")]));
        assert!(!check(&[("origin", "https://evil.test")]));
        assert!(!check(&[("origin", "https://yard.test.evil.test")]));
        assert!(!check(&[("sec-fetch-site", "cross-site")]));
        assert!(!check(&[("sec-fetch-site", "same-site"), ("origin", "https://yard.test")]));
    }
}
