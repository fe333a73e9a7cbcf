//! Checks of a document by itself, without a server.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Checker;

/// Methods of a path item. Its other fields are not operations.
const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Returns what is wrong with an OpenAPI document, one line per finding:
///
/// - `routes`, pairs of a method in uppercase and a path template, are not exactly the operations of the document;
/// - an `operationId` is missing or occurs twice;
/// - a reference leads nowhere, or a component is not referenced and is not one of `unreferenced`;
/// - a JSON body of a request or a successful response has no example;
/// - an example does not fit its schema;
/// - a parameter or a header has no description.
///
/// # Panics
/// Panics if the document is not JSON.
pub fn lint(document: &str, routes: &[(&str, String)], unreferenced: &[&str]) -> Vec<String> {
    let mut lint = Lint { checker: Checker::new(document), findings: Vec::new() };
    let document = lint.checker.document().clone();
    lint.routes(&document, routes);
    lint.references(&document, unreferenced);
    lint.operations(&document);
    lint.components(&document);
    lint.findings
}

struct Lint {
    checker: Checker,
    findings: Vec<String>,
}

impl Lint {
    fn expect(&mut self, holds: bool, finding: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(finding());
        }
    }

    fn routes(&mut self, document: &Value, routes: &[(&str, String)]) {
        let described: BTreeSet<String> =
            operations(document).map(|(method, path, _)| format!("{} {path}", method.to_uppercase())).collect();
        let routed: BTreeSet<String> = routes.iter().map(|(method, path)| format!("{method} {path}")).collect();
        for route in routed.symmetric_difference(&described) {
            let what = if routed.contains(route) { "is not described" } else { "is described, but not routed" };
            self.findings.push(format!("{route} {what}"));
        }
    }

    fn references(&mut self, document: &Value, unreferenced: &[&str]) {
        let mut targets = BTreeSet::new();
        collect_references(document, &mut targets);
        for target in &targets {
            let leads = document.pointer(target.trim_start_matches('#')).is_some();
            self.expect(leads, || format!("{target} does not exist"));
        }
        for kind in ["parameters", "responses", "headers", "schemas"] {
            for (name, _) in members(&document["components"][kind]) {
                let target = format!("#/components/{kind}/{name}");
                let is_used = targets.contains(&target) || unreferenced.contains(&name);
                self.expect(is_used, || format!("{target} is not used"));
            }
        }
    }

    fn operations(&mut self, document: &Value) {
        let mut ids = BTreeSet::new();
        for (method, path, operation) in operations(document) {
            let id = operation["operationId"].as_str().unwrap_or_default();
            self.expect(!id.is_empty() && ids.insert(id), || {
                format!("{method} {path}: operationId `{id}` is not unique")
            });
            self.contents(id, &operation["requestBody"]["content"], true);
            for (status, response) in members(&operation["responses"]) {
                self.contents(&format!("{id} {status}"), &response["content"], status.starts_with('2'));
            }
        }
    }

    fn components(&mut self, document: &Value) {
        for (name, response) in members(&document["components"]["responses"]) {
            self.contents(name, &response["content"], false);
        }
        for kind in ["parameters", "headers"] {
            for (name, component) in members(&document["components"][kind]) {
                let is_described = component["description"].as_str().is_some_and(|text| text.len() > 5);
                self.expect(is_described, || format!("{kind} {name} has no description"));
            }
        }
    }

    fn contents(&mut self, place: &str, contents: &Value, needs_example: bool) {
        for (media_type, content) in members(contents) {
            let several = members(&content["examples"]).map(|(_, example)| &example["value"]);
            let examples: Vec<&Value> = several.chain(content.get("example")).collect();
            let is_missing = needs_example && media_type == "application/json" && examples.is_empty();
            self.expect(!is_missing, || format!("{place} {media_type} has no example"));
            for example in examples {
                if let Err(error) = self.checker.validate(&content["schema"], example) {
                    self.findings.push(format!("{place} {media_type}: the example does not fit: {error}"));
                }
            }
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, member)| (name.as_str(), member))
}

/// Returns method, path and description of each operation.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    members(&document["paths"]).flat_map(|(path, item)| {
        let methods = members(item).filter(|(method, _)| METHODS.contains(method));
        methods.map(move |(method, operation)| (method, path, operation))
    })
}

fn collect_references(value: &Value, targets: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| match member.as_str() {
            Some(target) if name == "$ref" => drop(targets.insert(target.to_owned())),
            _ => collect_references(member, targets),
        }),
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, targets)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lint;

    #[test]
    fn every_kind_of_finding_is_reported() {
        let text = json!({"type": "string"});
        let operation = json!({
            "operationId": "a",
            "requestBody": {"content": {"application/json": {"schema": text}}},
            "responses": {
                "200": {"content": {"application/json": {"schema": text, "example": 3}}},
                "404": {"$ref": "#/components/responses/NotFound"},
            },
        });
        let document = json!({
            "paths": {"/x": {"get": operation, "put": {"operationId": "a", "responses": {}}}},
            "components": {"headers": {"X-Y": {"description": ""}}, "schemas": {"Known": text}},
        });
        let routes = [("GET", "/x".to_owned()), ("DELETE", "/x".to_owned())];
        let findings = lint(&document.to_string(), &routes, &["Known"]);
        let starts = [
            "DELETE /x is not described",
            "PUT /x is described, but not routed",
            "#/components/responses/NotFound does not exist",
            "#/components/headers/X-Y is not used",
            "a application/json has no example",
            "a 200 application/json: the example does not fit",
            "put /x: operationId `a` is not unique",
            "headers X-Y has no description",
        ];
        assert_eq!(findings.len(), starts.len(), "{findings:#?}");
        for (finding, start) in findings.iter().zip(starts) {
            assert!(finding.starts_with(start), "{finding}");
        }
    }
}
