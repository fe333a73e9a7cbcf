//! The reference of an API: a page made from its OpenAPI document.

mod reader;

use std::sync::OnceLock;

use serde_json::Value;

use crate::format::Markup;
use crate::prose::prose;
use reader::{DocumentReader, text};

/// An API whose reference is among the pages, at `/docs/api/{name}`.
#[derive(Debug)]
pub struct Reference {
    name: &'static str,
    openapi: fn() -> String,
    base: &'static str,
    origin: String,
    made: OnceLock<ReferenceDocument>,
}

/// What the page shows. It is the same for everybody, as long as the server runs.
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
    /// `openapi` gives the document as JSON, `base` is the path that all of its operations are below, and `origin` where clients reach
    /// the server, without a slash at the end.
    #[must_use]
    pub fn new(name: &'static str, openapi: fn() -> String, base: &'static str, origin: String) -> Self {
        Self { name, openapi, base, origin, made: OnceLock::new() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The path of the document itself.
    pub(crate) fn document(&self) -> String {
        format!("{}/openapi.json", self.base)
    }

    /// What all addresses of operations begin with.
    pub(crate) fn address(&self) -> String {
        format!("{}{}", self.origin, self.base)
    }

    /// What the page shows; made when it is first asked for.
    pub(crate) fn made(&self) -> &ReferenceDocument {
        self.made.get_or_init(|| {
            let document: Value = serde_json::from_str(&(self.openapi)()).unwrap_or_default();
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
