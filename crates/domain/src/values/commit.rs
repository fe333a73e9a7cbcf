//! Commit hashes.

use std::fmt;

use super::Invalid;

/// The identity of a commit in the engine: 40 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitHash(String);

impl CommitHash {
    /// Returns `true` if a text has the form of a commit hash, in any letter case.
    pub fn looks_like(text: &str) -> bool {
        text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
    }

    /// Parses 40 hex digits and converts them to lower case.
    ///
    /// # Errors
    /// [`Invalid`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if Self::looks_like(text) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(Invalid::new("a commit is named by exactly 40 hex digits"))
        }
    }

    /// Returns the 40 lower-case hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hash with these bytes.
    pub(super) fn of_bytes(bytes: &[u8; 20]) -> Self {
        let digit = |value: u8| char::from(value + if value < 10 { b'0' } else { b'a' - 10 });
        Self(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect())
    }

    /// Returns the 20 bytes of the hash.
    pub(super) fn to_bytes(&self) -> [u8; 20] {
        let value = |digit: u8| if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
        let mut bytes = [0; 20];
        for (byte, digits) in bytes.iter_mut().zip(self.0.as_bytes().as_chunks::<2>().0) {
            *byte = value(digits[0]) << 4 | value(digits[1]);
        }
        bytes
    }
}

/// The first digits of a commit hash, at least seven, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitPrefix(String);

impl CommitPrefix {
    /// The least number of digits.
    pub const MIN_DIGITS: usize = 7;

    /// Parses 7 to 40 hex digits and converts them to lower case.
    ///
    /// # Errors
    /// [`Invalid`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if (Self::MIN_DIGITS..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(Invalid::new("a commit is named by 7 to 40 hex digits"))
        }
    }

    /// Returns the hash if all of its digits are given.
    pub fn whole(&self) -> Option<CommitHash> {
        CommitHash::parse(&self.0).ok()
    }

    /// Returns `true` if the hash begins with these digits.
    pub fn begins(&self, hash: &CommitHash) -> bool {
        hash.as_str().starts_with(&self.0)
    }

    /// Returns the lower-case hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<CommitHash> for CommitPrefix {
    fn from(hash: CommitHash) -> Self {
        Self(hash.0)
    }
}

impl fmt::Display for CommitPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
