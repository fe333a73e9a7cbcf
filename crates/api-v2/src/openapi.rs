//! The OpenAPI document, built from the declared operations and the schemas of the wire types.

mod components;
mod constraints;
pub(crate) mod examples;
mod headers;
mod responses;

use branchyard_openapi::{OpenApi, Operation, paths};
use serde_json::Value;

use crate::routes::operations;

pub(crate) use constraints::MD5_PATTERN;

const INTRODUCTION: &str = "Versioned SQL databases: branches, pull requests, releases, imports, SQL. Compatible with DoltHub API v2.\n\n\
Every successful answer has its result in `data`; lists also have `meta.next_page_token` while more items follow. Every other answer is a problem document \
with a stable `code`. A POST that is repeated with the same `Idempotency-Key` takes effect once. `HEAD` works wherever `GET` does, and `OPTIONS` lists the \
methods of a route. Unknown query parameters are ignored; a known parameter that occurs twice is refused. Send `X-Request-Id` to find a request in the \
server's log.";

/// Returns the OpenAPI 3.1 document of this API as pretty-printed JSON, with the server `http://localhost`.
pub fn openapi() -> String {
    serde_json::to_string_pretty(&document("http://localhost")).unwrap_or_default()
}

/// Returns the document for a server at `public_url`.
pub(crate) fn document(public_url: &str) -> Value {
    let operations = operations();
    let document = OpenApi {
        version: "v2",
        introduction: INTRODUCTION,
        public_url,
        tags: operations.iter().map(|docs| docs.tag).collect(),
        paths: paths(crate::BASE, &operations, describe),
        components: components::all(&operations),
    };
    document.document()
}

fn describe(operation: &Operation) -> Value {
    let mut headers = Vec::new();
    if operation.error_sets.contains('K') {
        headers.push("Idempotency-Key");
    }
    if operation.error_sets.contains('M') {
        headers.push("If-Match");
    }
    if responses::may_be_unmodified(operation) {
        headers.push("If-None-Match");
    }
    headers.extend(operation.headers);
    operation.describe(&headers, responses::of(operation))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/v2.json");

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
        let mut routed = BTreeSet::new();
        for (method, path) in crate::routes() {
            routed.insert(format!("{method} {}{path}", crate::BASE));
        }
        assert_eq!(described, routed);
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        fn collect(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    for (name, member) in members {
                        match member.as_str() {
                            Some(target) if name == "$ref" => {
                                found.insert(target.to_owned());
                            }
                            _ => collect(member, found),
                        }
                    }
                }
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
        for kind in ["parameters", "responses", "headers"] {
            for name in document["components"][kind].as_object().unwrap().keys() {
                assert!(found.contains(&format!("#/components/{kind}/{name}")), "{kind} {name}");
            }
        }
    }

    #[test]
    fn every_body_has_an_example_that_fits_its_schema() {
        let checker = branchyard_openapi_check::Checker::new(&super::openapi());
        let document = document();
        for docs in crate::routes::operations() {
            let operation = &document["paths"][format!("{}{}", crate::BASE, docs.template())][docs.method];
            let success = &operation["responses"][docs.status.to_string()]["content"]["application/json"];
            for content in [&operation["requestBody"]["content"]["application/json"], success] {
                if content.is_null() {
                    continue;
                }
                assert!(content.get("example").is_some(), "{} needs an example", docs.id);
                let fits = checker.validate(&content["schema"], &content["example"]);
                assert_eq!(fits, Ok(()), "{}", docs.id);
            }
        }
        let problem = serde_json::json!({"$ref": "#/components/schemas/Problem"});
        for response in document["components"]["responses"].as_object().unwrap().values() {
            for example in response["content"]["application/problem+json"]["examples"].as_object().unwrap().values() {
                assert_eq!(checker.validate(&problem, &example["value"]), Ok(()));
            }
        }
    }

    #[test]
    fn every_parameter_and_header_is_described() {
        let document = document();
        for kind in ["parameters", "headers"] {
            for (name, component) in document["components"][kind].as_object().unwrap() {
                assert!(component["description"].as_str().is_some_and(|text| text.len() > 5), "{kind} {name}");
            }
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let operations = crate::routes::operations();
        let ids: Vec<&str> = operations.iter().map(|docs| docs.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn absent_fields_are_never_null() {
        let schemas = document()["components"]["schemas"].clone();
        assert_eq!(schemas["Database"]["properties"]["description"]["type"], "string");
        assert_eq!(
            schemas["Operation"]["properties"]["error"],
            serde_json::json!({"$ref": "#/components/schemas/OperationError"})
        );
        for (schema, field) in [("RowDiff", "from"), ("RowDiff", "to"), ("Conflict", "base")] {
            let property = schemas[schema]["properties"][field].to_string();
            assert!(property.contains("null"), "{property}");
        }
    }
}
