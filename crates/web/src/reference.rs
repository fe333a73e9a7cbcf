//! The reference of an API, rendered from its OpenAPI document.

mod reader;

use std::sync::OnceLock;

use serde_json::Value;

use crate::format::Markup;
use crate::prose::prose;
use reader::{DocumentReader, text};

/// An API whose reference is served at `/docs/api/{name}`.
#[derive(Debug)]
pub struct Reference {
    name: &'static str,
    openapi: fn() -> String,
    base: &'static str,
    origin: String,
    made: OnceLock<ReferenceDocument>,
}

/// The content of the reference page. It is the same for all viewers and does not change while the server runs.
#[derive(Debug)]
pub(crate) struct ReferenceDocument {
    pub(crate) title: String,
    pub(crate) version: String,
    pub(crate) description: Markup,
    /// Links to the operations.
    pub(crate) contents: Markup,
    pub(crate) operations: Markup,
}

impl Reference {
    /// Creates the reference of an API. `openapi` returns the document as JSON, `base` is the common path of all operations, and
    /// `origin` is the public URL of the server without a trailing slash.
    #[must_use]
    pub fn new(name: &'static str, openapi: fn() -> String, base: &'static str, origin: String) -> Self {
        Self { name, openapi, base, origin, made: OnceLock::new() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the path of the OpenAPI document.
    pub(crate) fn document(&self) -> String {
        format!("{}/openapi.json", self.base)
    }

    /// Returns the base URL of the API.
    pub(crate) fn address(&self) -> String {
        format!("{}{}", self.origin, self.base)
    }

    /// Returns the content of the page. It is rendered on first use.
    #[expect(clippy::expect_used, reason = "the document is our own JSON")]
    pub(crate) fn made(&self) -> &ReferenceDocument {
        self.made.get_or_init(|| {
            let document: Value = serde_json::from_str(&(self.openapi)()).expect("an OpenAPI document is JSON");
            let (contents, operations) = DocumentReader { document: &document, origin: &self.origin }.all();
            let info = &document["info"];
            ReferenceDocument {
                title: text(&info["title"]).to_owned(),
                version: text(&info["version"]).to_owned(),
                description: Markup::trusted(prose(text(&info["description"]))),
                contents: Markup::trusted(contents),
                operations: Markup::trusted(operations),
            }
        })
    }
}
