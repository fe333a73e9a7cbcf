//! Email addresses.

use super::Invalid;

/// An email address that is fit for a commit: something on both sides of a single `@`, without characters that would
/// break the line of a signature. At most 254 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailAddress(String);

impl EmailAddress {
    /// The maximum length in bytes (RFC 5321).
    pub const MAX_BYTES: usize = 254;

    /// Checks the form of an address. Does not check that the address receives mail.
    ///
    /// # Errors
    /// [`Invalid`] naming the rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let broken = |c: char| c.is_whitespace() || c.is_control() || c == '<' || c == '>';
        let whole = |(name, host): (&str, &str)| !name.is_empty() && !host.is_empty() && !host.contains('@');
        if text.len() > Self::MAX_BYTES || text.contains(broken) || !text.split_once('@').is_some_and(whole) {
            return Err(Invalid::new("an email address is name@host, at most 254 bytes, without spaces, < and >"));
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
    use super::EmailAddress;

    #[test]
    fn a_name_and_a_host_are_wanted() {
        let longest = format!("{}@example.test", "a".repeat(254 - "@example.test".len()));
        for good in ["a@b", "ann.lee+x@example.test", longest.as_str()] {
            assert!(EmailAddress::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\n", "<a@b>", &format!("a{longest}")] {
            assert!(EmailAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
