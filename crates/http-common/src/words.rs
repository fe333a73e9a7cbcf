//! Closed sets of words that a field or a parameter may hold.

use serde_json::{Value, json};

/// A closed set of words, each with the value it stands for.
pub struct Words<T: 'static> {
    name: &'static str,
    doc: &'static str,
    choices: &'static [(&'static str, T)],
}

impl<T> Words<T> {
    /// Declares a set that is a component of the OpenAPI document.
    pub const fn component(name: &'static str, choices: &'static [(&'static str, T)]) -> Self {
        Self { name, doc: "", choices }
    }

    /// Declares a set that the schema of each field lists inline.
    pub const fn inline(choices: &'static [(&'static str, T)]) -> Self {
        Self::component("", choices)
    }

    /// Sets the description of the component.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Returns spelling and value of each word.
    pub const fn choices(&self) -> &'static [(&'static str, T)] {
        self.choices
    }

    /// Returns the name of the component, empty for an inline set.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the spellings, separated by commas.
    pub(crate) fn spellings(&self) -> String {
        spellings(self.choices)
    }

    /// Returns the text of an error that lists the spellings.
    pub(crate) fn expected(&self) -> String {
        expected(self.choices)
    }

    pub(crate) fn schema(&self) -> Value {
        let spellings: Vec<&str> = self.choices.iter().map(|(spelling, _)| *spelling).collect();
        let mut schema = json!({"type": "string", "enum": spellings});
        if !self.doc.is_empty() {
            schema["description"] = self.doc.into();
        }
        schema
    }
}

impl<T: Copy> Words<T> {
    /// Returns the value of the word with this spelling, or the error of the field.
    pub(crate) fn parse(&self, text: &str) -> Result<T, String> {
        parse_word(text, self.choices)
    }
}

/// Returns the value of the word with this spelling, or the text of an error that lists the spellings.
pub(crate) fn parse_word<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(spelling, _)| *spelling == text).map(|(_, choice)| *choice);
    found.ok_or_else(|| expected(choices))
}

fn expected<T>(choices: &[(&str, T)]) -> String {
    format!("must be one of {}", spellings(choices))
}

fn spellings<T>(choices: &[(&str, T)]) -> String {
    choices.iter().map(|(spelling, _)| *spelling).collect::<Vec<_>>().join(", ")
}
