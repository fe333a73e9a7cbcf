//! An operation as a document describes it.

use serde_json::{Value, json};

/// Which credential an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// The credential is not looked at, and no quota counts the request.
    Ignored,
    /// Public data needs no credential.
    Optional,
    /// Every request needs one.
    Required,
}

/// What is sent to an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Nothing.
    None,
    /// JSON.
    Json {
        /// Name of the schema.
        name: &'static str,
        /// `false` if the body may be absent.
        required: bool,
        /// The schema and those of the components it refers to, by name.
        schemas: Vec<(String, Value)>,
    },
    /// A file.
    Bytes,
}

/// The `data` of a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Success {
    /// No success is declared, or it has no body.
    Nothing,
    /// A JSON document outside the envelope.
    Document,
    /// A file.
    File,
    /// An object with this schema.
    One(&'static str),
    /// A list of objects with this schema.
    List(&'static str),
}

/// A request and its success.
#[derive(Debug, Clone, Default)]
pub struct Example {
    /// The body of the request.
    pub request: Option<Value>,
    /// The body of the success.
    pub success: Option<Value>,
}

impl Example {
    /// An example of a success.
    pub fn of(success: Value) -> Self {
        Self { request: None, success: Some(success) }
    }

    /// An example of a request and its success.
    pub fn with(request: Value, success: Value) -> Self {
        Self { request: Some(request), success: Some(success) }
    }
}

/// Returns the envelope of one object.
#[expect(clippy::needless_pass_by_value, reason = "examples are built in place")]
pub fn one(data: Value) -> Value {
    json!({"data": data})
}

/// Returns the envelope of a list with one item and no further page.
#[expect(clippy::needless_pass_by_value, reason = "examples are built in place")]
pub fn list_of(item: Value) -> Value {
    json!({"data": [item], "meta": {}})
}

/// One method of one path.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The method, in lower case.
    pub method: &'static str,
    /// The template of the path below the base of the API. `{name:.+}` takes slashes.
    pub path: &'static str,
    /// The published name.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The section of the document.
    pub tag: &'static str,
    /// What a client cannot guess, in Markdown.
    pub description: Option<&'static str>,
    /// Which credential it needs.
    pub credential: Credential,
    /// Names of components for its query parameters.
    pub query: &'static [&'static str],
    /// What is sent.
    pub body: Body,
    /// The status of a success.
    pub status: u16,
    /// What a success sends.
    pub data: Success,
    /// Letters of the error sets of the API's contract.
    pub error_sets: &'static str,
    /// Statuses of errors beyond those sets.
    pub errors: &'static [u16],
    /// An example of a request and its success.
    pub example: Option<fn() -> Example>,
}

impl Operation {
    /// An operation without query and body, which needs a credential and answers 200 without data.
    pub fn new(method: &'static str, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            summary,
            tag: "",
            description: None,
            credential: Credential::Required,
            query: &[],
            body: Body::None,
            status: 200,
            data: Success::Nothing,
            error_sets: "",
            errors: &[],
            example: None,
        }
    }

    /// Returns the method as requests write it.
    pub fn http_method(&self) -> &'static str {
        match self.method {
            "get" => "GET",
            "post" => "POST",
            "put" => "PUT",
            "patch" => "PATCH",
            _ => "DELETE",
        }
    }

    /// Returns the path as documents write it.
    pub fn template(&self) -> String {
        self.path.replace(":.+}", "}")
    }

    /// Returns the example.
    pub fn example(&self) -> Example {
        self.example.map(|example| example()).unwrap_or_default()
    }
}
