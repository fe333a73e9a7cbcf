//! The top level of an OpenAPI document.

use serde_json::{Map, Value, json};

use crate::operation::EndpointDocs;
use crate::schemas::sorted;

/// The parts of an OpenAPI document that differ between API versions.
pub struct OpenApi<'a> {
    /// Name of the API version.
    pub version: &'static str,
    /// Introduction, in Markdown.
    pub introduction: &'static str,
    /// Origin of the server, the default of the `base_url` variable.
    pub public_url: &'a str,
    /// The tag of each operation. The document lists each tag once, in the order of its first operation.
    pub tags: Vec<&'static str>,
    /// The `paths` object: operations by path and method.
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

/// Returns the paths of a document, each operation as `describe` describes it. `base` is the path of the API.
pub fn paths(base: &str, operations: &[EndpointDocs], describe: impl Fn(&EndpointDocs) -> Value) -> Map<String, Value> {
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(format!("{base}{}", operation.template())).or_insert_with(|| json!({}));
        path[operation.method] = describe(operation);
    }
    paths
}
