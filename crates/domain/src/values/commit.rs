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
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
