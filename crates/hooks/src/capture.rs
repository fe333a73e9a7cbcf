//! Captures the parts of a response that are kept.

use std::time::{Duration, UNIX_EPOCH};

use branchyard_domain::ports::RetryAfter;
use branchyard_domain::values::Timestamp;
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::{Instant, timeout_at};

/// Maximum number of bytes of headers that are kept.
const HEADER_BYTES: usize = 8 << 10;
/// Bytes of a header line besides its name and value.
const LINE_BYTES: usize = 4;

/// Returns the first headers, with the values of one name joined.
pub(crate) fn headers(map: &HeaderMap) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut bytes = 0;
    for (name, value) in map {
        bytes += name.as_str().len() + value.len() + LINE_BYTES;
        if bytes > HEADER_BYTES {
            break;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        match kept.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, values)) => {
                values.push_str(", ");
                values.push_str(&value);
            }
            None => kept.push((name.as_str().to_owned(), value.into_owned())),
        }
    }
    kept
}

/// Returns the first `limit` bytes of the body that arrive before `deadline`. It does not matter how the body ends.
pub(crate) async fn body(mut response: Response, limit: usize, deadline: Instant) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns when the receiver wants to be retried, from `Retry-After` in seconds or as a date.
pub(crate) fn retry_after(map: &HeaderMap) -> Option<RetryAfter> {
    let text = map.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(RetryAfter::Seconds(text.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Some(RetryAfter::At(Timestamp::from_seconds(i64::try_from(at.as_secs()).unwrap_or(i64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, RETRY_AFTER, RetryAfter, Timestamp, headers, retry_after};
    use reqwest::header::{HeaderName, HeaderValue};

    #[test]
    fn patience_is_asked_for_in_seconds_or_by_date() {
        let of = |text: &str| {
            let mut map = HeaderMap::new();
            map.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
            retry_after(&map)
        };
        assert_eq!(of("120"), Some(RetryAfter::Seconds(120)));
        assert_eq!(of("99999999999999999999999"), Some(RetryAfter::Seconds(u64::MAX)));
        let date = RetryAfter::At(Timestamp::from_seconds(1_767_323_045));
        assert_eq!(of("Fri, 02 Jan 2026 03:04:05 GMT"), Some(date));
        for bad in ["", "-5", "1.5", "soon"] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn headers_are_kept_up_to_a_limit() {
        let mut map = HeaderMap::new();
        map.append("x-a", HeaderValue::from_static("1"));
        map.append("x-b", HeaderValue::from_bytes(b"\xff").unwrap());
        map.append("x-a", HeaderValue::from_static("2"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers(&map), [pair("x-a", "1, 2"), pair("x-b", "\u{fffd}")]);
        let mut map = HeaderMap::new();
        for n in 0..100 {
            let name = HeaderName::from_bytes(format!("x-{n:03}").as_bytes()).unwrap();
            map.append(name, HeaderValue::from_str(&"v".repeat(91)).unwrap());
        }
        // 5 bytes of the name, 91 of the value and 4 around them: 8,192 bytes hold 81 headers.
        assert_eq!(headers(&map).len(), 81);
    }
}
