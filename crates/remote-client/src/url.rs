//! Addresses of databases, as DoltLite's clients take them.

use url::{Host, Url};

/// Maximum length of an address, in bytes.
const LONGEST: usize = 2_048;

/// The address of a database on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    text: String,
    url: Url,
}

/// Why a text is no address. The messages are for the one who entered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotARemote(&'static str);

impl RemoteUrl {
    /// Parses an address. A slash at its end is dropped.
    ///
    /// # Errors
    /// [`NotARemote`] unless it is an `http` or `https` URL with a name or an IPv4 address and a path, and without a user, a query
    /// and a fragment.
    pub fn parse(text: &str) -> Result<Self, NotARemote> {
        if text.len() > LONGEST {
            return Err(NotARemote("must not be longer than 2,048 bytes"));
        }
        let absolute = NotARemote("must be an absolute URL, such as https://yard.example/ana/trees");
        let mut url = Url::parse(text).map_err(|_| absolute)?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(absolute);
        }
        match url.host() {
            Some(Host::Domain(_) | Host::Ipv4(_)) => {}
            Some(Host::Ipv6(_)) => return Err(NotARemote("must not have an IPv6 address; give the server a name")),
            None => return Err(absolute),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NotARemote("must not hold a user name or password; register a key instead"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(NotARemote("must not have a query (?…) or a fragment (#…)"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.is_empty() {
            return Err(NotARemote("must name a database, as in https://yard.example/ana/trees"));
        }
        url.set_path(&path);
        Ok(Self { text: url.as_str().to_owned(), url })
    }

    /// Returns the address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the address as a URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the host without its port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns `true` if requests are encrypted. Credentials are sent only then.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the last part of the path, which names the database.
    #[must_use]
    pub fn name(&self) -> &str {
        self.url.path().rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn endpoint(&self, name: &str) -> String {
        format!("{}/{name}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_clients_take_them() {
        for (text, expected) in [
            ("https://yard.example/ana/trees", Some("https://yard.example/ana/trees")),
            ("https://yard.example/ana/trees//", Some("https://yard.example/ana/trees")),
            ("http://10.0.0.1:8080/base/ana/trees", Some("http://10.0.0.1:8080/base/ana/trees")),
            ("https://Yard.Example:443/ana/trees", Some("https://yard.example/ana/trees")),
            ("https://[::1]/ana/trees", None),
            ("https://yard.example", None),
            ("https://yard.example/", None),
            ("https://ana@yard.example/ana/trees", None),
            ("https://ana:x@yard.example/ana/trees", None),
            ("https://yard.example/ana/trees?a=b", None),
            ("https://yard.example/ana/trees#main", None),
            ("ftp://yard.example/ana/trees", None),
            ("file:///ana/trees", None),
            ("yard.example/ana/trees", None),
            ("", None),
        ] {
            assert_eq!(RemoteUrl::parse(text).ok().as_ref().map(RemoteUrl::as_str), expected, "{text}");
        }
        let long = |length| RemoteUrl::parse(&format!("https://yard.example/{}", "a".repeat(length))).is_ok();
        assert!(long(2_048 - 21) && !long(2_048 - 20));
    }
}
