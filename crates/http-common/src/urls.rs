//! Absolute URLs of an API, built from the public URL.

use branchyard_domain::entities::{DatabaseLocator, Operation};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters except the unreserved ones of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a text as one path segment.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Builds the URLs of an API.
#[derive(Debug, Clone)]
pub struct Urls {
    root: String,
}

impl Urls {
    /// Creates a builder for the API at `{public_url}{base}`, such as `https://yard.test/api/v2`.
    pub fn new(public_url: &str, base: &str) -> Self {
        Self { root: format!("{}{base}", public_url.trim_end_matches('/')) }
    }

    /// Returns the root URL of the API, without a trailing slash.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the URL of a database.
    pub fn database(&self, locator: &DatabaseLocator) -> String {
        format!("{}/databases/{}/{}", self.root, segment(locator.owner.as_str()), segment(locator.name.as_str()))
    }

    /// Returns the URL of a resource of a database, by kind and name: `branches`, `feature/x`.
    pub fn below(&self, locator: &DatabaseLocator, kind: &str, name: &str) -> String {
        format!("{}/{kind}/{}", self.database(locator), segment(name))
    }

    /// Returns the public id of an operation.
    pub fn operation_id(operation: &Operation) -> String {
        format!("databases/{}/operations/{}", operation.locator, operation.id)
    }

    /// Returns the URL of an operation. Its id is one path segment.
    pub fn operation(&self, operation: &Operation) -> String {
        format!("{}/operations/{}", self.root, segment(&Self::operation_id(operation)))
    }
}
