//! The OpenAPI document: the table of operations, and the schemas of the wire types.

mod components;
mod operations;

use std::collections::BTreeMap;

use operations::{Body, Docs, OPERATIONS, Sends};
use serde_json::{Map, Value, json};

/// The OpenAPI 3.1 document of this API, as pretty JSON.
pub fn openapi() -> String {
    let mut paths: Map<String, Value> = Map::new();
    for docs in OPERATIONS {
        let path = paths.entry(format!("{}{}", crate::BASE, docs.path)).or_insert_with(|| json!({}));
        path[docs.method] = operation(docs);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Branchyard API",
            "version": "v2",
            "description": "Versioned SQL databases: branches, pull requests, releases, imports, SQL. Compatible with DoltHub API v2.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "{base_url}", "variables": {"base_url": {"default": "http://localhost"}}}],
        "tags": [{"name": "User"}, {"name": "Organization"}, {"name": "Database"}, {"name": "Operations"}],
        "paths": paths,
        "components": components::all(),
    });
    serde_json::to_string_pretty(&sorted(document)).unwrap_or_default()
}

/// Members by name, whether or not this build of `serde_json` keeps the order they were put in.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members.into_iter().collect();
            members.into_iter().map(|(name, member)| (name, sorted(member))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect::<Vec<_>>().into(),
        other => other,
    }
}

fn operation(docs: &Docs) -> Value {
    let mut parameters: Vec<Value> = path_parameters(docs.path);
    parameters.extend(docs.query.iter().map(|name| components::reference("parameters", name)));
    let mut shown = json!({
        "operationId": docs.id,
        "tags": [docs.tag],
        "summary": docs.summary,
        "security": security(docs),
        "responses": responses(docs),
    });
    if docs.errors.contains('K') {
        parameters.push(components::reference("parameters", "Idempotency-Key"));
    }
    if docs.errors.contains('M') {
        parameters.push(components::reference("parameters", "If-Match"));
    }
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    match docs.body {
        Body::None => {}
        Body::Json(name) => shown["requestBody"] = request_body(true, name),
        Body::OptionalJson(name) => shown["requestBody"] = request_body(false, name),
        Body::Bytes => {
            let content = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
            shown["requestBody"] = json!({"required": true, "content": content});
        }
    }
    shown
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|part| part.split('}').next());
    names.map(|name| components::reference("parameters", name)).collect()
}

fn security(docs: &Docs) -> Value {
    match docs.auth {
        operations::Auth::Open => json!([]),
        operations::Auth::Optional => json!([{}, {"bearer": []}]),
        operations::Auth::Required => json!([{"bearer": []}]),
    }
}

fn request_body(required: bool, schema: &str) -> Value {
    json!({"required": required, "content": {"application/json": {"schema": components::reference("schemas", schema)}}})
}

fn responses(docs: &Docs) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    responses.insert(docs.status.to_string(), success(docs));
    if docs.method == "put" && matches!(docs.sends, Sends::One(_)) {
        // What is put may not have been there.
        responses.insert("201".to_owned(), success(docs));
    }
    for status in statuses(docs) {
        responses.insert(status.to_string(), components::reference("responses", "Problem"));
    }
    responses.into()
}

fn success(docs: &Docs) -> Value {
    let schema = match docs.sends {
        Sends::Nothing => return json!({"description": "Stored.", "headers": {"ETag": {"schema": {"type": "string"}}}}),
        Sends::One(name) => {
            json!({"type": "object", "required": ["data"], "properties": {"data": components::reference("schemas", name)}})
        }
        Sends::List(name) => json!({
            "type": "object",
            "required": ["data", "meta"],
            "properties": {
                "data": {"type": "array", "items": components::reference("schemas", name)},
                "meta": components::reference("schemas", "Meta"),
            },
        }),
    };
    let mut content = json!({"application/json": {"schema": schema}});
    if docs.path.ends_with("/sql") {
        content["application/x-ndjson"] = json!({"schema": {"type": "string"}});
        content["text/csv"] = json!({"schema": {"type": "string"}});
    }
    json!({"description": docs.summary, "content": content})
}

/// The statuses of the error sets (v2 §1.7) and the operation's own, ascending.
fn statuses(docs: &Docs) -> Vec<u16> {
    let mut all = vec![401, 405, 429, 500, 503];
    for set in docs.errors.chars() {
        all.extend_from_slice(match set {
            'D' => &[404],
            'L' => &[400],
            'B' => &[400, 413, 415],
            'K' => &[400, 409, 422],
            'P' => &[403],
            'M' => &[412],
            _ => &[],
        });
    }
    all.extend_from_slice(docs.own);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/v2.json");

    fn document() -> Value {
        serde_json::from_str(&super::openapi()).unwrap()
    }

    #[test]
    fn the_committed_document_is_this_one() {
        let document = format!("{}\n", super::openapi());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(COMMITTED, &document).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap();
        assert!(committed == document, "{COMMITTED} differs; `cargo xtask openapi` writes it");
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document = document();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
        let mut routed = BTreeSet::new();
        for (method, path) in crate::routes() {
            routed.insert(format!("{method} {}{path}", crate::BASE));
        }
        assert_eq!(described, routed);
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        fn collect(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    for (name, member) in members {
                        match member.as_str() {
                            Some(target) if name == "$ref" => {
                                found.insert(target.to_owned());
                            }
                            _ => collect(member, found),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = BTreeSet::new();
        collect(&document, &mut found);
        for target in &found {
            assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
        }
        for kind in ["parameters", "responses"] {
            for name in document["components"][kind].as_object().unwrap().keys() {
                assert!(found.contains(&format!("#/components/{kind}/{name}")), "{kind} {name}");
            }
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let ids: Vec<&str> = super::OPERATIONS.iter().map(|docs| docs.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
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
