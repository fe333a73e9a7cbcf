//! The identifiers of applications.

use std::fmt;

use super::Invalid;

/// The client identifier of an application (RFC 6749 §2.2): 1–64 characters of `A-Z`, `a-z`, `0-9`, `-` and `_`. It is public.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationId(String);

impl ApplicationId {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Checks the form of an identifier.
    ///
    /// # Errors
    /// [`Invalid`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if text.is_empty() || text.len() > Self::MAX_BYTES || !text.bytes().all(is_allowed) {
            return Err(Invalid::new("a client id has 1 to 64 characters of A-Z, a-z, 0-9, '-' and '_'"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ApplicationId;

    #[test]
    fn length_and_characters_are_limited() {
        for good in ["d", "dh", "019a-B_c", &"a".repeat(64)] {
            assert_eq!(ApplicationId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "é", "a\0", &"a".repeat(65)] {
            assert!(ApplicationId::parse(bad).is_err(), "{bad}");
        }
    }
}
