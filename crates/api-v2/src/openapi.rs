//! The OpenAPI document, built from the declared operations and the schemas of the wire types.

mod components;
mod constraints;
pub(crate) mod examples;
mod headers;
mod responses;

use branchyard_openapi::{EndpointDocs, OpenApi, paths};
use serde_json::Value;

use crate::routes::operations;

pub(crate) use constraints::MD5_PATTERN;

const INTRODUCTION: &str = "Versioned SQL databases: branches, pull requests, releases, imports, SQL. Compatible with DoltHub API v2.\n\n\
Every successful answer has its result in `data`; lists also have `meta.next_page_token` while more items follow. Every other answer is a problem document \
with a stable `code`. Work that takes time runs as an operation and is answered 202; with `Prefer: wait=20` it is answered 200 with the operation once \
that has ended. A POST that is repeated with the same `Idempotency-Key` takes effect once. `HEAD` works wherever `GET` does, and `OPTIONS` lists the \
methods of a route. Unknown query parameters are ignored; a known parameter that occurs twice is refused. Send `X-Request-Id` to find a request in the \
server's log.";

/// Returns the OpenAPI 3.1 document of this API as pretty-printed JSON, with the server `http://localhost`.
pub fn openapi() -> String {
    format!("{:#}", document("http://localhost"))
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
        components: components::all(&operations, public_url),
    };
    document.document()
}

fn describe(operation: &EndpointDocs) -> Value {
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
    if responses::is_queued(operation) {
        headers.push("Prefer");
    }
    headers.extend(operation.headers);
    operation.describe(&headers, responses::of(operation))
}

#[cfg(test)]
mod tests {
    fn document() -> serde_json::Value {
        serde_json::from_str(&super::openapi()).unwrap()
    }

    #[test]
    fn the_committed_document_is_this_one() {
        let committed = include_str!("../openapi/v2.json");
        assert!(committed == format!("{}\n", super::openapi()), "`cargo xtask openapi` writes the document");
    }

    #[test]
    fn the_document_is_consistent() {
        let below = |(method, path)| (method, format!("{}{path}", crate::BASE));
        let routes: Vec<_> = crate::routes().into_iter().map(below).collect();
        // The contract names the envelope; every answer of the document spells it out.
        let findings = branchyard_openapi_check::lint(&super::openapi(), &routes, &["Envelope"]);
        assert!(findings.is_empty(), "{findings:#?}");
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
