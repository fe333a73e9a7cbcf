//! Web addresses.

use super::Invalid;

/// A URL that a page may link to: `https://` or `http://`, printable ASCII without quotes, angle brackets and
/// backslashes, at most 500 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress(String);

impl WebAddress {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 500;

    /// Checks the form of an address.
    ///
    /// # Errors
    /// [`Invalid`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let fit = |rest: &str| {
            !rest.is_empty() && rest.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b"<>\"'`\\".contains(&byte))
        };
        if text.len() > Self::MAX_BYTES || !rest.is_some_and(fit) {
            return Err(Invalid::new(
                "a web address begins with https:// or http://, has no spaces and at most 500 bytes",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address as an owned string.
    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::WebAddress;

    #[test]
    fn only_what_a_browser_may_follow() {
        for good in ["https://a.test", "http://a.test/b?c=d#e", "https://a.test/%20"] {
            assert!(WebAddress::parse(good).is_ok(), "{good}");
        }
        let long = format!("https://{}", "a".repeat(493));
        for bad in ["", "a.test", "https://", "javascript:alert(1)", "https://a b", "https://a\"b", "https://é", &long]
        {
            assert!(WebAddress::parse(bad).is_err(), "{bad}");
        }
        assert!(WebAddress::parse(&long[..500]).is_ok());
    }
}
