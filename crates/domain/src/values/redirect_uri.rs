//! Redirect URIs of applications (RFC 6749 §3.1.2).

use super::Invalid;

/// The URI at which an application receives the answer of its user: `https://` with any host, or `http://` with a loopback host
/// (`localhost`, `127.0.0.1` or `[::1]`, RFC 8252 §7.3), for applications that listen on the machine of their user.
///
/// It has at most 500 bytes of printable ASCII, no fragment (RFC 6749 §3.1.2), and no user name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectUri(String);

/// The parts of a URI whose host is a loopback address.
struct Loopback<'a> {
    scheme: &'a str,
    host: &'a str,
    /// The path with the query, and what else follows the port.
    rest: &'a str,
}

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl RedirectUri {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 500;

    /// Checks the form of a URI.
    ///
    /// # Errors
    /// [`Invalid`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > Self::MAX_BYTES {
            return Err(Invalid::new("a redirect URI has at most 500 bytes"));
        }
        if !text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b"<>\"'`\\^{|}".contains(&byte)) {
            return Err(Invalid::new(
                "a redirect URI has no spaces, quotes or other characters that a URI cannot have",
            ));
        }
        if text.contains('#') {
            return Err(Invalid::new("a redirect URI has no fragment"));
        }
        let Some((scheme, authority, _)) = parts(text) else {
            return Err(Invalid::new("a redirect URI begins with https://, or with http:// and a loopback host"));
        };
        let is_host = |host: &str| {
            let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            let address = |inner: &str| inner.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
            match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
                Some(inner) => !inner.is_empty() && address(inner),
                None => !host.is_empty() && host.bytes().all(name),
            }
        };
        let host = host_of(authority).filter(|host| is_host(host));
        let Some(host) = host else {
            return Err(Invalid::new("a redirect URI has a host, a valid port if any, and no user name"));
        };
        if scheme == "http" && !LOOPBACK_HOSTS.contains(&host) {
            return Err(Invalid::new("a redirect URI begins with https://, except on localhost, 127.0.0.1 and [::1]"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns `true` if a request may name `asked` where this URI is registered: if both are the same, character by character, or
    /// differ in nothing but the port of a loopback host, which an application learns only when it listens (RFC 8252 §7.3).
    pub fn admits(&self, asked: &Self) -> bool {
        if self == asked {
            return true;
        }
        match (self.loopback(), asked.loopback()) {
            (Some(one), Some(other)) => one.scheme == other.scheme && one.host == other.host && one.rest == other.rest,
            _ => false,
        }
    }

    fn loopback(&self) -> Option<Loopback<'_>> {
        let (scheme, authority, rest) = parts(&self.0)?;
        let host = host_of(authority)?;
        LOOPBACK_HOSTS.contains(&host).then_some(Loopback { scheme, host, rest })
    }

    /// Returns `true` if the host is a loopback address, so that the machine of the user receives the answer.
    pub fn is_loopback(&self) -> bool {
        self.loopback().is_some()
    }

    /// Returns the scheme, host and port, to which a browser is sent.
    pub fn origin(&self) -> &str {
        let end = parts(&self.0).map_or(0, |(_, _, rest)| rest.len());
        &self.0[..self.0.len() - end]
    }

    /// Returns the URI with parameters added to its query, which are percent-encoded already.
    #[must_use]
    pub fn with_query(&self, parameters: &str) -> String {
        let joint = match self.0.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        format!("{}{joint}{parameters}", self.0)
    }

    /// Returns the URI.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the scheme, the authority, and all that follows, if the scheme is one that redirect URIs may have.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (scheme, after) = text.split_once("://").filter(|(scheme, _)| ["https", "http"].contains(scheme))?;
    let end = after.find(['/', '?']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    Some((scheme, authority, rest))
}

/// Returns the host of an authority, unless its port is not a number from 1 to 65535.
fn host_of(authority: &str) -> Option<&str> {
    let bracket = authority.rfind(']').map_or(0, |at| at + 1);
    match authority.get(bracket..)?.split_once(':') {
        None => Some(authority),
        Some((before, port)) => {
            let is_port =
                port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
            is_port.then(|| &authority[..bracket + before.len()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RedirectUri;

    fn uri(text: &str) -> RedirectUri {
        RedirectUri::parse(text).unwrap()
    }

    #[test]
    fn only_https_and_loopback_hosts() {
        let long = format!("https://a.test/{}", "a".repeat(486));
        for good in [
            "https://app.test",
            "https://app.test/",
            "https://app.test:8443/callback?kind=yard",
            "https://[2001:db8::1]/callback",
            "http://localhost/callback",
            "http://localhost:53682/callback",
            "http://127.0.0.1:1/",
            "http://[::1]:65535",
            &long[..500],
        ] {
            assert!(RedirectUri::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "callback",
            "//app.test/callback",
            "app.test/callback",
            "http://app.test/callback",
            "http://localhost.app.test/callback",
            "http://127.0.0.2/callback",
            "https://",
            "https:///callback",
            "https://?a",
            "https://app.test/#fragment",
            "https://user@app.test/",
            "https://localhost:x/",
            "https://app.test:0/",
            "https://app.test:65536/",
            "https://app.test:/",
            "https://[]/",
            "https://[::1/",
            "https://app.test/a b",
            "https://app.test\\@evil.test/",
            "https://app.test/é",
            "https://app.test/\r\nset-cookie:a=b",
            "HTTPS://app.test/",
            "javascript:alert(1)",
            "data:text/html,a",
            "app://callback",
            &long,
        ] {
            assert!(RedirectUri::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_but_the_port_of_a_loopback_host_may_differ() {
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            let registered = uri(&format!("http://{host}/callback"));
            assert!(registered.admits(&uri(&format!("http://{host}:53682/callback"))), "{host}");
            assert!(uri(&format!("http://{host}:1/callback")).admits(&uri(&format!("http://{host}:2/callback"))));
            for other in ["", "/", "/callback/", "/callback?a=b", "/Callback", "/callback/../callback"] {
                assert!(!registered.admits(&uri(&format!("http://{host}:53682{other}"))), "{host}{other}");
            }
            assert!(!registered.admits(&uri(&format!("https://{host}/callback"))));
        }
        assert!(!uri("http://localhost/callback").admits(&uri("http://127.0.0.1/callback")));
        let registered = uri("https://app.test/callback");
        assert!(registered.admits(&registered));
        for other in [
            "https://app.test:8443/callback",
            "https://app.test:443/callback",
            "https://app.test/callback/",
            "https://app.test/callback?a=b",
            "https://App.test/callback",
            "https://app.test.evil.test/callback",
            "https://evil.test/callback",
        ] {
            assert!(!registered.admits(&uri(other)), "{other}");
        }
    }

    #[test]
    fn parameters_follow_those_that_are_there() {
        assert_eq!(uri("https://a.test").with_query("b=c"), "https://a.test?b=c");
        assert_eq!(uri("https://a.test/?").with_query("b=c"), "https://a.test/?b=c");
        assert_eq!(uri("https://a.test/?d=e").with_query("b=c"), "https://a.test/?d=e&b=c");
        assert_eq!(uri("http://localhost:5/a?b").origin(), "http://localhost:5");
        assert_eq!(uri("https://a.test").origin(), "https://a.test");
        assert!(uri("http://[::1]:5").is_loopback() && !uri("https://localhost.test").is_loopback());
    }
}
