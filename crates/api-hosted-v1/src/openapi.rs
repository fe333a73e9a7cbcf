//! The OpenAPI document, built from the declared operations and the schemas of the wire types.

mod components;
pub(crate) mod examples;
mod responses;

use branchyard_openapi::{OpenApi, Operation, paths};
use serde_json::Value;

use crate::routes::operations;

const INTRODUCTION: &str = "Deployments: databases served to ordinary libSQL clients by a supervised process, at a metered cost. \
Compatible with Hosted Dolt API v1.\n\nEvery endpoint requires a credential. Every successful answer has its result in `data`; lists also have `meta`. \
Every other answer is a problem document with a stable `code`. A POST that is repeated with the same `Idempotency-Key` takes effect once. Work that takes \
time is answered 202: poll the operation, or the deployment until its `state` settles.";

/// Returns the OpenAPI 3.1 document of this API as pretty-printed JSON, with the server `http://localhost`.
pub fn openapi() -> String {
    serde_json::to_string_pretty(&document("http://localhost")).unwrap_or_default()
}

/// Returns the document for a server at `base_url`.
pub(crate) fn document(base_url: &str) -> Value {
    let operations = operations();
    let document = OpenApi {
        version: "hosted-v1",
        introduction: INTRODUCTION,
        public_url: base_url,
        tags: operations.iter().map(|docs| docs.tag).collect(),
        paths: paths(crate::BASE, &operations, describe),
        components: components::all(&operations),
    };
    document.document()
}

fn describe(operation: &Operation) -> Value {
    let mut headers = Vec::new();
    if operation.method == "post" {
        headers.push("Idempotency-Key");
    }
    if operation.errors.contains(&412) {
        headers.push("If-Match");
    }
    operation.describe(&headers, responses::of(operation))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/hosted-v1.json");

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
        let routes = crate::routes().into_iter();
        let routed: BTreeSet<_> = routes.map(|(method, path)| format!("{method} {}{path}", crate::BASE)).collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        fn collect(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    for (name, member) in members {
                        match member.as_str() {
                            Some(target) if name == "$ref" => drop(found.insert(target.to_owned())),
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
        for kind in ["parameters", "responses", "headers", "schemas"] {
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
            let operation = &document["paths"][format!("{}{}", crate::BASE, docs.path)][docs.method];
            let success = &operation["responses"][docs.status.to_string()]["content"]["application/json"];
            for content in [&operation["requestBody"]["content"]["application/json"], success] {
                if content.is_null() {
                    continue;
                }
                assert!(content.get("example").is_some(), "{} needs an entry in openapi/examples.rs", docs.id);
                let fits = checker.validate(&content["schema"], &content["example"]);
                assert_eq!(fits, Ok(()), "{}", docs.id);
            }
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let ids: Vec<&str> = crate::routes::operations().iter().map(|docs| docs.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}
