//! What the OpenAPI documents of all API versions share: the frame around paths and components, and being made once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::api_response::etag_of;

/// What differs between the documents of two API versions.
pub struct OpenApi<'a> {
    /// Name of the version.
    pub version: &'static str,
    /// Introduction, in Markdown.
    pub introduction: &'static str,
    /// Origin of the server.
    pub public_url: &'a str,
    /// The tag of each operation; they are listed in the order they first come in.
    pub tags: Vec<&'static str>,
    /// Path to methods to operations.
    pub paths: Map<String, Value>,
    /// The components they refer to.
    pub components: Value,
}

impl OpenApi<'_> {
    /// The OpenAPI 3.1 document.
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

/// Members by name, whether or not this build of `serde_json` keeps the order they were put in.
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

/// The names of the parameters in the template of a path, in order.
pub fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|part| part.split('}').next())
}

/// A document as it is served, made once.
#[derive(Default)]
pub struct Served(OnceLock<BuiltDocument>);

#[derive(Clone)]
struct BuiltDocument {
    public_url: String,
    etag: String,
    text: String,
}

impl Served {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// `ETag` and text of the document for a server at `public_url`.
    pub fn get(&self, public_url: &str, document: impl Fn(&str) -> Value) -> (String, String) {
        // The public address does not change while a server runs; those of a test may, so it is kept with the document.
        let make = || {
            let text = document(public_url).to_string();
            BuiltDocument { public_url: public_url.to_owned(), etag: etag_of(&text), text }
        };
        let made = self.0.get_or_init(make);
        let BuiltDocument { etag, text, .. } = if made.public_url == public_url { made.clone() } else { make() };
        (etag, text)
    }
}
