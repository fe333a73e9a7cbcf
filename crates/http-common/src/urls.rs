//! Absolute addresses, always built from the public URL.

use branchyard_domain::entities::{DatabaseLocator, Operation};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but RFC 3986's unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one path segment.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Builds the addresses of an API.
#[derive(Debug, Clone)]
pub struct Urls {
    root: String,
}

impl Urls {
    /// `{public_url}{base}`, such as `https://yard.test/api/v2`.
    pub fn new(public_url: &str, base: &str) -> Self {
        Self { root: format!("{}{base}", public_url.trim_end_matches('/')) }
    }

    /// The root itself.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// A database.
    pub fn database(&self, locator: &DatabaseLocator) -> String {
        format!("{}/databases/{}/{}", self.root, segment(locator.owner.as_str()), segment(locator.name.as_str()))
    }

    /// Something below a database, by kind and name: `branches`, `feature/x`.
    pub fn below(&self, locator: &DatabaseLocator, kind: &str, name: &str) -> String {
        format!("{}/{kind}/{}", self.database(locator), segment(name))
    }

    /// The public id of an operation.
    pub fn operation_id(operation: &Operation) -> String {
        format!("databases/{}/operations/{}", operation.locator, operation.id)
    }

    /// An operation, its id as one segment.
    pub fn operation(&self, operation: &Operation) -> String {
        format!("{}/operations/{}", self.root, segment(&Self::operation_id(operation)))
    }
}
