//! Schemas of components.

use std::collections::BTreeMap;

use branchyard_problem_details::ErrorCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::operation::{Body, Operation, Success};

/// Returns `{"$ref": "#/components/{kind}/{name}"}`.
pub fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

/// The schemas of a document, collected by name.
#[derive(Default)]
pub struct Schemas(Map<String, Value>);

impl Schemas {
    /// Adds a type with everything it refers to, each after `refine` has said what the type cannot.
    pub fn add<T: ToSchema + PartialSchema>(&mut self, refine: &impl Fn(&str, &mut Value)) {
        let mut found: Vec<(String, RefOr<Schema>)> = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            let mut json = serde_json::to_value(schema).unwrap_or_default();
            refine(&name, &mut json);
            self.0.insert(name, json);
        }
    }

    /// Adds a schema.
    pub fn insert(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    /// Adds the bodies of operations with everything they refer to, each after `refine`. A schema that is there already stays.
    pub fn add_bodies<'a>(
        &mut self,
        operations: impl IntoIterator<Item = &'a Operation>,
        refine: &impl Fn(&str, &mut Value),
    ) {
        for operation in operations {
            let Body::Json { schemas, .. } = &operation.body else { continue };
            for (name, schema) in schemas {
                self.0.entry(name.clone()).or_insert_with(|| {
                    let mut schema = schema.clone();
                    refine(name, &mut schema);
                    schema
                });
            }
        }
    }

    /// Returns the schemas by name.
    pub fn into_value(self) -> Value {
        self.0.into()
    }
}

/// Returns the schema of a success, `None` if it has no JSON body.
pub fn data_schema(data: Success) -> Option<Value> {
    Some(match data {
        Success::Nothing | Success::File => return None,
        Success::Document => json!({"type": "object", "additionalProperties": true}),
        Success::One(name) => {
            json!({"type": "object", "required": ["data"], "properties": {"data": reference("schemas", name)}})
        }
        Success::List(name) => json!({
            "type": "object",
            "required": ["data", "meta"],
            "properties": {
                "data": {"type": "array", "items": reference("schemas", name)},
                "meta": reference("schemas", "Meta"),
            },
        }),
    })
}

/// Removes `null` from what a property may be.
pub fn drop_null(property: &mut Value) {
    let without_null = |key: &str, is_null: fn(&Value) -> bool| {
        let mut choices = property.get(key)?.as_array()?.clone();
        choices.retain(|choice| !is_null(choice));
        <[Value; 1]>::try_from(choices).ok()
    };
    if let Some([one]) = without_null("type", |choice| choice == "null") {
        property["type"] = one;
    } else if let Some([one]) = without_null("oneOf", |choice| choice["type"] == "null") {
        *property = one;
    }
}

/// Returns the schema of the codes of problems.
pub fn error_code() -> Value {
    let names: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    json!({"type": "string", "enum": names, "description": "Open to additions: treat an unknown code by its status."})
}

/// Orders members by name, whether or not this build of `serde_json` keeps the order of insertion.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members.into_iter().collect();
            members.into_iter().map(|(name, member)| (name, sorted(member))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect::<Vec<_>>().into(),
        other => other,
    }
}
