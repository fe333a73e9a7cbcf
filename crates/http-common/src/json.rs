//! JSON values that keep repeated keys, so that the reader can refuse them by name.

use std::fmt;

use branchyard_problem_details::{FieldError, escape_pointer_token};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::validation_errors::ValidationErrors;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction and exponent that fits an `i64` or a `u64`.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: its members in the order sent, including repeated keys.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Returns the kind of the value with its article, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Records an error for each repeated key and each NUL character.
    pub(crate) fn check(&self, pointer: &str, faults: &ValidationErrors) {
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => {}
            Self::String(text) => {
                if text.contains('\0') {
                    faults.add(FieldError::at_pointer(pointer, "holds a NUL character"));
                }
            }
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if matches!(item, Self::String(_) | Self::Array(_) | Self::Object(_)) {
                        item.check(&format!("{pointer}/{index}"), faults);
                    }
                }
            }
            Self::Object(members) => check_members(members, pointer, faults),
        }
    }
}

fn check_members(members: &[(String, Json)], pointer: &str, faults: &ValidationErrors) {
    let mut seen = std::collections::HashSet::with_capacity(members.len());
    for (name, value) in members {
        let place = format!("{pointer}/{}", escape_pointer_token(name));
        if name.contains('\0') {
            faults.add(FieldError::at_pointer(&place, "has a NUL character in its name"));
        }
        if !seen.insert(name.as_str()) {
            faults.add(FieldError::at_pointer(&place, "occurs more than once"));
        }
        value.check(&place, faults);
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}
