//! The key of a row as a query parameter: a JSON object of columns and cells (v2 §6.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::entities::Cell;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The cells of a JSON object, with repeated columns.
struct Cells(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Columns;

        impl<'de> Visitor<'de> for Columns {
            type Value = Cells;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of columns and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cells, A::Error> {
                let mut cells = Vec::new();
                while let Some(cell) = map.next_entry()? {
                    cells.push(cell);
                }
                Ok(Cells(cells))
            }
        }

        deserializer.deserialize_map(Columns)
    }
}

/// Parses a key: `{"id":"4"}`, with `{"base64":"…"}` for the value of a blob.
///
/// # Errors
/// All faults, worded for the one who wrote the key.
pub fn parse_key_parameter(text: &str) -> Result<Vec<(String, Cell)>, Vec<String>> {
    let Ok(Cells(cells)) = serde_json::from_str(text) else {
        return Err(vec!["must be a JSON object of the columns of the primary key, such as {\"id\":\"4\"}".to_owned()]);
    };
    let (mut key, mut faults) = (Vec::new(), Vec::new());
    for (column, value) in cells {
        match cell(&value) {
            Some(cell) => key.push((column, cell)),
            None => {
                faults.push(format!(
                    "the value of '{column}' must be a string, a number, or {{\"base64\":\"…\"}} for a blob"
                ));
            }
        }
    }
    if faults.is_empty() { Ok(key) } else { Err(faults) }
}

fn cell(value: &Value) -> Option<Cell> {
    match value {
        Value::Null => Some(Cell::Null),
        Value::String(text) => Some(Cell::Text(text.clone().into_bytes())),
        // As its column stores it, like the text.
        Value::Number(number) => Some(Cell::Text(number.to_string().into_bytes())),
        Value::Object(object) if object.len() == 1 => {
            let base64 = object.get("base64")?.as_str()?;
            STANDARD.decode(base64).ok().map(Cell::Blob)
        }
        _ => None,
    }
}

/// Returns the parameter for a key whose values are these texts.
pub fn key_parameter<'a>(key: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    #[derive(Serialize)]
    #[serde(transparent)]
    struct Key(serde_json::Map<String, Value>);
    let cells = key.map(|(column, text)| (column.to_owned(), json!(text)));
    crate::api_response::to_json(&Key(cells.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_objects_of_texts_and_blobs() {
        let key = parse_key_parameter(r#"{"a":"x","b":{"base64":"AP8="},"c":null,"a":2.5}"#).unwrap();
        let text = |text: &str| Cell::Text(text.as_bytes().to_vec());
        let named = |name: &str, cell| (name.to_owned(), cell);
        let expected = [
            named("a", text("x")),
            named("b", Cell::Blob(vec![0, 255])),
            named("c", Cell::Null),
            named("a", text("2.5")),
        ];
        assert_eq!(key, expected);
        assert_eq!(key_parameter([("a", "x\"y"), ("b", "4")].into_iter()), r#"{"a":"x\"y","b":"4"}"#);
        for refused in ["", "4", "[]", "{", "null", r#"{"a":"x"} "#.repeat(2).as_str()] {
            assert_eq!(parse_key_parameter(refused).unwrap_err().len(), 1, "{refused}");
        }
        let faults =
            parse_key_parameter(r#"{"a":true,"b":{"base64":"?"},"c":{"base64":"","x":1},"d":"ok"}"#).unwrap_err();
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
