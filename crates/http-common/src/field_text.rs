//! Types of text fields: their parsers, and their rules as JSON schemas.

use std::fmt::Display;

use branchyard_domain::values::{
    CommitHash, CommitPrefix, DatabaseName, Description, DisplayName, Invalid, LongText, OwnerName, PublicKey,
    PublicKeyFormatError, RefName, Timestamp, Title, TokenName,
};
use chrono::DateTime;
use serde_json::{Value, json};

/// Pattern of a commit hash: 40 lowercase hexadecimal digits.
pub const HASH_PATTERN: &str = "^[0-9a-f]{40}$";
/// Pattern of a commit hash in a request: 40 hexadecimal digits in any letter case.
const ANY_CASE_HASH_PATTERN: &str = "^[0-9A-Fa-f]{40}$";
/// Pattern of a commit in a request: the first 7 or more of its 40 hexadecimal digits, in any letter case.
const COMMIT_PATTERN: &str = "^[0-9A-Fa-f]{7,40}$";
/// Pattern of a text without NUL. No text of a request may contain NUL.
pub const NO_NUL_PATTERN: &str = r"^[^\u0000]*$";
/// Pattern of a text without NUL that has at least one character other than whitespace.
pub const NOT_BLANK_PATTERN: &str = r"^[^\u0000]*[^\u0000\s][^\u0000]*$";
/// Pattern of a ref name: the rules of `git check-ref-format`, and three of Branchyard: no leading `-` (which a command would
/// read as an option), not `@` or `HEAD`, and not a commit hash.
const REF_PATTERN: &str = r"^(?!-|/|\.|@$|HEAD$|[0-9A-Fa-f]{40}$)(?!.*(\.\.|@\{|//|/\.|\.lock/|\.lock$|/$|\.$))[^\u0000-\u0020\u007f-\u009f~^:?*\[\\]+$";
/// Pattern of the names of owners and databases.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$";

/// A type that a string field of a request body is parsed into.
pub trait FieldText: Sized {
    /// The parse error. Its text becomes the `detail` of the field's error.
    type Error: Display;

    /// Parses a text.
    ///
    /// # Errors
    /// Returns the rule that the text breaks.
    fn parse(text: &str) -> Result<Self, Self::Error>;

    /// Returns the rules as a JSON schema.
    fn schema() -> Value;
}

impl FieldText for PublicKey {
    type Error = PublicKeyFormatError;

    fn parse(text: &str) -> Result<Self, PublicKeyFormatError> {
        Self::parse(text)
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^[0-9a-v]{51}[0g]$", "description": "As the client prints it."})
    }
}

/// The format of a time is not one.
#[derive(Debug, thiserror::Error)]
#[error("must be a time with an offset, such as 2026-09-04T12:00:00Z (RFC 3339)")]
pub struct TimeFormatError;

impl FieldText for Timestamp {
    type Error = TimeFormatError;

    fn parse(text: &str) -> Result<Self, TimeFormatError> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| TimeFormatError)?;
        Ok(Self::from_micros(time.timestamp_micros()))
    }

    fn schema() -> Value {
        json!({"type": "string", "format": "date-time"})
    }
}

macro_rules! field_texts {
    ($($name:ident: $schema:tt;)+) => {$(
        impl FieldText for $name {
            type Error = Invalid;

            fn parse(text: &str) -> Result<Self, Invalid> {
                Self::parse(text)
            }

            fn schema() -> Value {
                let mut schema = json!($schema);
                schema["type"] = "string".into();
                schema
            }
        }
    )+};
}

field_texts! {
    Title: {"minLength": 1, "maxLength": Title::MAX, "pattern": NOT_BLANK_PATTERN, "description": "Not blank."};
    TokenName: {"minLength": 1, "maxLength": TokenName::MAX, "pattern": NOT_BLANK_PATTERN, "description": "Not blank."};
    DisplayName: {"maxLength": DisplayName::MAX};
    Description: {"maxLength": Description::MAX, "description": "At most 4,096 bytes."};
    LongText: {"maxLength": LongText::MAX, "description": "At most 65,536 bytes."};
    OwnerName: {"minLength": 3, "maxLength": 32, "pattern": NAME_PATTERN, "description": "User or organization."};
    DatabaseName: {"minLength": 1, "maxLength": 64, "pattern": NAME_PATTERN, "description": "Unique per owner, regardless of letter case."};
    RefName: {"minLength": 1, "maxLength": RefName::MAX_BYTES, "pattern": REF_PATTERN};
    CommitHash: {"pattern": ANY_CASE_HASH_PATTERN, "description": "40 hex digits."};
    CommitPrefix: {"pattern": COMMIT_PATTERN, "description": "A commit: 40 hex digits, or the first 7 or more of them."};
}
