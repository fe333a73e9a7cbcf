//! The OpenAPI document, built from the declared operations and the schemas of the wire types.

mod components;
pub(crate) mod examples;
mod responses;

use branchyard_openapi::{EndpointDocs, OpenApi, paths};
use serde_json::Value;

use crate::routes::operations;

const INTRODUCTION: &str = "Deployments: databases served to ordinary libSQL clients by a supervised process, at a metered cost. \
Compatible with Hosted Dolt API v1.\n\nEvery endpoint requires a credential. Every successful answer has its result in `data`; lists also have `meta`. \
Every other answer is a problem document with a stable `code`. A POST that is repeated with the same `Idempotency-Key` takes effect once. Work that takes \
time is answered 202: poll the operation, or the deployment until its `state` settles.";

/// Returns the OpenAPI 3.1 document of this API as pretty-printed JSON, with the server `http://localhost`.
pub fn openapi() -> String {
    format!("{:#}", document("http://localhost"))
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
        components: components::all(&operations, base_url),
    };
    document.document()
}

fn describe(operation: &EndpointDocs) -> Value {
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
    #[test]
    fn the_committed_document_is_this_one() {
        let committed = include_str!("../openapi/hosted-v1.json");
        assert!(committed == format!("{}\n", super::openapi()), "`cargo xtask openapi` writes the document");
    }

    #[test]
    fn the_document_is_consistent() {
        let below = |(method, path)| (method, format!("{}{path}", crate::BASE));
        let routes: Vec<_> = crate::routes().into_iter().map(below).collect();
        let findings = branchyard_openapi_check::lint(&super::openapi(), &routes, &[]);
        assert!(findings.is_empty(), "{findings:#?}");
    }
}
