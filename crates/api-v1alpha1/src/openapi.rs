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
use operations::{Auth, Body, Docs, OPERATIONS};
use serde_json::{Map, Value, json};

const INTRODUCTION: &str = "Versioned SQL databases for programs written for DoltHub's v1alpha1. Deprecated: every answer names the URL of the same request in \
API v2 in `Link: rel=\"successor-version\"`. Frozen: fields may be added; none is renamed, removed or retyped.\n\n\
Errors are answered 400, and each endpoint has its own error body; a read whose SQL fails is answered 200. Poll writes, forks, merges and uploads by the name \
under which they were started. Unknown parameters and fields are ignored; if a parameter occurs several times, the first one counts.";

/// Returns the OpenAPI 3.1 document of this API as formatted JSON, for a server at `http://localhost`.
pub fn openapi() -> String {
    serde_json::to_string_pretty(&document("http://localhost")).unwrap_or_default()
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
        Body::None => return shown,
        Body::Json(name) => (true, "application/json", name),
        Body::Optional(name) => (false, "application/json", name),
        Body::Form(name) => (true, "multipart/form-data", name),
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
    fn every_body_has_an_example_that_fits_its_schema() {
        let checker = branchyard_openapi_check::Checker::new(&super::openapi());
        let document = document();
        for docs in super::OPERATIONS {
            let operation = &document["paths"][docs.path][docs.method];
            let answers = operation["responses"].as_object().unwrap().values().map(|answer| &answer["content"]);
            for content in answers.chain([&operation["requestBody"]["content"]]).filter(|content| !content.is_null()) {
                for (media_type, content) in content.as_object().unwrap() {
                    let several = content["examples"].as_object().into_iter().flatten();
                    let examples: Vec<_> =
                        several.map(|(_, example)| &example["value"]).chain(content.get("example")).collect();
                    assert!(!examples.is_empty() || media_type == "application/zip", "{}", docs.id);
                    for example in examples {
                        assert_eq!(checker.validate(&content["schema"], example), Ok(()), "{}: {example}", docs.id);
                    }
                }
            }
        }
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
        for kind in ["parameters", "headers"] {
            for (name, component) in document["components"][kind].as_object().unwrap() {
                assert!(is_text(&component["description"]), "{kind} {name}");
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            for (field, property) in schema["properties"].as_object().unwrap() {
                assert!(is_text(&property["description"]) || name == "Problem", "{name} {field}");
            }
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let ids: Vec<&str> = super::OPERATIONS.iter().map(|docs| docs.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}
