#![doc = include_str!("../README.md")]
//!
//! Checks responses of a server against its OpenAPI 3.1 document: status, media type, headers, and the body against its schema.
//!
//! Intended for test clients. A client that passes every response through a [`Checker`] cannot accept a response that the document
//! does not allow. Fields that the document does not name are errors too, although real clients must ignore them.

mod lint;
mod path;
mod strict;

pub use lint::lint;

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Value, json};

const PROBLEM: &str = "application/problem+json";
/// Headers that matter to clients. A response may contain one only if the document declares it.
const TELLING: &[&str] = &[
    "allow",
    "etag",
    "idempotent-replayed",
    "location",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "www-authenticate",
];

/// A response, with the parts of the request that identify its operation.
#[derive(Debug, Clone)]
pub struct CheckedAnswer<'a> {
    /// Method of the request, in uppercase.
    pub method: &'a str,
    /// Path of the request as it was sent, without the query.
    pub path: &'a str,
    /// Status code of the response.
    pub status: u16,
    /// Headers of the response, with lowercase names.
    pub headers: Vec<(String, String)>,
    /// Body of the response, without content coding.
    pub body: &'a [u8],
}

impl CheckedAnswer<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn media_type(&self) -> &str {
        self.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// Returns `true` if the response has no body, even where the document declares one.
    fn is_bare(&self) -> bool {
        self.method == "HEAD" || matches!(self.status, 204 | 304)
    }
}

/// An OpenAPI document, prepared for checks.
pub struct Checker {
    document: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Checker {
    /// Reads a document.
    ///
    /// # Panics
    /// Panics if the document is not JSON.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test stops where its set-up fails")]
    pub fn new(document: &str) -> Self {
        let mut document: Value = serde_json::from_str(document).expect("the document is JSON");
        strict::close_objects(&mut document);
        Self { document, validators: Mutex::default() }
    }

    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// Checks a response against the document.
    ///
    /// # Errors
    /// Describes the first violation.
    pub fn check(&self, answer: &CheckedAnswer<'_>) -> Result<(), String> {
        let at = format!("{} {} answered {}", answer.method, answer.path, answer.status);
        self.find(answer)
            .and_then(|response| self.check_response(answer, &response))
            .map_err(|fault| format!("{at}: {fault}"))
    }

    /// Returns the response object of the document that applies to a response.
    fn find(&self, answer: &CheckedAnswer<'_>) -> Result<Value, String> {
        let templates = self.document["paths"].as_object().into_iter().flatten().map(|(template, _)| template.as_str());
        let Some(template) = path::template(templates, answer.path) else {
            return match answer.status {
                404 => Ok(self.problem("NotFound")),
                other => Err(format!("the document has no such path, so {other} should be 404")),
            };
        };
        let item = &self.document["paths"][template];
        let method = if answer.method == "HEAD" { "get".to_owned() } else { answer.method.to_lowercase() };
        let Some(operation) = item.get(&method) else {
            let any = json!({"schema": {}});
            return match (answer.method, answer.status, answer.header("allow")) {
                ("OPTIONS", 204, Some(_)) => {
                    Ok(json!({"headers": {"Allow": any, "RateLimit": any, "RateLimit-Policy": any}}))
                }
                (_, 405, Some(_)) => Ok(self.problem("MethodNotAllowed")),
                _ => Err("the method is not in the document, so it should be 405 (OPTIONS: 204) with Allow".into()),
            };
        };
        match operation["responses"].get(answer.status.to_string()) {
            Some(response) => Ok(self.resolved(response).clone()),
            None => Err(format!("{} does not declare this status", operation["operationId"])),
        }
    }

    fn problem(&self, name: &str) -> Value {
        self.document["components"]["responses"][name].clone()
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
        target.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    fn check_response(&self, answer: &CheckedAnswer<'_>, response: &Value) -> Result<(), String> {
        self.check_headers(answer, response)?;
        let content = response["content"].as_object().filter(|content| !content.is_empty());
        if answer.is_bare() || content.is_none() {
            let empty = answer.body.is_empty();
            return empty.then_some(()).ok_or_else(|| "there should be no body".to_owned());
        }
        let media_type = answer.media_type();
        let declared = content.and_then(|content| content.get(media_type));
        let Some(schema) = declared.map(|declared| &declared["schema"]) else {
            return Err(format!("the media type {media_type:?} is not declared"));
        };
        match media_type {
            "application/json" | PROBLEM => self.check_json(answer.body, schema)?,
            "application/x-ndjson" => check_lines(answer.body)?,
            _ => {}
        }
        if media_type == PROBLEM { check_problem(answer) } else { Ok(()) }
    }

    fn check_headers(&self, answer: &CheckedAnswer<'_>, response: &Value) -> Result<(), String> {
        let declared = response["headers"].as_object();
        let lower = |name: &str| name.to_ascii_lowercase();
        for (name, header) in declared.into_iter().flatten() {
            let header = self.resolved(header);
            let Some(sent) = answer.header(&lower(name)) else {
                if header["required"] == true {
                    return Err(format!("the header {name} is missing"));
                }
                continue;
            };
            let value = sent.parse::<i64>().map_or_else(|_| json!(sent), |number| json!(number));
            let as_declared = if header["schema"]["type"] == "integer" { value } else { json!(sent) };
            self.validate(&header["schema"], &as_declared).map_err(|fault| format!("header {name}: {fault}"))?;
        }
        let names: Vec<String> = declared.into_iter().flatten().map(|(name, _)| lower(name)).collect();
        let telling = answer.headers.iter().find(|(name, _)| TELLING.contains(&name.as_str()) && !names.contains(name));
        telling.map_or(Ok(()), |(name, _)| Err(format!("the header {name} is sent and not declared")))
    }

    fn check_json(&self, body: &[u8], schema: &Value) -> Result<(), String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| format!("the body is no JSON: {error}"))?;
        self.validate(schema, &body)
    }

    /// Validates a value against a schema of the document.
    ///
    /// # Errors
    /// Describes the first five violations.
    pub fn validate(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let key = schema.to_string();
        let known = self.validators.lock().get(&key).cloned();
        let validator = match known {
            Some(validator) => validator,
            None => Arc::new(self.compile(schema)?),
        };
        self.validators.lock().insert(key, Arc::clone(&validator));
        let faults: Vec<String> =
            validator.iter_errors(value).take(5).map(|error| format!("{}: {error}", error.instance_path())).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    fn compile(&self, schema: &Value) -> Result<Validator, String> {
        let mut whole = json!({"allOf": [schema]});
        whole["components"] = self.document["components"].clone();
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).should_validate_formats(true);
        options.build(&whole).map_err(|error| format!("the schema is wrong: {error}"))
    }
}

fn check_lines(body: &[u8]) -> Result<(), String> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for line in lines {
        serde_json::from_slice::<Value>(line).map_err(|error| format!("a line is no JSON: {error}"))?;
    }
    Ok(())
}

/// Checks that a problem document repeats the status and the request id of its response.
fn check_problem(answer: &CheckedAnswer<'_>) -> Result<(), String> {
    let body: Value = serde_json::from_slice(answer.body).unwrap_or_default();
    if body["status"] != answer.status {
        return Err(format!("the problem says status {}", body["status"]));
    }
    let id = answer.header("x-request-id").unwrap_or_default();
    if body["request_id"] != id {
        return Err(format!("the problem says request id {}, the header {id}", body["request_id"]));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
