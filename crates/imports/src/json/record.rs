//! Parsing the text of a record into values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::columns::{Columns, NameFault};
use crate::error::{FileError, RowError, RowErrors, shortened};
use crate::format::FileLimits;
use crate::number;
use crate::typed::Record;
use crate::value::CellValue;

/// A parser of records with the columns found so far.
#[derive(Debug, Default)]
pub(super) struct RecordParser {
    pub(super) columns: Columns,
    pub(super) limits: FileLimits,
}

impl RecordParser {
    /// Parses a record. Returns `false` if the record has defects, which are added to `errors`.
    pub(super) fn parse(&mut self, text: &str, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError> {
        let line = record.line;
        if !text.starts_with('{') {
            errors.push(RowError::new(line, None, "the record is not an object"));
            return Ok(false);
        }
        let found_before = errors.total();
        let mut filling = Filling { parser: self, record, errors, beyond: None };
        let mut json = serde_json::Deserializer::from_str(text);
        let read = (&mut filling).deserialize(&mut json).and_then(|()| json.end());
        match (filling.beyond, read) {
            (Some(beyond), _) => Err(FileError::at(line, beyond)),
            (None, Err(error)) => {
                errors.push(RowError::new(line, None, format!("not valid JSON: {}", without_place(&error))));
                Ok(false)
            }
            (None, Ok(())) => Ok(errors.total() == found_before),
        }
    }
}

/// Returns the message of a `serde_json` error without its location, which is relative to the record.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}

struct Filling<'a> {
    parser: &'a mut RecordParser,
    record: &'a mut Record,
    errors: &'a mut RowErrors,
    /// The detail of the error if the file exceeds a limit.
    beyond: Option<String>,
}

impl<'de> DeserializeSeed<'de> for &mut Filling<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Filling<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let line = self.record.line;
        while let Some(place) = map.next_key_seed(KeyLookup(self.parser))? {
            let raw: &RawValue = map.next_value()?;
            let place = match place {
                Ok(place) => place,
                Err(fault) if fault.fatal => {
                    self.beyond = Some(fault.detail);
                    return Err(A::Error::custom("beyond a limit"));
                }
                Err(fault) => {
                    self.errors.push(RowError::new(line, None, fault.detail));
                    continue;
                }
            };
            let name = &self.parser.columns.names()[place];
            let set = value(raw.get(), self.parser.limits).and_then(|value| self.record.set_once(place, value));
            if let Err(detail) = set {
                self.errors.push(RowError::new(line, Some(name), detail));
            }
        }
        Ok(())
    }
}

/// Looks up a key without copying it.
struct KeyLookup<'a>(&'a mut RecordParser);

impl<'de> DeserializeSeed<'de> for KeyLookup<'_> {
    type Value = Result<usize, NameFault>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyLookup<'_> {
    type Value = Result<usize, NameFault>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.columns.place(name, self.0.limits))
    }
}

/// Converts the text of a value that `serde_json` has validated.
fn value(raw: &str, limits: FileLimits) -> Result<CellValue, String> {
    match raw.as_bytes().first() {
        Some(b'"') => {
            let text: Cow<'_, str> = serde_json::from_str(raw).map_err(|error| without_place(&error))?;
            if text.len() > limits.value_bytes {
                Err(limits.too_long())
            } else {
                Ok(CellValue::Text(text.into_owned()))
            }
        }
        Some(b't') => Ok(CellValue::Integer(1)),
        Some(b'f') => Ok(CellValue::Integer(0)),
        Some(b'n') => Ok(CellValue::Null),
        Some(b'{' | b'[') => compact(raw, limits).map(CellValue::Text),
        _ => number(raw),
    }
}

/// Converts a number. It becomes an integer if it is written as one.
fn number(raw: &str) -> Result<CellValue, String> {
    if number::is_whole(raw) {
        let outside = || format!("{} is not a 64-bit integer", shortened(raw));
        return number::integer(raw).map(CellValue::Integer).ok_or_else(outside);
    }
    number::real(raw).map(CellValue::Real).ok_or_else(|| format!("{} is beyond the range of numbers", shortened(raw)))
}

/// Removes the white space between the tokens of valid JSON. Applies the rules for records: the keys of an object must be
/// unique, and numbers must be in range.
fn compact(raw: &str, limits: FileLimits) -> Result<String, String> {
    let mut text = String::with_capacity(raw.len().min(limits.value_bytes));
    let mut open: Vec<OpenContainer<'_>> = Vec::new();
    let mut rest = raw.trim_start_matches(is_blank);
    while let Some(first) = rest.bytes().next() {
        let token = &rest[..token_length(rest, first)];
        match first {
            b'[' | b'{' => {
                if open.len() == FileLimits::NESTING {
                    return Err(too_deep());
                }
                open.push(if first == b'{' {
                    OpenContainer::Object(HashSet::new(), true)
                } else {
                    OpenContainer::Array
                });
            }
            b']' | b'}' => {
                open.pop();
            }
            b',' => {
                if let Some(OpenContainer::Object(_, key_follows)) = open.last_mut() {
                    *key_follows = true;
                }
            }
            b'"' => {
                if let Some(OpenContainer::Object(keys, key_follows @ true)) = open.last_mut() {
                    *key_follows = false;
                    let key: Cow<'_, str> = serde_json::from_str(token).map_err(|error| without_place(&error))?;
                    if keys.contains(&key) {
                        return Err(twice(&key));
                    }
                    keys.insert(key);
                }
            }
            b'-' | b'0'..=b'9' => {
                number(token)?;
            }
            _ => {}
        }
        text.push_str(token);
        rest = rest[token.len()..].trim_start_matches(is_blank);
    }
    if text.len() > limits.value_bytes { Err(limits.too_long()) } else { Ok(text) }
}

/// An array or object that has not been closed.
enum OpenContainer<'a> {
    Array,
    /// The keys so far, and whether a key is next.
    Object(HashSet<Cow<'a, str>>, bool),
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Returns the length of the token at the start of valid JSON.
fn token_length(text: &str, first: u8) -> usize {
    let bytes = text.as_bytes();
    if first == b'"' {
        let mut at = 1;
        while at < bytes.len() && bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        return (at + 1).min(bytes.len());
    }
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    bytes.iter().position(|byte| !is_word(byte)).unwrap_or(bytes.len()).max(1)
}

/// Returns the error detail for a duplicate key inside a value.
pub(crate) fn twice(key: &str) -> String {
    format!("the key '{}' occurs twice in an object inside the value", shortened(key))
}

/// Returns the error detail for nesting beyond the limit.
pub(crate) fn too_deep() -> String {
    format!("nested deeper than {} levels", FileLimits::NESTING)
}
