//! The shape of a JSON value.

use serde_json::{Map, Value};

/// Returns the shape of a value: each text, number and boolean is replaced by the name of its type, and an array by the
/// shapes that occur in it, each once. `null` stays, because a field that may be absent is part of the shape. Snapshots of
/// shapes need no redaction of ids and times.
pub fn shape_of(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(values) => {
            let mut shapes = Vec::new();
            for shape in values.iter().map(shape_of) {
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
            Value::Array(shapes)
        }
        Value::Object(members) => {
            let shaped = members.iter().map(|(name, value)| (name.clone(), shape_of(value)));
            Value::Object(shaped.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::shape_of;

    #[test]
    fn data_is_replaced_and_structure_stays() {
        let value = json!({"a": 1, "b": [true, false, "x", null], "c": {}, "d": []});
        assert_eq!(shape_of(&value), json!({"a": "number", "b": ["boolean", "string", null], "c": {}, "d": []}));
        assert_ne!(shape_of(&json!([1])), shape_of(&json!(["1"])));
        assert_ne!(shape_of(&json!({"a": null})), shape_of(&json!({})));
    }
}
