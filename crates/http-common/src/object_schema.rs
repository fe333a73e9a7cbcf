//! The JSON schema of an object, recorded from its reader. The reader is the only place that names the fields of a request.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use branchyard_openapi::reference;

use crate::field_text::NO_NUL_PATTERN;
use crate::fields::ReaderMode;

/// Rules that the next field adds to the schema of its type.
#[derive(Default)]
pub(crate) struct Rules {
    doc: Option<&'static str>,
    more: Option<fn() -> Value>,
    component: Option<&'static str>,
    is_array: bool,
}

impl Rules {
    pub(crate) fn doc(&mut self, text: &'static str) {
        self.doc = Some(text);
    }

    pub(crate) fn more(&mut self, more: fn() -> Value) {
        self.more = Some(more);
    }

    pub(crate) fn component(&mut self, name: &'static str) {
        self.component = Some(name);
    }

    /// Makes the next field an array of the objects that its reader describes.
    pub(crate) fn array(&mut self) {
        self.is_array = true;
    }
}

/// The fields that a reader requested, in the order of the requests, and the components that the fields refer to.
pub(crate) struct ObjectSchema {
    mode: ReaderMode,
    next: RefCell<Rules>,
    properties: RefCell<Map<String, Value>>,
    required: RefCell<Vec<String>>,
    about: RefCell<Map<String, Value>>,
    components: RefCell<Vec<(String, Value)>>,
}

impl ObjectSchema {
    pub(crate) fn new(mode: ReaderMode) -> Self {
        Self {
            mode,
            next: RefCell::default(),
            properties: RefCell::default(),
            required: RefCell::default(),
            about: RefCell::default(),
            components: RefCell::default(),
        }
    }

    /// Changes the rules of the next field.
    pub(crate) fn next_field(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.next.borrow_mut());
    }

    /// Adds rules to the schema of the object itself.
    pub(crate) fn describe(&self, more: fn() -> Value) {
        if let Value::Object(more) = more() {
            self.about.borrow_mut().extend(more);
        }
    }

    /// Records a field.
    pub(crate) fn field(&self, name: &str, required: bool, schema: Value) {
        // In a PATCH, `null` is a value. Elsewhere, `null` means absent.
        let nullable = !required && self.mode != ReaderMode::Patch;
        self.insert(name, required, nullable, schema);
    }

    /// Records a field of a PATCH that `null` clears.
    pub(crate) fn clearable_field(&self, name: &str, schema: Value) {
        self.next.borrow_mut().doc.get_or_insert("`\"\"` and `null` clear the description.");
        self.insert(name, false, true, schema);
    }

    fn insert(&self, name: &str, required: bool, nullable: bool, mut schema: Value) {
        let rules = self.next.take();
        if let Some(Value::Object(more)) = rules.more.map(|more| more()) {
            for (rule, value) in more {
                match (value, schema.as_object_mut()) {
                    // `null` removes a rule of the type.
                    (Value::Null, Some(schema)) => _ = schema.remove(&rule),
                    (value, _) => schema[rule] = value,
                }
            }
        }
        if let Some(text) = rules.doc {
            schema["description"] = text.into();
        }
        let is_text = schema["type"] == "string";
        if is_text && schema.get("pattern").is_none() && schema.get("enum").is_none() {
            schema["pattern"] = NO_NUL_PATTERN.into();
        }
        if nullable {
            schema = or_null(schema);
        }
        let twice = self.properties.borrow_mut().insert(name.to_owned(), schema);
        debug_assert_eq!(twice, None, "a reader requests a field once");
        if required {
            self.required.borrow_mut().push(name.to_owned());
        }
    }

    /// Records a field that is an object or an array of objects. `inner` is the recorded schema of one object.
    pub(crate) fn object(&self, name: &str, required: bool, inner: &Self) {
        let (component, is_array) = {
            let next = self.next.borrow();
            (next.component, next.is_array)
        };
        let schema = match component {
            None => inner.schema(),
            Some(component) => {
                self.components.borrow_mut().push((component.to_owned(), inner.schema()));
                reference("schemas", component)
            }
        };
        self.components.borrow_mut().append(&mut inner.components.borrow_mut());
        self.field(name, required, if is_array { json!({"type": "array", "items": schema}) } else { schema });
    }

    /// Returns the schema of a field that holds one word of a set: a reference to the component with this name, or the set itself if the
    /// name is empty.
    pub(crate) fn words(&self, name: &str, schema: Value) -> Value {
        if name.is_empty() {
            return schema;
        }
        self.components.borrow_mut().push((name.to_owned(), schema));
        reference("schemas", name)
    }

    /// Returns the schema of the object.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = json!({"type": "object", "properties": *self.properties.borrow()});
        let required = self.required.borrow();
        if !required.is_empty() {
            schema["required"] = json!(*required);
        }
        if self.mode != ReaderMode::Open {
            schema["additionalProperties"] = false.into();
        }
        if self.mode == ReaderMode::Patch {
            schema["minProperties"] = 1.into();
            schema["description"] = "At least one field.".into();
        }
        for (rule, value) in self.about.borrow().iter() {
            schema[rule] = value.clone();
        }
        schema
    }

    /// Returns the names and schemas of the components that the object refers to.
    pub(crate) fn components(&self) -> Vec<(String, Value)> {
        self.components.borrow().clone()
    }
}

fn or_null(mut schema: Value) -> Value {
    if schema.get("$ref").is_some() {
        return json!({"oneOf": [schema, {"type": "null"}]});
    }
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

pub(crate) fn text() -> Value {
    json!({"type": "string"})
}

pub(crate) fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub(crate) fn integer(range: &RangeInclusive<u64>) -> Value {
    let mut schema = json!({"type": "integer", "format": "int64", "minimum": range.start()});
    if *range.end() < u64::MAX {
        schema["maximum"] = (*range.end()).into();
    }
    schema
}

pub(crate) fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

pub(crate) fn set_of(word: Value) -> Value {
    json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": word})
}

pub(crate) fn map_of(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value, "propertyNames": {"type": "string"}})
}
