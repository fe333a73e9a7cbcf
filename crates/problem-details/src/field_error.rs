//! Errors at one place of a request or import file.

use crate::clip::clip_owned;
use serde::Serialize;
use std::borrow::Cow;

/// Maximum length of the detail of an entry, in bytes of JSON. Longer details are clipped.
pub const FIELD_DETAIL_MAX_BYTES: usize = 4 * 1024;

/// Maximum length of a pointer, parameter name or column name, in bytes of JSON. Longer ones are clipped.
pub const FIELD_PLACE_MAX_BYTES: usize = 1024;

/// An entry of a problem's `errors`. The document omits fields without a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    detail: String,
}

impl FieldError {
    /// Creates an error at a place of the JSON body, given as an RFC 6901 pointer such as `/from/branch`. Use
    /// [`json_pointer`] for untrusted names.
    #[must_use]
    pub fn at_pointer(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(clip_owned(pointer.into(), FIELD_PLACE_MAX_BYTES)), ..Self::anywhere(detail.into()) }
    }

    /// Creates an error at a query parameter, header or path parameter.
    #[must_use]
    pub fn at_parameter(parameter: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { parameter: Some(clip_owned(parameter.into(), FIELD_PLACE_MAX_BYTES)), ..Self::anywhere(detail.into()) }
    }

    /// Creates an error at a line of an import file, counted from 1.
    #[must_use]
    pub fn at_line(line: u64, detail: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::anywhere(detail.into()) }
    }

    /// Adds the column of an import file.
    #[must_use]
    pub fn in_column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(clip_owned(column.into(), FIELD_PLACE_MAX_BYTES));
        self
    }

    /// Returns the JSON pointer into the body.
    #[must_use]
    pub fn pointer(&self) -> Option<&str> {
        self.pointer.as_deref()
    }

    /// Returns the query parameter, header or path parameter.
    #[must_use]
    pub fn parameter(&self) -> Option<&str> {
        self.parameter.as_deref()
    }

    /// Returns the line of the import file.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// Returns the column of the import file.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// Returns the description of the error.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Creates an entry that names no place, for example one of several choices.
    #[must_use]
    pub fn anywhere(detail: impl Into<String>) -> Self {
        Self {
            pointer: None,
            parameter: None,
            line: None,
            column: None,
            detail: clip_owned(detail.into(), FIELD_DETAIL_MAX_BYTES),
        }
    }
}

/// Escapes a name as one token of a JSON pointer (RFC 6901): `~` becomes `~0`, `/` becomes `~1`.
#[must_use]
pub fn escape_pointer_token(token: &str) -> Cow<'_, str> {
    if token.contains(['~', '/']) {
        // `~` first, because the escapes of `/` would be escaped again otherwise.
        Cow::Owned(token.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(token)
    }
}

/// Returns the JSON pointer through these member names and array indices. Without any, the pointer is `""`, which is
/// the whole body.
#[must_use]
pub fn json_pointer<I>(tokens: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut pointer = String::new();
    for token in tokens {
        pointer.push('/');
        pointer.push_str(&escape_pointer_token(token.as_ref()));
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::{FIELD_DETAIL_MAX_BYTES, FIELD_PLACE_MAX_BYTES, FieldError, json_pointer};
    use proptest::prelude::*;

    #[track_caller]
    fn check(entry: &FieldError, expected: &str) {
        assert_eq!(serde_json::to_string(entry).unwrap(), expected);
    }

    #[test]
    fn absent_fields_are_left_out() {
        check(
            &FieldError::at_pointer("/from/branch", "is required"),
            r#"{"pointer":"/from/branch","detail":"is required"}"#,
        );
        check(
            &FieldError::at_parameter("page_size", "must be at least 1"),
            r#"{"parameter":"page_size","detail":"must be at least 1"}"#,
        );
        check(&FieldError::at_line(3, "too few values"), r#"{"line":3,"detail":"too few values"}"#);
        check(
            &FieldError::at_line(3, "'x' is not an integer").in_column("age"),
            r#"{"line":3,"column":"age","detail":"'x' is not an integer"}"#,
        );
    }

    #[test]
    fn long_texts_are_clipped() {
        let entry = FieldError::at_pointer("p".repeat(100_000), "d".repeat(100_000));
        assert_eq!(entry.pointer().unwrap().len(), FIELD_PLACE_MAX_BYTES);
        assert_eq!(entry.detail().len(), FIELD_DETAIL_MAX_BYTES);
    }

    #[test]
    fn pointers_of_the_rfc() {
        let none: [&str; 0] = [];
        assert_eq!(json_pointer(none), "");
        assert_eq!(json_pointer([""]), "/");
        assert_eq!(json_pointer(["foo", "0"]), "/foo/0");
        assert_eq!(json_pointer(["a/b", "m~n", "~1"]), "/a~1b/m~0n/~01");
    }

    proptest! {
        #[test]
        fn a_pointer_finds_its_member(name in any::<String>(), inner in any::<String>()) {
            let document = serde_json::json!({ &name: { &inner: 7 } });
            let pointer = json_pointer([&name, &inner]);
            prop_assert_eq!(document.pointer(&pointer), Some(&serde_json::json!(7)));
        }
    }
}
