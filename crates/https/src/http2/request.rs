//! A request of HTTP/2, as the application expects one of HTTP/1.1.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_http::{Payload, Request, Uri, Version};
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use actix_web::http::{Method, StatusCode};
use bytes::Bytes;
use futures_util::Stream;
use h2::RecvStream;

use super::{ConnectionContext, HEADERS};
use crate::connection_data;

/// Converts a request. Returns a status instead if the application cannot be asked.
pub(super) fn convert(request: http::Request<RecvStream>, context: &ConnectionContext) -> Result<Request, StatusCode> {
    let (parts, body) = request.into_parts();
    // CONNECT has no path. The server is no proxy.
    let target = parts.uri.path_and_query().ok_or(StatusCode::METHOD_NOT_ALLOWED)?;
    let target = target.as_str().parse::<Uri>().map_err(|_| StatusCode::BAD_REQUEST)?;
    let method = Method::from_bytes(parts.method.as_str().as_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    let mut headers = headers(&parts.headers)?;
    set_host(&mut headers, parts.uri.authority())?;
    if !body.is_end_stream() && !headers.contains_key(CONTENT_LENGTH) {
        // A body without a declared length. HTTP/2 does not allow clients to send this header.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let payload: Payload =
        if body.is_end_stream() { Payload::None } else { Payload::Stream { payload: Box::pin(Body(body)) } };
    let mut converted = Request::with_payload(payload);
    let head = converted.head_mut();
    head.uri = target;
    head.method = method;
    head.version = Version::HTTP_2;
    head.headers = headers;
    head.peer_addr = context.peer;
    connection_data::store(context.data.clone(), &converted);
    Ok(converted)
}

/// Copies headers, and joins the parts of `cookie`, which HTTP/2 may send one by one (RFC 9113, section 8.2.3).
fn headers(sent: &http::HeaderMap) -> Result<HeaderMap, StatusCode> {
    if sent.len() > HEADERS {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    let mut headers = HeaderMap::with_capacity(sent.len() + 2);
    let mut cookies = Vec::new();
    for (name, value) in sent {
        if name == http::header::COOKIE {
            if !cookies.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(value.as_bytes());
            continue;
        }
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
        headers.append(name, value_of(value.as_bytes())?);
    }
    if !cookies.is_empty() {
        headers.insert(COOKIE, value_of(&cookies)?);
    }
    Ok(headers)
}

fn value_of(bytes: &[u8]) -> Result<HeaderValue, StatusCode> {
    HeaderValue::from_bytes(bytes).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Makes `host` of the authority. A request that names two hosts is malformed (RFC 9113, section 8.3.1).
fn set_host(headers: &mut HeaderMap, authority: Option<&http::uri::Authority>) -> Result<(), StatusCode> {
    let Some(authority) = authority.map(http::uri::Authority::as_str) else { return Ok(()) };
    let differs = |host: &HeaderValue| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes());
    if authority.contains('@') || headers.get_all(HOST).any(differs) {
        return Err(StatusCode::BAD_REQUEST);
    }
    headers.insert(HOST, value_of(authority.as_bytes())?);
    Ok(())
}

/// A request body. The client may send more as the application reads.
struct Body(RecvStream);

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = match ready!(self.0.poll_data(context)) {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(failed(error)))),
            None => return Poll::Ready(None),
        };
        let released = self.0.flow_control().release_capacity(piece.len());
        Poll::Ready(Some(released.map(|()| piece).map_err(failed)))
    }
}

fn failed(error: h2::Error) -> PayloadError {
    PayloadError::Io(std::io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use actix_web::http::StatusCode;
    use actix_web::http::header::{COOKIE, HOST, HeaderMap};
    use http::HeaderValue;

    use super::{HEADERS, headers, set_host};

    #[test]
    fn cookies_become_one_header_and_others_stay_apart() {
        let mut sent = http::HeaderMap::new();
        for value in ["a=1", "b=2", "c=3"] {
            sent.append("cookie", HeaderValue::from_static(value));
            sent.append("accept", HeaderValue::from_static(value));
        }
        let converted = headers(&sent).unwrap();
        assert_eq!(converted.get_all(COOKIE).collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
        assert_eq!(converted.get_all("accept").count(), 3);
    }

    #[test]
    fn headers_have_the_number_of_http_1() {
        let mut sent = http::HeaderMap::new();
        for number in 0..HEADERS {
            sent.append(http::HeaderName::from_bytes(format!("x-{number}").as_bytes()).unwrap(), HeaderValue::from(0));
        }
        assert!(headers(&sent).is_ok());
        sent.append("x-more", HeaderValue::from(0));
        assert_eq!(headers(&sent).unwrap_err(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }

    #[test]
    fn a_request_names_one_host() {
        let authority = |text: &'static str| http::uri::Authority::from_static(text);
        let mut named = HeaderMap::new();
        set_host(&mut named, Some(&authority("yard.test:8443"))).unwrap();
        assert_eq!(named.get(HOST).unwrap(), "yard.test:8443");
        assert_eq!(set_host(&mut named, Some(&authority("YARD.test:8443"))), Ok(()));
        assert_eq!(set_host(&mut named, Some(&authority("other.test"))), Err(StatusCode::BAD_REQUEST));
        assert_eq!(set_host(&mut HeaderMap::new(), Some(&authority("user@yard.test"))), Err(StatusCode::BAD_REQUEST));
    }
}
