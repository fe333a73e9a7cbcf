//! Makes the objects of a document refuse fields that their schemas do not name.

use std::collections::BTreeSet;

use serde_json::Value;

/// Closes every object schema that names its fields, except schemas that others extend by `allOf`.
pub(crate) fn close_objects(document: &mut Value) {
    let mut extended = BTreeSet::new();
    collect_extended(document, &mut extended);
    if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        for (name, schema) in schemas {
            if !extended.contains(&format!("#/components/schemas/{name}")) {
                close(schema);
            }
        }
    }
    if let Some(paths) = document.get_mut("paths") {
        close(paths);
    }
}

/// Collects the references inside `allOf`.
fn collect_extended(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for part in members.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                found.extend(part["$ref"].as_str().map(str::to_owned));
            }
            members.values().for_each(|member| collect_extended(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_extended(item, found)),
        _ => {}
    }
}

fn close(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let names_fields = members.get("properties").is_some_and(Value::is_object) || members.contains_key("allOf");
            if names_fields && !members.contains_key("additionalProperties") {
                members.insert("unevaluatedProperties".to_owned(), false.into());
            }
            // The members of an `allOf` are closed together, by the enclosing schema.
            members.iter_mut().filter(|(name, _)| *name != "allOf").for_each(|(_, member)| close(member));
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
