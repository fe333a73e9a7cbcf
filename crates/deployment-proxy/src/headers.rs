//! Which headers pass from one connection to the other.

/// Headers that belong to one connection, not to the message (RFC 9110 §7.6.1 and §11.7). `Trailer` is among them because
/// trailers are not passed on, `Content-Length` because the framing of each connection is its own.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns the lowercase names that `Connection` headers nominate: they belong to the connection as well (RFC 9110
/// §7.6.1).
pub(crate) fn nominated_headers<'a>(connection: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let values = connection.map(|value| String::from_utf8_lossy(value).to_ascii_lowercase());
    values.flat_map(|value| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()).collect()
}

/// Returns `true` if a header with this lowercase name is part of the message. The `Authorization` header always is,
/// even if the client nominates it: without it, the instance would respond to another caller.
pub(crate) fn is_end_to_end(name: &str, nominated: &[String]) -> bool {
    let belongs_to_connection = HOP_BY_HOP.contains(&name) || nominated.iter().any(|known| known == name);
    name == "authorization" || !belongs_to_connection
}

#[cfg(test)]
mod tests {
    use super::{HOP_BY_HOP, is_end_to_end, nominated_headers};

    #[test]
    fn headers_of_the_connection_are_not_passed_on() {
        let sent: [&[u8]; 2] = [b"close, X-Trace", b"  Keep-Alive ,authorization,"];
        let nominated = nominated_headers(sent.into_iter());
        for name in ["x-trace", "close"].iter().chain(HOP_BY_HOP) {
            assert!(!is_end_to_end(name, &nominated), "{name}");
        }
        for name in ["content-type", "x-request-id", "authorization"] {
            assert!(is_end_to_end(name, &nominated), "{name}");
        }
    }
}
