//! Values of cells in requests: what an answer shows of a cell, and bytes as `{"base64": …}` (v2 §6.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::entities::{EditedValue, NumberLiteral};
use branchyard_problem_details::{FieldError, escape_pointer_token};
use serde_json::{Value, json};

use super::Fields;
use crate::json::Json;

/// A column and its value.
pub type NamedValue = (String, EditedValue);

/// Reads the value of a cell.
///
/// # Errors
/// The reason why it is none, worded for a field.
pub fn cell_value(value: &Json) -> Result<EditedValue, String> {
    const WANTED: &str = "must be null, a string, a number or {\"base64\": \"…\"}";
    match value {
        Json::Null => Ok(EditedValue::Null),
        Json::String(text) => Ok(EditedValue::Text(text.clone())),
        Json::Int(number) => {
            let number = i64::try_from(*number).map_err(|_| "does not fit 64 bits; send it as a string".to_owned())?;
            Ok(EditedValue::Number(NumberLiteral::integer(number)))
        }
        Json::Float(number) => NumberLiteral::real(*number).map(EditedValue::Number).ok_or_else(|| WANTED.to_owned()),
        Json::Object(members) => match members.as_slice() {
            [(name, Json::String(text))] if name == "base64" => {
                STANDARD.decode(text).map(EditedValue::Blob).map_err(|_| "is not base64".to_owned())
            }
            _ => Err(WANTED.to_owned()),
        },
        Json::Bool(_) | Json::Array(_) => Err(format!("{WANTED}, not {}", value.kind())),
    }
}

/// Returns the JSON schema of an object of cells.
pub fn cells_schema() -> Value {
    let bytes = json!({
        "type": "object",
        "required": ["base64"],
        "properties": {"base64": {"type": "string", "contentEncoding": "base64"}},
        "additionalProperties": false,
    });
    let any = json!([{"type": "string"}, {"type": "number"}, bytes, {"type": "null"}]);
    json!({"type": "object", "description": "Column → value.", "additionalProperties": {"oneOf": any}})
}

impl Fields<'_> {
    /// Reads an object of cells; empty if absent.
    pub fn cells(&self, name: &'static str) -> Option<Vec<NamedValue>> {
        self.record(name, false, cells_schema);
        let members = match self.get(name) {
            None => return Some(Vec::new()),
            Some(Json::Object(members)) => members,
            Some(other) => {
                self.wrong(name, "an object", other);
                return None;
            }
        };
        let mut seen = std::collections::HashSet::new();
        let read = members.iter().map(|(column, value)| {
            let place = format!("{}/{}", self.place(name), escape_pointer_token(column));
            let read = match seen.insert(column.to_ascii_lowercase()) {
                true => cell_value(value),
                false => Err("is there twice".to_owned()),
            };
            match read {
                Ok(value) => Some((column.clone(), value)),
                Err(text) => {
                    self.faults.add(FieldError::at_pointer(place, text));
                    None
                }
            }
        });
        // Collected before the check for `None`, so that the errors of all cells are recorded.
        let read: Vec<Option<NamedValue>> = read.collect();
        read.into_iter().collect()
    }
}
