//! A reader for the fields of a JSON body. The reader collects all errors before it refuses the request.

mod cell_values;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::identity;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::rc::Rc;

use branchyard_problem_details::{ErrorCode, FieldError, Problem, escape_pointer_token};
use serde_json::{Value, json};

use crate::field_text::FieldText;
use crate::json::Json;
use crate::object_schema::{self, ObjectSchema, Rules};
use crate::validation_errors::ValidationErrors;
use crate::words::Words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReaderMode {
    /// Unknown fields are refused. `null` means absent.
    Closed,
    /// Unknown fields are ignored. `null` means absent.
    Open,
    /// Unknown fields are refused. `null` is a value. At least one field is required.
    Patch,
}

/// The fields of one object. Every reader returns `None` if the field is absent or invalid. An invalid field is recorded as a
/// validation error.
pub struct Fields<'a> {
    members: &'a [(String, Json)],
    pointer: String,
    known: RefCell<Vec<&'static str>>,
    faults: &'a ValidationErrors,
    mode: ReaderMode,
    /// `Some` while the reader records its schema instead of reading a body.
    schema: Option<Rc<ObjectSchema>>,
}

/// Reads an object and ignores unknown fields. An empty body counts as an empty object.
///
/// # Errors
/// 400 with all validation errors.
pub fn read_open<T>(body: &[u8], read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, Problem> {
    read_body(body, ReaderMode::Open, read)
}

pub(crate) fn read_body<T>(
    body: &[u8],
    mode: ReaderMode,
    read: impl FnOnce(&Fields<'_>) -> Option<T>,
) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    let json: Json = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    let faults = ValidationErrors::default();
    json.check("", &faults);
    let value = match &json {
        Json::Object(members) => {
            let fields = Fields::new(members, String::new(), &faults, mode);
            let value = read(&fields);
            fields.finish();
            if mode == ReaderMode::Patch && members.is_empty() {
                faults.add(FieldError::at_pointer("", "names nothing to change"));
            }
            value
        }
        other => {
            faults.add(FieldError::at_pointer("", format!("must be an object, not {}", other.kind())));
            None
        }
    };
    faults.settle(value)
}

/// Returns a 400 with the line and column at which the body stops being valid JSON.
fn malformed(error: &serde_json::Error) -> Problem {
    let text = format!("the body is not valid JSON at line {}, column {}", error.line(), error.column());
    Problem::new(ErrorCode::ValidationFailed, text.clone()).with_error(FieldError::at_pointer("", text))
}

impl<'a> Fields<'a> {
    fn new(members: &'a [(String, Json)], pointer: String, faults: &'a ValidationErrors, mode: ReaderMode) -> Self {
        Self { members, pointer, known: RefCell::default(), faults, mode, schema: None }
    }

    /// Runs a reader on an empty object and returns the schema of the fields that it requests.
    pub(crate) fn describe<T>(mode: ReaderMode, read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Rc<ObjectSchema> {
        let (faults, schema) = (ValidationErrors::default(), Rc::new(ObjectSchema::new(mode)));
        read(&Fields { schema: Some(Rc::clone(&schema)), ..Fields::new(&[], String::new(), &faults, mode) });
        schema
    }

    /// Sets the description of the next field. Affects the OpenAPI document only.
    pub fn doc(&self, text: &'static str) -> &Self {
        self.rules(|rules| rules.doc(text))
    }

    /// Adds rules to the schema of the next field, beyond those of its type. Affects the OpenAPI document only.
    pub fn schema(&self, more: fn() -> Value) -> &Self {
        self.rules(|rules| rules.more(more))
    }

    /// Makes the next field, which must be an object, a component of the OpenAPI document with this name.
    pub fn component(&self, name: &'static str) -> &Self {
        self.rules(|rules| rules.component(name))
    }

    /// Adds rules to the schema of the object itself. Affects the OpenAPI document only.
    pub fn describe_object(&self, more: fn() -> Value) {
        if let Some(schema) = &self.schema {
            schema.describe(more);
        }
    }

    fn rules(&self, change: impl FnOnce(&mut Rules)) -> &Self {
        if let Some(schema) = &self.schema {
            schema.next_field(change);
        }
        self
    }

    /// Records a field if the reader is recording its schema.
    fn record(&self, name: &str, required: bool, of: impl FnOnce() -> Value) {
        if let Some(schema) = &self.schema {
            schema.field(name, required, of());
        }
    }

    fn finish(&self) {
        if self.mode == ReaderMode::Open {
            return;
        }
        let known = self.known.borrow();
        for (name, _) in self.members.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            self.fault(name, "is not a field of this request");
        }
    }

    fn place(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, escape_pointer_token(name))
    }

    /// Records an error of a field.
    pub fn fault(&self, name: &str, text: impl Into<String>) {
        self.faults.add(FieldError::at_pointer(self.place(name), text));
    }

    /// Records an error of the object as a whole.
    pub fn fault_here(&self, text: impl Into<String>) {
        self.faults.add(FieldError::at_pointer(self.pointer.clone(), text));
    }

    /// Returns `true` if a field of any type is present. In a PATCH, `null` counts as present.
    pub fn has(&self, name: &'static str) -> bool {
        self.get(name).is_some()
    }

    /// Returns a field of any type. `null` counts as absent, except in a PATCH.
    fn get(&self, name: &'static str) -> Option<&'a Json> {
        self.known.borrow_mut().push(name);
        let (_, value) = self.members.iter().find(|(member, _)| member == name)?;
        (*value != Json::Null || self.mode == ReaderMode::Patch).then_some(value)
    }

    fn required_value(&self, name: &'static str) -> Option<&'a Json> {
        let value = self.get(name);
        if value.is_none() {
            self.fault(name, "is required");
        }
        value
    }

    fn wrong(&self, name: &str, wanted: &str, value: &Json) {
        self.fault(name, format!("must be {wanted}, not {}", value.kind()));
    }

    fn string_of(&self, name: &'static str, value: &'a Json) -> Option<&'a str> {
        match value {
            Json::String(text) => Some(text),
            other => {
                self.wrong(name, "a string", other);
                None
            }
        }
    }

    /// Reads a required string.
    pub fn required_string(&self, name: &'static str) -> Option<String> {
        self.record(name, true, object_schema::text);
        let value = self.required_value(name)?;
        self.string_of(name, value).map(str::to_owned)
    }

    /// Reads an optional string.
    pub fn optional_string(&self, name: &'static str) -> Option<String> {
        self.record(name, false, object_schema::text);
        let value = self.get(name)?;
        self.string_of(name, value).map(str::to_owned)
    }

    /// Reads a required string of at least one character.
    pub fn required_text(&self, name: &'static str) -> Option<String> {
        self.record(name, true, || json!({"type": "string", "minLength": 1}));
        self.parse_required(name, |text| if text.is_empty() { Err("must not be empty") } else { Ok(text.to_owned()) })
    }

    fn parsed<T, E: Display>(
        &self,
        name: &'static str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        parse(text).map_err(|error| self.fault(name, error.to_string())).ok()
    }

    fn parse_required<T, E: Display>(&self, name: &'static str, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let value = self.required_value(name)?;
        self.parsed(name, self.string_of(name, value)?, parse)
    }

    fn parse_optional<T, E: Display>(&self, name: &'static str, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let value = self.get(name)?;
        self.parsed(name, self.string_of(name, value)?, parse)
    }

    /// Reads a required string that must follow the rules of `T`.
    pub fn required<T: FieldText>(&self, name: &'static str) -> Option<T> {
        self.record(name, true, T::schema);
        self.parse_required(name, T::parse)
    }

    /// Reads an optional string that must follow the rules of `T`.
    pub fn optional<T: FieldText>(&self, name: &'static str) -> Option<T> {
        self.record(name, false, T::schema);
        self.parse_optional(name, T::parse)
    }

    /// Reads a field of a PATCH: a string that must follow the rules of `T`, or `null`, which is read as `""`.
    pub fn clearable<T: FieldText>(&self, name: &'static str) -> Option<T> {
        if let Some(schema) = &self.schema {
            schema.clearable_field(name, T::schema());
        }
        self.clearable_as(name, T::parse)
    }

    /// Reads a required string and parses it.
    pub fn required_as<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.record(name, true, object_schema::text);
        self.parse_required(name, parse)
    }

    /// Reads an optional string and parses it.
    pub fn optional_as<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.record(name, false, object_schema::text);
        self.parse_optional(name, parse)
    }

    /// Reads a field of a PATCH: a string to parse, or `null`, which is parsed as `""`.
    pub fn clearable_as<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = match self.get(name)? {
            Json::Null => "",
            value => self.string_of(name, value)?,
        };
        self.parsed(name, text, parse)
    }

    /// Records a field whose schema contains the schema of a set of words.
    fn record_words<T>(&self, name: &str, required: bool, words: &Words<T>, of: impl FnOnce(Value) -> Value) {
        if let Some(schema) = &self.schema {
            let word = schema.words(words.name(), words.schema());
            schema.field(name, required, of(word));
        }
    }

    /// Reads a required string that must be one of a set of words.
    pub fn required_choice<T: Copy>(&self, name: &'static str, choices: &Words<T>) -> Option<T> {
        self.record_words(name, true, choices, identity);
        self.parse_required(name, |text| choices.parse(text))
    }

    /// Reads an optional string that must be one of a set of words.
    pub fn optional_choice<T: Copy>(&self, name: &'static str, choices: &Words<T>) -> Option<T> {
        self.record_words(name, false, choices, identity);
        self.parse_optional(name, |text| choices.parse(text))
    }

    /// Reads an optional array of words of a set. The array must not be empty, and no word may occur twice.
    pub fn optional_choices<T: Copy + Ord>(&self, name: &'static str, choices: &Words<T>) -> Option<BTreeSet<T>> {
        self.record_words(name, false, choices, object_schema::set_of);
        let items = match self.get(name)? {
            Json::Array(items) if !items.is_empty() => items,
            Json::Array(_) => {
                self.fault(name, format!("must hold at least one of {}", choices.spellings()));
                return None;
            }
            other => {
                self.wrong(name, "an array", other);
                return None;
            }
        };
        let mut chosen = BTreeSet::new();
        let mut good = true;
        for (n, item) in items.iter().enumerate() {
            let word = match item {
                Json::String(text) => choices.parse(text),
                _ => Err(choices.expected()),
            };
            let text = match word {
                Ok(choice) if chosen.insert(choice) => continue,
                Ok(_) => "is there twice".to_owned(),
                Err(text) => text,
            };
            self.faults.add(FieldError::at_pointer(format!("{}/{n}", self.place(name)), text));
            good = false;
        }
        good.then_some(chosen)
    }

    fn int_of(&self, name: &'static str, value: &Json, range: &RangeInclusive<u64>) -> Option<u64> {
        let number = match value {
            Json::Int(number) => *number,
            other => {
                self.wrong(name, "an integer", other);
                return None;
            }
        };
        let fits = u64::try_from(number).ok().filter(|number| range.contains(number));
        if fits.is_none() {
            const ENDLESS: u64 = i64::MAX as u64;
            let text = match *range.end() {
                ENDLESS.. => format!("must be at least {}", range.start()),
                end => format!("must be {} to {end}", range.start()),
            };
            self.fault(name, text);
        }
        fits
    }

    /// Reads a required integer in the range.
    pub fn required_int(&self, name: &'static str, range: &RangeInclusive<u64>) -> Option<u64> {
        self.record(name, true, || object_schema::integer(range));
        let value = self.required_value(name)?;
        self.int_of(name, value, range)
    }

    /// Reads an optional integer in the range.
    pub fn optional_int(&self, name: &'static str, range: &RangeInclusive<u64>) -> Option<u64> {
        self.record(name, false, || object_schema::integer(range));
        let value = self.get(name)?;
        self.int_of(name, value, range)
    }

    /// Reads an optional boolean.
    pub fn optional_bool(&self, name: &'static str) -> Option<bool> {
        self.record(name, false, object_schema::boolean);
        self.bool_of(name, self.get(name)?)
    }

    fn bool_of(&self, name: &'static str, value: &Json) -> Option<bool> {
        match value {
            Json::Bool(value) => Some(*value),
            other => {
                self.wrong(name, "a boolean", other);
                None
            }
        }
    }

    fn inner<T>(&self, pointer: String, value: &'a Json, read: impl FnOnce(&Fields<'a>) -> Option<T>) -> Option<T> {
        let Json::Object(members) = value else {
            self.faults.add(FieldError::at_pointer(pointer, format!("must be an object, not {}", value.kind())));
            return None;
        };
        let inner = Fields::new(members, pointer, self.faults, self.mode);
        let read = read(&inner);
        inner.finish();
        read
    }

    /// Reads a required boolean.
    pub fn required_bool(&self, name: &'static str) -> Option<bool> {
        self.record(name, true, object_schema::boolean);
        self.bool_of(name, self.required_value(name)?)
    }

    /// Returns a required field of any type, unparsed. `schema` returns its JSON schema.
    pub fn required_json(&self, name: &'static str, schema: fn() -> Value) -> Option<&'a Json> {
        self.record(name, true, schema);
        self.required_value(name)
    }

    /// Reads an optional object. Returns `Some(None)` if it is absent, and `None` if it is invalid.
    pub fn optional_object<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Fields<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.schema.is_some() {
            self.record_object(name, false, read);
            return None;
        }
        match self.get(name) {
            None => Some(None),
            Some(value) => self.inner(self.place(name), value, read).map(Some),
        }
    }

    fn record_object<T>(&self, name: &str, required: bool, read: impl FnOnce(&Fields<'a>) -> Option<T>) {
        let Some(schema) = &self.schema else { return };
        let inner = Rc::new(ObjectSchema::new(self.mode));
        read(&Fields { schema: Some(Rc::clone(&inner)), ..Fields::new(&[], String::new(), self.faults, self.mode) });
        schema.object(name, required, &inner);
    }

    /// Reads a required object.
    pub fn required_object<T>(&self, name: &'static str, read: impl FnOnce(&Fields<'a>) -> Option<T>) -> Option<T> {
        if self.schema.is_some() {
            self.record_object(name, true, read);
            return None;
        }
        let value = self.required_value(name)?;
        self.inner(self.place(name), value, read)
    }

    fn array(&self, name: &'static str) -> Option<&'a [Json]> {
        match self.required_value(name)? {
            Json::Array(items) => Some(items),
            other => {
                self.wrong(name, "an array", other);
                None
            }
        }
    }

    /// Reads a required array of objects.
    pub fn required_objects<T>(&self, name: &'static str, read: impl Fn(&Fields<'a>) -> Option<T>) -> Option<Vec<T>> {
        if self.schema.is_some() {
            self.rules(Rules::array);
            self.record_object(name, true, &read);
            return None;
        }
        let items = self.array(name)?;
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(n, item)| self.inner(format!("{}/{n}", self.place(name)), item, &read))
            .collect();
        read.into_iter().collect()
    }

    /// Reads an optional array of objects; empty if absent.
    pub fn optional_objects<T>(&self, name: &'static str, read: impl Fn(&Fields<'a>) -> Option<T>) -> Option<Vec<T>> {
        if self.schema.is_some() {
            self.rules(Rules::array);
            self.record_object(name, false, &read);
            return None;
        }
        let items = match self.get(name) {
            None => return Some(Vec::new()),
            Some(Json::Array(items)) => items,
            Some(other) => {
                self.wrong(name, "an array", other);
                return None;
            }
        };
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(n, item)| self.inner(format!("{}/{n}", self.place(name)), item, &read))
            .collect();
        read.into_iter().collect()
    }

    /// Reads a required array of strings.
    pub fn required_strings(&self, name: &'static str) -> Option<Vec<String>> {
        self.record(name, true, object_schema::strings);
        let items = self.array(name)?;
        let read: Vec<Option<String>> = items
            .iter()
            .enumerate()
            .map(|(n, item)| match item {
                Json::String(text) => Some(text.clone()),
                other => {
                    let place = format!("{}/{n}", self.place(name));
                    self.faults.add(FieldError::at_pointer(place, format!("must be a string, not {}", other.kind())));
                    None
                }
            })
            .collect();
        read.into_iter().collect()
    }

    /// Reads an object of strings; empty if absent.
    pub fn string_map(&self, name: &'static str) -> Option<BTreeMap<String, String>> {
        self.record(name, false, || object_schema::map_of(object_schema::text()));
        self.map_of(name, |text| Ok::<_, String>(text.to_owned()))
    }

    /// Reads an object whose values are words of a set; empty if absent.
    pub fn word_map<T: Copy>(&self, name: &'static str, choices: &Words<T>) -> Option<BTreeMap<String, T>> {
        self.record_words(name, false, choices, object_schema::map_of);
        self.map_of(name, |text| choices.parse(text))
    }

    /// Reads an object of strings and parses each value; empty if absent.
    pub fn map_of<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<BTreeMap<String, T>> {
        let members = match self.get(name) {
            None => return Some(BTreeMap::new()),
            Some(Json::Object(members)) => members,
            Some(other) => {
                self.wrong(name, "an object", other);
                return None;
            }
        };
        let read = members.iter().map(|(member, value)| {
            let place = format!("{}/{}", self.place(name), escape_pointer_token(member));
            let parsed = match value {
                Json::String(text) => parse(text).map_err(|error| error.to_string()),
                other => Err(format!("must be a string, not {}", other.kind())),
            };
            match parsed {
                Ok(value) => Some((member.clone(), value)),
                Err(text) => {
                    self.faults.add(FieldError::at_pointer(place, text));
                    None
                }
            }
        });
        // Collected before the check for `None`, so that the errors of all members are recorded.
        let read: Vec<Option<(String, T)>> = read.collect();
        read.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
