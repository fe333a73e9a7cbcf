//! The description of an operation in a document.

use serde_json::{Value, json};

use crate::security::{READ_SCOPE, WRITE_SCOPE};
use crate::{path_parameters, reference};

/// Which credential an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// The credential is ignored, and the request does not count against any quota.
    Ignored,
    /// Public data is served without a credential.
    Optional,
    /// Every request needs a credential.
    Required,
}

impl Credential {
    /// Returns the security requirement of an operation: an API token, or an access token with this scope.
    fn requirement(self, scope: &str) -> Value {
        match self {
            Self::Ignored => json!([]),
            Self::Optional => json!([{}, {"bearer": []}, {"oauth2": [scope]}]),
            Self::Required => json!([{"bearer": []}, {"oauth2": [scope]}]),
        }
    }
}

/// A JSON body that can describe itself.
pub trait BodySchema: Sync {
    /// Returns the name of the schema.
    fn name(&self) -> &'static str;

    /// Returns the schema and those of the components it refers to, each with its name. The schema of the body is the last one.
    fn schemas(&self) -> Vec<(String, Value)>;

    /// Returns an example of the body.
    fn example(&self) -> Option<Value>;
}

/// The request body of an operation.
#[derive(Clone, Copy)]
pub enum Body {
    /// No body.
    None,
    /// A JSON body.
    Json {
        /// Name and schemas, computed only for a document.
        schema: &'static dyn BodySchema,
        /// `false` if the body may be absent.
        required: bool,
    },
    /// A binary body.
    Bytes,
}

/// The body of a successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Success {
    /// The response has no body, or no successful response is declared.
    Nothing,
    /// A JSON document without the `data` envelope.
    Document,
    /// A binary body.
    File,
    /// An object with this schema, in the envelope.
    One(&'static str),
    /// A list of objects with this schema, in the envelope.
    List(&'static str),
}

/// Returns `data` in the envelope of a single object.
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
#[derive(Clone)]
pub struct EndpointDocs {
    /// The method, in lowercase.
    pub method: &'static str,
    /// The path template relative to the base of the API. `{name:.+}` is a parameter that may contain slashes.
    pub path: String,
    /// The `operationId`.
    pub id: &'static str,
    /// The summary, on one line.
    pub summary: &'static str,
    /// The tag, which is the section of the document.
    pub tag: &'static str,
    /// The description, in Markdown: what a client cannot infer from the rest of the document.
    pub description: Option<&'static str>,
    /// Which credential the operation needs.
    pub credential: Credential,
    /// Whether the operation changes nothing although its method is not `get`.
    pub is_read: bool,
    /// The query parameters, as names of parameter components.
    pub query: &'static [&'static str],
    /// Names of the components of header parameters beyond those that follow from the method and the error sets.
    pub headers: &'static [&'static str],
    /// The request body.
    pub body: Body,
    /// The HTTP status of a successful response.
    pub status: u16,
    /// The body of a successful response.
    pub data: Success,
    /// Letters of the error sets of the API's contract.
    pub error_sets: &'static str,
    /// HTTP statuses of errors beyond those sets.
    pub errors: &'static [u16],
    /// Builds the body of the successful response in the example, if it is not that of the schema.
    pub shows: Option<fn() -> Value>,
}

impl EndpointDocs {
    /// Creates an operation without query and body that needs a credential and responds with status 200 and no data.
    pub fn new(method: &'static str, path: &str, id: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            id,
            summary,
            tag: "",
            description: None,
            credential: Credential::Required,
            is_read: false,
            query: &[],
            headers: &[],
            body: Body::None,
            status: 200,
            data: Success::Nothing,
            error_sets: "",
            errors: &[],
            shows: None,
        }
    }

    /// Returns `true` if an access token needs the scope to write, and is refused with 403 otherwise.
    pub fn writes(&self) -> bool {
        self.method != "get" && !self.is_read && self.credential != Credential::Ignored
    }

    /// Returns the operation as the document describes it. `headers` names the components of its header parameters.
    pub fn describe(&self, headers: &[&str], responses: Value) -> Value {
        let names = path_parameters(&self.path).chain(self.query.iter().copied()).chain(headers.iter().copied());
        let parameters: Vec<Value> = names.map(|name| reference("parameters", name)).collect();
        let mut described = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "security": self.credential.requirement(if self.writes() { WRITE_SCOPE } else { READ_SCOPE }),
            "responses": responses,
        });
        if let Some(text) = self.description {
            described["description"] = text.into();
        }
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        if let Some(body) = self.request_body() {
            described["requestBody"] = body;
        }
        described
    }

    fn request_body(&self) -> Option<Value> {
        match self.body {
            Body::None => None,
            Body::Json { schema, required } => {
                let mut content = json!({"schema": reference("schemas", schema.name())});
                if let Some(example) = schema.example() {
                    content["example"] = example;
                }
                Some(json!({"required": required, "content": {"application/json": content}}))
            }
            Body::Bytes => {
                let content = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
                Some(json!({"required": true, "content": content}))
            }
        }
    }

    /// Returns the path template as in the document, without patterns.
    pub fn template(&self) -> String {
        self.path.replace(":.+}", "}")
    }

    /// Returns the body of the successful response in the example. `object` returns the example of a schema.
    pub fn success_example(&self, object: impl Fn(&str) -> Value) -> Option<Value> {
        if let Some(shows) = self.shows {
            return Some(shows());
        }
        match self.data {
            Success::Nothing | Success::File => None,
            Success::Document => Some(json!({"openapi": "3.1.0"})),
            Success::One(name) => Some(one(object(name))),
            Success::List(name) => Some(list_of(object(name))),
        }
    }
}
