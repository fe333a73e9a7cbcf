//! Schemas of the components of a document.

use std::collections::BTreeMap;

use branchyard_problem_details::ErrorCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::operation::{Body, EndpointDocs, Success};

/// Returns `{"$ref": "#/components/{kind}/{name}"}`.
pub fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

/// The schemas of a document, by name.
#[derive(Default)]
pub struct Schemas(Map<String, Value>);

impl Schemas {
    /// Adds the schema of a type and the schemas it refers to. `refine` first adds to each schema the rules that the type
    /// cannot express.
    pub fn add<T: ToSchema + PartialSchema>(&mut self, refine: &impl Fn(&str, &mut Value)) {
        let mut found: Vec<(String, RefOr<Schema>)> = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            let mut json = json!(schema);
            refine(&name, &mut json);
            self.0.insert(name, json);
        }
    }

    /// Adds a schema.
    pub fn insert(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    /// Adds the schemas of the bodies of operations and the schemas they refer to, each after `refine`. A schema that exists
    /// already is kept.
    pub fn add_bodies<'a>(
        &mut self,
        operations: impl IntoIterator<Item = &'a EndpointDocs>,
        refine: &impl Fn(&str, &mut Value),
    ) {
        for operation in operations {
            let Body::Json { schema, .. } = operation.body else { continue };
            for (name, mut schema) in schema.schemas() {
                if !self.0.contains_key(&name) {
                    refine(&name, &mut schema);
                    self.0.insert(name, schema);
                }
            }
        }
    }

    /// Converts the schemas to a JSON object, by name.
    pub fn into_value(self) -> Value {
        self.0.into()
    }
}

/// Returns the schema of a successful response; `None` if it has no JSON body.
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

/// Removes `null` from the types of a property that has exactly one other type.
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

/// Returns the schema of the codes of problem documents.
pub fn error_code() -> Value {
    let names: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    json!({"type": "string", "enum": names, "description": "More codes may be added. Treat an unknown code according to its status."})
}

/// Sorts the members of all objects by name. Without sorting, the order would depend on the features of `serde_json` in the
/// build.
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
