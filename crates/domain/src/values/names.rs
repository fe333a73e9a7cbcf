//! Names that users choose.

use std::fmt;

use super::{CommitHash, CommitPrefix, Invalid};

/// Owner names that would shadow routes or pages.
const RESERVED_OWNERS: &[&str] = &[
    "admin",
    "api",
    "csv",
    "database",
    "deleted-user",
    "deployments",
    "docs",
    "explore",
    "fork",
    "healthz",
    "login",
    "logout",
    "new",
    "oauth",
    "organizations",
    "readyz",
    "repositories",
    "search",
    "settings",
    "sign-in",
    "sign-out",
    "sign-up",
    "static",
    "user",
    "users",
];

fn name_characters(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Returns the name as its creator spelled it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// Name of a user or organization: 3–32 characters of `[A-Za-z0-9_-]`, not starting or ending with `-`. Unique,
    /// compared case-insensitively.
    OwnerName
}
name_type! {
    /// Name of a database: 1–64 characters of `[A-Za-z0-9_-]`, not starting or ending with `-`. Unique per owner,
    /// compared case-insensitively.
    DatabaseName
}
name_type! {
    /// Name of a branch or tag: 1–200 bytes that follow the ref rules of git.
    RefName
}
name_type! {
    /// Name of a table that an import may write: 1–128 bytes, without NUL, not `sqlite_*` or `dolt_*`.
    TableName
}

impl OwnerName {
    /// Parses a name. Accepts reserved names, because a name may have become reserved after it was taken.
    ///
    /// # Errors
    /// [`Invalid`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if !(3..=32).contains(&text.len()) || !name_characters(text) {
            return Err(Invalid::new(
                "an owner name is 3 to 32 characters of A-Z, a-z, 0-9, _ and -, and neither starts nor ends with -",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the lower-case form, which look-ups and uniqueness use.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Returns the name that stands for users whose personal data was erased. It is reserved.
    #[must_use]
    pub fn deleted_user() -> Self {
        Self("deleted-user".to_owned())
    }

    /// Returns `true` if the name would shadow a route or a page. Such names cannot be registered.
    pub fn is_reserved(&self) -> bool {
        RESERVED_OWNERS.contains(&self.key().as_str())
    }
}

impl DatabaseName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`Invalid`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if !(1..=64).contains(&text.len()) || !name_characters(text) {
            return Err(Invalid::new(
                "a database name is 1 to 64 characters of A-Z, a-z, 0-9, _ and -, and neither starts nor ends with -",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the lower-case form, which look-ups and uniqueness use.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl RefName {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Parses a name by the ref rules of git (`git help check-ref-format`). Also rejects `HEAD`, a leading `-`, and 40
    /// hex digits.
    ///
    /// # Errors
    /// [`Invalid`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |why: &str| Err(Invalid::new(format!("a branch or tag name {why}")));
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return refuse("has 1 to 200 bytes");
        }
        if text.chars().any(|c| c.is_control() || " ~^:?*[\\".contains(c)) {
            return refuse("holds no control character, space, ~ ^ : ? * [ or \\");
        }
        if text.contains("..") || text.contains("@{") || text.contains("//") {
            return refuse("holds no '..', '@{' or '//'");
        }
        if text.starts_with('/') || text.ends_with('/') || text.ends_with('.') || text.starts_with('-') {
            return refuse("does not start with '/' or '-', nor end with '/' or '.'");
        }
        if text.split('/').any(|part| part.starts_with('.') || part.ends_with(".lock")) {
            return refuse("has no part that starts with '.' or ends with '.lock'");
        }
        if text == "@" || text == "HEAD" || CommitHash::looks_like(text) {
            return refuse("is not '@', 'HEAD' or 40 hex digits");
        }
        Ok(Self(text.to_owned()))
    }
}

impl TableName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`Invalid`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > 128 || text.contains('\0') {
            return Err(Invalid::new("a table name has 1 to 128 bytes and no NUL"));
        }
        let lower = text.to_ascii_lowercase();
        if lower.starts_with("sqlite_") || lower.starts_with("dolt_") {
            return Err(Invalid::new("table names that start with sqlite_ or dolt_ are reserved"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A starting point: a branch or a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// The head of the branch with this name. The text need not be a valid branch name; no such branch exists then.
    Branch(String),
    /// The commit whose hash begins with these digits.
    Commit(CommitPrefix),
}
