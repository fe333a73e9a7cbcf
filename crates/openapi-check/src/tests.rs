use super::{CheckedAnswer, Checker};

const DOCUMENT: &str = r##"{
  "paths": {"/things/{id}": {"get": {"operationId": "getThing", "responses": {
    "200": {
      "headers": {"ETag": {"required": true, "schema": {"type": "string", "pattern": "^\""}}},
      "content": {"application/json": {"schema": {"type": "object", "required": ["data"], "properties": {
        "data": {"$ref": "#/components/schemas/Whole"}}}}}
    },
    "404": {"$ref": "#/components/responses/NotFound"}
  }}}},
  "components": {
    "responses": {
      "NotFound": {"content": {"application/problem+json": {"schema": {"type": "object"}}}},
      "MethodNotAllowed": {"headers": {"Allow": {"required": true, "schema": {"type": "string"}}},
        "content": {"application/problem+json": {"schema": {"type": "object"}}}}
    },
    "schemas": {
      "Part": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
      "Whole": {"allOf": [{"$ref": "#/components/schemas/Part"}, {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}]}
    }
  }
}"##;

fn check(method: &str, path: &str, status: u16, headers: &[(&str, &str)], body: &str) -> Result<(), String> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Checker::new(DOCUMENT).check(&CheckedAnswer { method, path, status, headers, body: body.as_bytes() })
}

const JSON: (&str, &str) = ("content-type", "application/json");
const TAG: (&str, &str) = ("etag", "\"a\"");

#[track_caller]
fn fails(result: Result<(), String>, with: &str) {
    let fault = result.unwrap_err();
    assert!(fault.contains(with), "{fault}");
}

#[test]
fn what_the_document_allows_passes() {
    let body = r#"{"data": {"id": 1, "at": "2026-09-04T12:00:00.000Z"}}"#;
    assert_eq!(check("GET", "/things/1", 200, &[JSON, TAG], body), Ok(()));
    assert_eq!(check("HEAD", "/things/1", 200, &[JSON, TAG], ""), Ok(()));
    let problem = [("content-type", "application/problem+json"), ("x-request-id", "r")];
    assert_eq!(check("GET", "/things/1", 404, &problem, r#"{"status": 404, "request_id": "r"}"#), Ok(()));
    assert_eq!(check("GET", "/nothing", 404, &problem, r#"{"status": 404, "request_id": "r"}"#), Ok(()));
    assert_eq!(check("OPTIONS", "/things/1", 204, &[("allow", "GET")], ""), Ok(()));
}

#[test]
fn everything_else_fails() {
    let good = r#"{"data": {"id": 1}}"#;
    fails(check("GET", "/things/1", 201, &[JSON, TAG], good), "does not declare");
    fails(check("GET", "/things/1", 200, &[JSON], good), "ETag is missing");
    fails(check("GET", "/things/1", 200, &[JSON, ("etag", "a")], good), "header ETag");
    fails(check("GET", "/things/1", 200, &[JSON, TAG, ("retry-after", "1")], good), "not declared");
    fails(check("GET", "/things/1", 200, &[("content-type", "text/html"), TAG], good), "media type");
    fails(check("GET", "/things/1", 200, &[JSON, TAG], r#"{"data": {}}"#), "id");
    fails(check("GET", "/things/1", 200, &[JSON, TAG], r#"{"data": {"id": 1, "more": 2}}"#), "more");
    fails(check("GET", "/things/1", 200, &[JSON, TAG], r#"{"data": {"id": 1, "at": "noon"}}"#), "at");
    fails(check("GET", "/things/1", 200, &[JSON, TAG], r#"{"data": {"id": 1}, "more": 2}"#), "more");
    fails(check("HEAD", "/things/1", 200, &[JSON, TAG], good), "no body");
    fails(check("PUT", "/things/1", 200, &[JSON], good), "405");
    fails(check("GET", "/nothing", 200, &[JSON], good), "404");
    let problem = [("content-type", "application/problem+json"), ("x-request-id", "r")];
    fails(check("GET", "/things/1", 404, &problem, r#"{"status": 400, "request_id": "r"}"#), "status");
    fails(check("GET", "/things/1", 404, &problem, r#"{"status": 404, "request_id": "x"}"#), "request id");
}
