//! Declarations of JSON request bodies: name, mode, and the reader that also produces the schema.

use branchyard_openapi::BodySchema;
use branchyard_problem_details::Problem;
use serde_json::Value;

use crate::fields::{self, Fields, ReaderMode};

/// The JSON body of a request. The reader must request every field before it decides anything, so that all errors are reported
/// at once and the schema is complete.
pub struct RequestBody<T> {
    name: &'static str,
    mode: ReaderMode,
    read: fn(&Fields<'_>) -> Option<T>,
    example: Option<fn() -> Value>,
}

/// A body without fields.
pub const NO_FIELDS: RequestBody<()> = RequestBody::closed("", |_| Some(()));

impl<T> RequestBody<T> {
    /// Declares a body in which unknown fields are refused and `null` means absent.
    pub const fn closed(name: &'static str, read: fn(&Fields<'_>) -> Option<T>) -> Self {
        Self { name, mode: ReaderMode::Closed, read, example: None }
    }

    /// Declares a body in which unknown fields are ignored and `null` means absent.
    pub const fn open(name: &'static str, read: fn(&Fields<'_>) -> Option<T>) -> Self {
        Self { name, mode: ReaderMode::Open, read, example: None }
    }

    /// Declares the body of a PATCH: unknown fields are refused, `null` is a value, and at least one field is required.
    pub const fn patch(name: &'static str, read: fn(&Fields<'_>) -> Option<T>) -> Self {
        Self { name, mode: ReaderMode::Patch, read, example: None }
    }

    /// Sets the example of the body in the document.
    #[must_use]
    pub const fn example(self, example: fn() -> Value) -> Self {
        Self { example: Some(example), ..self }
    }

    pub(crate) fn parse(&self, body: &[u8]) -> Result<T, Problem> {
        fields::read_body(body, self.mode, self.read)
    }
}

impl<T> BodySchema for RequestBody<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schemas(&self) -> Vec<(String, Value)> {
        let described = Fields::describe(self.mode, self.read);
        let mut all = described.components();
        all.push((self.name.to_owned(), described.schema()));
        all
    }

    fn example(&self) -> Option<Value> {
        self.example.map(|example| example())
    }
}
