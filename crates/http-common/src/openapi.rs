//! The frame that the OpenAPI documents of all API versions share, and a cache for the rendered document.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::api_response::etag_of;

/// The parts of a document that differ between API versions.
pub struct OpenApi<'a> {
    /// Version of the API.
    pub version: &'static str,
    /// Introduction in Markdown.
    pub introduction: &'static str,
    /// Public origin of the server.
    pub public_url: &'a str,
    /// The tag of each operation. Tags are listed in the order of their first use.
    pub tags: Vec<&'static str>,
    /// The path items: paths, methods, operations.
    pub paths: Map<String, Value>,
    /// The components that the operations refer to.
    pub components: Value,
}

impl OpenApi<'_> {
    /// Returns the OpenAPI 3.1 document.
    pub fn document(self) -> Value {
        let mut tags: Vec<Value> = Vec::new();
        for name in self.tags {
            let tag = json!({"name": name});
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        sorted(json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Branchyard API",
                "version": self.version,
                "description": self.introduction,
                "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            },
            "servers": [{"url": "{base_url}", "variables": {"base_url": {"default": self.public_url}}}],
            "tags": tags,
            "paths": self.paths,
            "components": self.components,
        }))
    }
}

/// Sorts the members of all objects by name. The order does not depend on whether this build of `serde_json` preserves insertion
/// order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members.into_iter().collect();
            members.into_iter().map(|(name, member)| (name, sorted(member))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect::<Vec<_>>().into(),
        other => other,
    }
}

/// Returns the names of the parameters in a path template, in order.
pub fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|part| part.split('}').next())
}

/// A document that is rendered once and then served from memory.
#[derive(Default)]
pub struct Served(OnceLock<BuiltDocument>);

#[derive(Clone)]
struct BuiltDocument {
    public_url: String,
    etag: String,
    text: String,
}

impl Served {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the `ETag` and the text of the document for a server at `public_url`.
    pub fn get(&self, public_url: &str, document: impl Fn(&str) -> Value) -> (String, String) {
        // The public URL of a running server does not change. Tests use several, so the URL is kept with the document.
        let make = || {
            let text = document(public_url).to_string();
            BuiltDocument { public_url: public_url.to_owned(), etag: etag_of(&text), text }
        };
        let made = self.0.get_or_init(make);
        let BuiltDocument { etag, text, .. } = if made.public_url == public_url { made.clone() } else { make() };
        (etag, text)
    }
}
