//! The OpenAPI document, built from the table of operations and the table of objects.

mod descriptions;
mod examples;
mod meanings;
mod objects;
mod operations;
mod parts;
mod refusals;
mod responses;

use branchyard_openapi::{OpenApi, path_parameters};
use operations::{Auth, BodyDocs, Docs, OPERATIONS};
use serde_json::{Map, Value, json};

const INTRODUCTION: &str = "Versioned SQL databases for programs written for DoltHub's v1alpha1. Deprecated: every answer names the URL of the same request in \
API v2 in `Link: rel=\"successor-version\"`. Frozen: fields may be added; none is renamed, removed or retyped.\n\n\
Errors are answered 400, and each endpoint has its own error body; a read whose SQL fails is answered 200. Poll writes, forks, merges and uploads by the name \
under which they were started. Unknown parameters and fields are ignored; if a parameter occurs several times, the first one counts.";

/// Returns the OpenAPI 3.1 document of this API as formatted JSON, for a server at `http://localhost`.
pub fn openapi() -> String {
    format!("{:#}", document("http://localhost"))
}

/// Returns the document for a server reached at `public_url`.
pub(crate) fn document(public_url: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for docs in OPERATIONS {
        let path = paths.entry(docs.path.to_owned()).or_insert_with(|| json!({}));
        path[docs.method] = operation(docs);
    }
    let document = OpenApi {
        version: "v1alpha1",
        introduction: INTRODUCTION,
        public_url,
        tags: OPERATIONS.iter().map(|docs| docs.tag).collect(),
        paths,
        components: parts::components(),
    };
    document.document()
}

fn operation(docs: &Docs) -> Value {
    let names = path_parameters(docs.path).chain(docs.query.iter().copied());
    let parameters: Vec<Value> = names.map(|name| parts::reference("parameters", name)).collect();
    let mut shown = json!({
        "operationId": docs.id,
        "tags": [docs.tag],
        "summary": docs.summary,
        "description": descriptions::of(docs.id),
        "deprecated": true,
        "security": match docs.auth {
            Auth::Optional => json!([{}, {"token": []}]),
            Auth::Required => json!([{"token": []}]),
        },
        "responses": responses::of(docs),
    });
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    let (required, media_type, name) = match docs.body {
        BodyDocs::None => return shown,
        BodyDocs::Json(name) => (true, "application/json", name),
        BodyDocs::Optional(name) => (false, "application/json", name),
        BodyDocs::Form(name) => (true, "multipart/form-data", name),
    };
    let mut content = json!({"schema": parts::reference("schemas", name)});
    if let Some(request) = examples::of(docs.id).and_then(|example| example.request) {
        content["example"] = request;
    }
    let mut body = json!({"required": required, "content": {}});
    body["content"][media_type] = content;
    shown["requestBody"] = body;
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn document() -> Value {
        serde_json::from_str(&super::openapi()).unwrap()
    }

    #[test]
    fn the_committed_document_is_this_one() {
        let committed = include_str!("../openapi/v1alpha1.json");
        assert!(committed == format!("{}\n", super::openapi()), "`cargo xtask openapi` writes the document");
    }

    #[test]
    fn the_document_is_consistent() {
        // What paths and methods without a handler answer belongs to no operation.
        let unreferenced = ["MethodNotAllowed", "NotFound"];
        let findings = branchyard_openapi_check::lint(&super::openapi(), &crate::routes(), &unreferenced);
        assert!(findings.is_empty(), "{findings:#?}");
    }

    #[test]
    fn everything_is_described() {
        let document = document();
        let is_text = |value: &Value| value.as_str().is_some_and(|text| text.len() > 5);
        for docs in super::OPERATIONS {
            let operation = &document["paths"][docs.path][docs.method];
            assert!(is_text(&operation["description"]), "{}", docs.id);
            for response in operation["responses"].as_object().unwrap().values() {
                assert!(is_text(&response["description"]), "{}", docs.id);
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            for (field, property) in schema["properties"].as_object().unwrap() {
                assert!(is_text(&property["description"]) || name == "Problem", "{name} {field}");
            }
        }
    }
}
