//! Reads objects of columns and their values: what an answer shows of a cell, and bytes as `{"base64": …}` (v2 §6.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::entities::{Cell, EditedValue, NumberLiteral};
use branchyard_problem_details::{FieldError, escape_pointer_token};
use serde_json::{Value, json};

use super::Fields;
use crate::json::Json;

const WANTED: &str = "must be a string, a number, null, or {\"base64\": \"…\"}";

/// Columns and their values, as an edit sets them.
type NamedValues = Vec<(String, EditedValue)>;
/// Columns and the cells that are looked for.
type Row = Vec<(String, Cell)>;

fn cell_value(value: &Json) -> Result<EditedValue, &'static str> {
    match value {
        Json::Null => Ok(EditedValue::Null),
        Json::String(text) => Ok(EditedValue::Text(text.clone())),
        Json::Int(number) => {
            let number = i64::try_from(*number).map_err(|_| "does not fit 64 bits; send it as a string")?;
            Ok(EditedValue::Number(NumberLiteral::integer(number)))
        }
        Json::Float(number) => NumberLiteral::real(*number).map(EditedValue::Number).ok_or(WANTED),
        Json::Object(members) => match members.as_slice() {
            [(name, Json::String(text))] if name == "base64" => {
                STANDARD.decode(text).map(EditedValue::Blob).map_err(|_| "is not base64")
            }
            _ => Err(WANTED),
        },
        Json::Bool(_) | Json::Array(_) => Err(WANTED),
    }
}

/// Returns a value as an answer shows it. The column that is compared with it decides what a number is.
fn shown(value: EditedValue) -> Cell {
    match value {
        EditedValue::Null => Cell::Null,
        EditedValue::Number(number) => Cell::Text(number.as_str().as_bytes().to_vec()),
        EditedValue::Text(text) => Cell::Text(text.into_bytes()),
        EditedValue::Blob(bytes) => Cell::Blob(bytes),
    }
}

fn schema() -> Value {
    let blob = json!({"type": "object", "required": ["base64"], "properties": {"base64": {"type": "string"}}});
    let cell = json!({"oneOf": [{"type": ["string", "number", "null"]}, blob]});
    json!({"type": "object", "additionalProperties": cell})
}

impl Fields<'_> {
    /// Reads an object of columns and their values; empty if absent.
    pub fn cells(&self, name: &'static str) -> Option<NamedValues> {
        self.record(name, false, schema);
        match self.get(name) {
            None => Some(Vec::new()),
            Some(value) => self.named_values(name, value),
        }
    }

    /// Reads a required object of columns and cells.
    pub fn required_row(&self, name: &'static str) -> Option<Row> {
        self.record(name, true, schema);
        self.row_of(name, self.required_value(name)?)
    }

    /// Reads an optional object of columns and cells. Returns `Some(None)` if it is absent, and `None` if it is invalid.
    pub fn optional_row(&self, name: &'static str) -> Option<Option<Row>> {
        self.record(name, false, schema);
        match self.get(name) {
            None => Some(None),
            Some(value) => self.row_of(name, value).map(Some),
        }
    }

    fn row_of(&self, name: &'static str, value: &Json) -> Option<Row> {
        let values = self.named_values(name, value)?;
        Some(values.into_iter().map(|(column, value)| (column, shown(value))).collect())
    }

    fn named_values(&self, name: &'static str, value: &Json) -> Option<NamedValues> {
        let Json::Object(members) = value else {
            self.wrong(name, "an object", value);
            return None;
        };
        let mut values = NamedValues::new();
        let mut is_valid = true;
        for (column, value) in members {
            let read = match values.iter().any(|(other, _)| other.eq_ignore_ascii_case(column)) {
                true => Err("occurs twice"),
                false => cell_value(value),
            };
            match read {
                Ok(value) => values.push((column.clone(), value)),
                Err(fault) => {
                    let place = format!("{}/{}", self.place(name), escape_pointer_token(column));
                    self.faults.add(FieldError::at_pointer(place, fault));
                    is_valid = false;
                }
            }
        }
        is_valid.then_some(values)
    }
}
