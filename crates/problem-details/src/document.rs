//! The body of an error response.

use crate::clip::clip;
use crate::{FieldError, Problem};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum size of an error body in bytes.
pub const BODY_MAX_BYTES: usize = 1024 * 1024;

/// Maximum length of `instance` in bytes of JSON. Request lines that a server accepts are shorter.
pub const INSTANCE_MAX_BYTES: usize = 64 * 1024;

/// Maximum length of `type` and `request_id` in bytes of JSON. Both have stricter limits where they are created.
const NAME_MAX_BYTES: usize = 4 * 1024;

/// An RFC 9457 document with its members in the order of the wire contract. Created by [`Problem::document`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Document<'a> {
    #[serde(rename = "type")]
    type_uri: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    instance: Cow<'a, str>,
    code: &'static str,
    request_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(flatten)]
    members: BTreeMap<&'static str, &'a str>,
}

impl Problem {
    /// Creates the body for one request.
    ///
    /// `errors_url` is the base URL of the error pages. `instance` is the request's path as received **without its
    /// query**, because queries may contain credentials. `request_id` is the value of `X-Request-Id`.
    #[must_use]
    pub fn document<'a>(&'a self, errors_url: &str, instance: &'a str, request_id: &'a str) -> Document<'a> {
        let row = self.code().row();
        let type_uri = format!("{}/{}", errors_url.trim_end_matches('/'), row.suffix);
        Document {
            type_uri: clip(&type_uri, NAME_MAX_BYTES).into_owned(),
            title: row.title,
            status: row.status,
            detail: self.detail(),
            instance: clip(instance, INSTANCE_MAX_BYTES),
            code: row.name,
            request_id: clip(request_id, NAME_MAX_BYTES),
            errors: self.errors(),
            members: self.members().iter().map(|(name, text)| (*name, text.as_str())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BODY_MAX_BYTES;
    use crate::{ErrorCode, FieldError, Problem};

    const ERRORS_URL: &str = "https://yard.test/docs/errors";
    const REQUEST_ID: &str = "req_0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d";

    #[track_caller]
    fn check(problem: &Problem, instance: &str, expected: &str) {
        let document = problem.document(ERRORS_URL, instance, REQUEST_ID);
        assert_eq!(serde_json::to_string(&document).unwrap(), expected);
    }

    #[test]
    fn the_example_of_the_contract() {
        check(
            &Problem::new(ErrorCode::NotFound, "no branch, tag or commit 'nope' in ada/rivers"),
            "/api/v2/databases/ada/rivers/sql",
            concat!(
                r#"{"type":"https://yard.test/docs/errors/not-found","title":"Not found","status":404,"#,
                r#""detail":"no branch, tag or commit 'nope' in ada/rivers","#,
                r#""instance":"/api/v2/databases/ada/rivers/sql","code":"NOT_FOUND","#,
                r#""request_id":"req_0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d"}"#
            ),
        );
    }

    #[test]
    fn errors_come_last() {
        check(
            &Problem::new(ErrorCode::ValidationFailed, "the body breaks its rules")
                .with_error(FieldError::at_pointer("/name", "is required")),
            "/api/v2/databases",
            concat!(
                r#"{"type":"https://yard.test/docs/errors/validation-failed","title":"Validation failed","status":400,"#,
                r#""detail":"the body breaks its rules","instance":"/api/v2/databases","code":"VALIDATION_FAILED","#,
                r#""request_id":"req_0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d","#,
                r#""errors":[{"pointer":"/name","detail":"is required"}]}"#
            ),
        );
    }

    #[test]
    fn a_slash_at_the_end_of_the_errors_url_is_not_doubled() {
        let problem = Problem::no_such_pull();
        assert_eq!(
            problem.document("https://yard.test/e/", "/", "r"),
            problem.document("https://yard.test/e", "/", "r"),
        );
    }

    #[test]
    fn the_largest_body_is_below_its_limit() {
        // A control character takes six bytes in JSON, the highest ratio of all characters.
        let long = "\0".repeat(BODY_MAX_BYTES);
        let entry = FieldError::at_line(u64::MAX, &long).in_column(&long);
        let problem = Problem::new(ErrorCode::OperationFailed, &long).with_errors(std::iter::repeat_n(entry, 1000));
        let document = problem.document(&long, &long, &long);
        let body = serde_json::to_vec(&document).unwrap();
        assert!(body.len() <= BODY_MAX_BYTES, "{} bytes", body.len());
    }
}
