//! The responses of an operation: successes with examples, and refusals in the format of the operation.

use serde_json::{Map, Value, json};

use super::examples::{self, CSV};
use super::objects::{OBJECTS, ObjectField};
use super::operations::{Docs, Sends};
use super::parts::{headers, reference};
use super::refusals::{self, RefusalDocs};

/// Returns the responses of an operation by status.
pub(super) fn of(docs: &Docs) -> Value {
    let mut responses = json!({"200": success(docs)});
    let mut refused: Map<String, Value> = Map::new();
    for (status, refusal) in refusals::of_operation(docs) {
        let examples = refused.entry(status.to_string()).or_insert_with(|| json!({}));
        examples[refusal.name] = json!({"summary": refusal.text, "value": refused_with(docs, refusal)});
    }
    for (status, examples) in refused {
        let (text, own) = told(&status);
        let schema = reference("schemas", docs.error);
        let content = json!({"application/json": {"schema": schema, "examples": examples}});
        responses[status] = json!({"description": text, "headers": headers(own), "content": content});
    }
    responses
}

fn told(status: &str) -> (&'static str, &'static [&'static str]) {
    match status {
        "401" => ("Missing or invalid credential.", &["WWW-Authenticate"]),
        "403" => ("The scope of the access token is too narrow.", &["WWW-Authenticate"]),
        "404" => ("No such database, ref or table.", &[]),
        "413" => ("Too large.", &[]),
        "415" => ("Unsupported media type.", &[]),
        "429" => ("Too many requests or queued operations.", &["Retry-After"]),
        "500" => ("Server error.", &[]),
        "503" => ("Overloaded or shutting down.", &["Retry-After"]),
        _ => ("Refused; `message` gives the reason. Clients may rely on the beginnings of these texts.", &[]),
    }
}

fn success(docs: &Docs) -> Value {
    let mut own = vec!["Cache-Control"];
    let json_of = |schema: Value| json!({"application/json": {"schema": schema}});
    let mut content = match docs.sends {
        Sends::Document => json_of(json!({"type": "object", "additionalProperties": true})),
        Sends::One(name) => json_of(reference("schemas", name)),
        Sends::Either(one, other) => {
            json_of(json!({"oneOf": [reference("schemas", one), reference("schemas", other)]}))
        }
        Sends::Table => json!({"text/csv": {"schema": {"type": "string"}, "example": CSV}}),
        Sends::Archive => json!({"application/zip": {"schema": {"type": "string", "format": "binary"}}}),
    };
    if matches!(docs.sends, Sends::Table | Sends::Archive) {
        own.push("Content-Disposition");
    }
    if docs.id.starts_with("poll") {
        own.push("Retry-After");
    }
    let json = &mut content["application/json"];
    for (name, summary, value) in examples::of(docs.id).map(|example| example.answers).unwrap_or_default() {
        match name {
            "" => json["example"] = value,
            name => json["examples"][name] = json!({"summary": summary, "value": value}),
        }
    }
    if json.is_null()
        && let Some(content) = content.as_object_mut()
    {
        content.remove("application/json");
    }
    let text = if docs.id.starts_with("poll") { "The current status." } else { "Done or in progress." };
    json!({"description": text, "headers": headers(&own), "content": content})
}

/// Returns the example of a refusal. Fields that repeat the request have the values of the successful example.
fn refused_with(docs: &Docs, refusal: RefusalDocs) -> Value {
    let good = examples::of(docs.id).and_then(|example| example.answers.into_iter().next());
    let good = good.map(|(_, _, answer)| answer).unwrap_or_default();
    let groups = OBJECTS.iter().find(|(name, _)| *name == docs.error).map(|(_, groups)| groups.concat());
    let mut refused = json!({});
    for ObjectField { name, required, .. } in groups.unwrap_or_default() {
        let echo = || good.get(name).cloned().unwrap_or_else(|| "".into());
        let value: Value = match (name, docs.id) {
            ("status" | "query_execution_status", _) => "Error".into(),
            ("message" | "query_execution_message", _) => refusal.message.into(),
            // Clients detect a failure by an empty name.
            ("operation_name", "write") => "".into(),
            ("username", _) => "ana".into(),
            ("done", _) if refusal.name == "fork_failed" => true.into(),
            _ if !required => continue,
            _ => echo(),
        };
        refused[name] = value;
    }
    refused
}
