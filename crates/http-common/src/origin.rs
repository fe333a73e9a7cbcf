//! The origin that a client sent its request to, as far as the server can tell.

use std::net::IpAddr;

use actix_web::dev::ServiceRequest;
use actix_web::http::Uri;
use actix_web::http::header::{self, HeaderMap};

use crate::config::{ForwardedHeader, Proxies};

/// Longest authority that is read, in bytes. Host names have at most 253.
const LONGEST: usize = 300;

/// Scheme and authority of an address.
#[derive(Debug, Clone)]
pub struct RequestOrigin {
    scheme: String,
    authority: String,
}

/// Origins are equal if scheme, host and port are. The default port of the scheme may be left out.
impl PartialEq for RequestOrigin {
    fn eq(&self, other: &Self) -> bool {
        self.scheme.eq_ignore_ascii_case(&other.scheme)
            && self.host_and_port().eq_ignore_ascii_case(other.host_and_port())
    }
}

impl std::fmt::Display for RequestOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl RequestOrigin {
    /// Returns the origin of an absolute URL.
    pub fn of_url(url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        Some(Self { scheme: url.scheme_str()?.to_owned(), authority: url.authority()?.as_str().to_owned() })
    }

    /// Returns the origin of a request: its `Host`, and the scheme that a trusted proxy reports or else `own`, that of the server.
    /// `None` if the request has no host, or one that is too long to be a name.
    pub fn of_request(request: &ServiceRequest, own: &str, proxies: &Proxies) -> Option<Self> {
        let head = request.head();
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| head.uri.authority().map(|authority| authority.as_str()));
        let authority = host.filter(|host| host.len() <= LONGEST)?.to_owned();
        let is_trusted = |peer: IpAddr| proxies.trust(peer.to_canonical());
        let reported = head.peer_addr.filter(|peer| is_trusted(peer.ip()));
        let reported = reported.and_then(|_| reported_scheme(request.headers(), proxies.header));
        Some(Self { scheme: reported.unwrap_or_else(|| own.to_owned()), authority })
    }

    /// Returns `true` if the origins differ in nothing but the scheme.
    pub fn has_other_scheme(&self, other: &Self) -> bool {
        self != other && Self { scheme: other.scheme.clone(), ..self.clone() } == *other
    }

    fn host_and_port(&self) -> &str {
        let default = if self.scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        self.authority.strip_suffix(default).unwrap_or(&self.authority)
    }
}

/// Returns the scheme that the nearest proxy reports in its header, which is the last one listed.
fn reported_scheme(headers: &HeaderMap, header: ForwardedHeader) -> Option<String> {
    let last = |name: &str| {
        let line = headers.get_all(name).last()?.to_str().ok()?;
        line.rsplit(',').next().map(|entry| entry.trim().to_owned())
    };
    match header {
        ForwardedHeader::XForwardedFor => last("x-forwarded-proto").filter(|scheme| !scheme.is_empty()),
        ForwardedHeader::Forwarded => {
            let entry = last("forwarded")?;
            let pairs = entry.split(';').filter_map(|pair| pair.split_once('='));
            let mut schemes = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("proto"));
            schemes.next().map(|(_, scheme)| scheme.trim().trim_matches('"').to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RequestOrigin;
    use crate::config::{ForwardedHeader, Proxies};
    use actix_web::test::TestRequest;

    fn url(text: &str) -> RequestOrigin {
        RequestOrigin::of_url(text).unwrap()
    }

    #[test]
    fn the_default_port_and_the_case_of_letters_do_not_matter() {
        assert_eq!(url("https://yard.test"), url("HTTPS://Yard.Test:443"));
        assert_eq!(url("http://yard.test:80"), url("http://yard.test"));
        assert_eq!(url("http://[::1]:80"), url("http://[::1]"));
        for other in ["http://yard.test", "https://yard.test:8080", "https://yard.test.", "https://www.yard.test"] {
            assert_ne!(url("https://yard.test"), url(other), "{other}");
        }
        assert!(url("https://yard.test").has_other_scheme(&url("http://yard.test")));
        assert!(!url("https://yard.test").has_other_scheme(&url("https://yard.test")));
        assert!(!url("https://yard.test").has_other_scheme(&url("http://other.test")));
        for none in ["yard.test", "/path", ""] {
            assert!(RequestOrigin::of_url(none).is_none(), "{none}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_is_asked_for_the_scheme() {
        let trusting = |header| Proxies { trusted: vec!["10.0.0.0/8".parse().unwrap()], header };
        let seen = |peer: &str, header, sent: &[(&str, &str)]| {
            let mut request = TestRequest::default().insert_header(("Host", "yard.test"));
            for (name, value) in sent {
                request = request.append_header((*name, *value));
            }
            let request = request.peer_addr(peer.parse().unwrap()).to_srv_request();
            RequestOrigin::of_request(&request, "http", &trusting(header)).unwrap().to_string()
        };
        let x = |peer, sent: &[(&str, &str)]| seen(peer, ForwardedHeader::XForwardedFor, sent);
        assert_eq!(x("10.0.0.1:5", &[("X-Forwarded-Proto", "https")]), "https://yard.test");
        assert_eq!(x("192.0.2.1:5", &[("X-Forwarded-Proto", "https")]), "http://yard.test");
        assert_eq!(
            x("10.0.0.1:5", &[("X-Forwarded-Proto", "http"), ("X-Forwarded-Proto", "http, https")]),
            "https://yard.test"
        );
        assert_eq!(x("10.0.0.1:5", &[("Forwarded", "proto=https")]), "http://yard.test");
        let standard = |sent: &[(&str, &str)]| seen("10.0.0.1:5", ForwardedHeader::Forwarded, sent);
        assert_eq!(
            standard(&[("Forwarded", "for=192.0.2.7;proto=http, for=192.0.2.8;Proto=\"https\"")]),
            "https://yard.test"
        );
        assert_eq!(standard(&[("X-Forwarded-Proto", "https")]), "http://yard.test");
        let named = |length: usize| {
            let request = TestRequest::default().insert_header(("Host", "x".repeat(length))).to_srv_request();
            RequestOrigin::of_request(&request, "http", &Proxies::default())
        };
        assert!(named(300).is_some() && named(301).is_none());
    }
}
