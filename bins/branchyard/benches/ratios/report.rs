//! Rows of the table: a number, what it is held against, and whether it is good enough.

use serde_json::{Value, json};

/// What a number should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Shown, not judged.
    None,
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    /// A short name that stays the same.
    pub(crate) name: &'static str,
    /// What was measured, with its shape.
    pub(crate) what: String,
    /// What the product did, with its unit.
    pub(crate) product: String,
    /// What it is held against and what that did; empty for a number that stands alone.
    pub(crate) baseline: String,
    /// The number that is judged; `None` when the row was skipped, and `what` says why.
    pub(crate) value: Option<f64>,
    /// Its unit; empty for a ratio.
    pub(crate) unit: &'static str,
    /// What it should be.
    pub(crate) aim: Aim,
}

impl Row {
    /// A row that could not be measured here.
    pub(crate) fn skipped(name: &'static str, why: String) -> Self {
        let (product, baseline) = (String::new(), String::new());
        Self { name, what: why, product, baseline, value: None, unit: "", aim: Aim::None }
    }

    /// A number that stands alone.
    pub(crate) fn alone(name: &'static str, what: String, value: f64, unit: &'static str, aim: Aim) -> Self {
        let product = format!("{value:.1} {unit}");
        Self { name, what, product, baseline: String::new(), value: Some(value), unit, aim }
    }

    /// For the table that `cargo xtask bench` prints.
    pub(crate) fn to_json(&self, topic: &str) -> Value {
        let (aim, met) = match (self.aim, self.value) {
            (Aim::AtLeast(least), Some(value)) => (json!({"at_least": least}), json!(value >= least)),
            (Aim::AtMost(most), Some(value)) => (json!({"at_most": most}), json!(value <= most)),
            (Aim::None, _) | (_, None) => (Value::Null, Value::Null),
        };
        json!({
            "topic": topic, "row": self.name, "what": self.what, "product": self.product, "baseline": self.baseline,
            "value": self.value, "unit": self.unit, "aim": aim, "met": met,
        })
    }

    /// For people who run one topic.
    pub(crate) fn to_line(&self) -> String {
        let Some(value) = self.value else {
            return format!("{:<24} skipped: {}", self.name, self.what);
        };
        let aim = match self.aim {
            Aim::AtLeast(least) => format!("aim: at least {least}"),
            Aim::AtMost(most) => format!("aim: at most {most}"),
            Aim::None => "no aim".to_owned(),
        };
        let against = if self.baseline.is_empty() { String::new() } else { format!(" against {}", self.baseline) };
        format!("{:<24} {value:>8.2} {:<3} ({aim}) {}: {}{against}", self.name, self.unit, self.what, self.product)
    }
}
