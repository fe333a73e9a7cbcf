//! The OpenAPI document: the table of operations, the table of objects, and what stands around both.

mod objects;
mod operations;
mod parts;

use branchyard_api_common::{OpenApi, path_parameters};
use operations::{Auth, Body, Docs, OPERATIONS, Sends};
use serde_json::{Map, Value, json};

const INTRODUCTION: &str = "Versioned SQL databases, as programs written for DoltHub's v1alpha1 know them. Deprecated: every answer names the URL of the same \
request in API v2 in `Link: rel=\"successor-version\"`. Frozen: fields may be added, none is renamed, removed or retyped.\n\n\
Every endpoint refuses with 400 in a shape of its own; a SQL failure of a read is HTTP 200. Writes, forks, merges and uploads are polled by the name they were \
started under. Unknown parameters and fields are ignored; the first of several parameters of one name counts.";

/// The OpenAPI 3.1 document of this API, as pretty JSON, for a server reached at the default address.
pub fn openapi() -> String {
    serde_json::to_string_pretty(&document("http://localhost")).unwrap_or_default()
}

/// The document for a server reached at `public_url`.
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
        "deprecated": true,
        "security": match docs.auth {
            Auth::Optional => json!([{}, {"token": []}]),
            Auth::Required => json!([{"token": []}]),
        },
        "responses": responses(docs),
    });
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    match docs.body {
        Body::None => {}
        Body::Json(name) => {
            shown["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema(name)}}})
        }
        Body::Optional(name) => {
            shown["requestBody"] =
                json!({"required": false, "content": {"application/json": {"schema": schema(name)}}});
        }
        Body::Form(name) => {
            shown["requestBody"] =
                json!({"required": true, "content": {"multipart/form-data": {"schema": schema(name)}}});
        }
    }
    shown
}

fn schema(name: &str) -> Value {
    parts::reference("schemas", name)
}

fn responses(docs: &Docs) -> Value {
    let json_of = |schema: Value| json!({"application/json": {"schema": schema}});
    let content = match docs.sends {
        Sends::Document => json_of(json!({"type": "object", "additionalProperties": true})),
        Sends::One(name) => json_of(schema(name)),
        Sends::Either(one, other) => json_of(json!({"oneOf": [schema(one), schema(other)]})),
        Sends::Files => json!({
            "text/csv": {"schema": {"type": "string"}},
            "application/zip": {"schema": {"type": "string", "format": "binary"}},
        }),
    };
    let mut responses = json!({"200": {
        "description": "Done, or under way.",
        "headers": parts::headers(&["Retry-After"]),
        "content": content,
    }});
    let mut refusal = |status: u16, text: &str, own: &[&str]| {
        let headers = parts::headers(own);
        responses[status.to_string()] =
            json!({"description": text, "headers": headers, "content": json_of(schema(docs.error))});
    };
    refusal(400, "Refused; `message` says why.", &[]);
    if docs.id == "getUser" {
        refusal(401, "No credential, or a bad one.", &["WWW-Authenticate"]);
    }
    if matches!(docs.sends, Sends::Files) {
        refusal(404, "No such database, ref or table.", &[]);
    }
    if !matches!(docs.body, Body::None) {
        refusal(413, "Too large.", &[]);
        refusal(415, "Not a type that is read.", &[]);
    }
    refusal(429, "Too many requests, or too many operations wait.", &["Retry-After"]);
    refusal(500, "A fault of the server.", &[]);
    refusal(503, "Overloaded, or shutting down.", &["Retry-After"]);
    responses
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/v1alpha1.json");

    fn document() -> Value {
        serde_json::from_str(&super::openapi()).unwrap()
    }

    #[test]
    fn the_committed_document_is_this_one() {
        let document = format!("{}\n", super::openapi());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(COMMITTED, &document).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap();
        assert!(committed == document, "{COMMITTED} differs; `cargo xtask openapi` writes it");
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document = document();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
        let routed: BTreeSet<String> =
            crate::routes().into_iter().map(|(method, path)| format!("{method} {path}")).collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        fn collect(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => members.iter().for_each(|(name, member)| match member.as_str() {
                    Some(target) if name == "$ref" => {
                        found.insert(target.to_owned());
                    }
                    _ => collect(member, found),
                }),
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = BTreeSet::new();
        collect(&document, &mut found);
        for target in &found {
            assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
        }
        for kind in ["parameters", "headers", "schemas"] {
            for name in document["components"][kind].as_object().unwrap().keys() {
                assert!(found.contains(&format!("#/components/{kind}/{name}")) || name == "Problem", "{kind} {name}");
            }
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let ids: Vec<&str> = super::OPERATIONS.iter().map(|docs| docs.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}
