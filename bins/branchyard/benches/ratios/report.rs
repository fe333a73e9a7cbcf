//! The rows of the result table: a value, its baseline, and its target.

use serde_json::{Value, json};

/// The target of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    /// The value should be at least this.
    AtLeast(f64),
    /// The value should be at most this.
    AtMost(f64),
    /// The value has no target.
    None,
}

/// A row of the result table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Short, stable name.
    pub(crate) name: &'static str,
    /// Description of the measurement and its shape.
    pub(crate) what: String,
    /// Result of the product, with its unit.
    pub(crate) product: String,
    /// Description and result of the baseline. Empty if the row has no baseline.
    pub(crate) baseline: String,
    /// The value to compare with the target. `None` if the row was skipped; `what` then holds the reason.
    pub(crate) value: Option<f64>,
    /// Unit of the value. Empty for a ratio.
    pub(crate) unit: &'static str,
    /// Target of the value.
    pub(crate) aim: Aim,
}

impl Row {
    /// Creates a row for a measurement that is not possible on this machine.
    pub(crate) fn skipped(name: &'static str, why: String) -> Self {
        let (product, baseline) = (String::new(), String::new());
        Self { name, what: why, product, baseline, value: None, unit: "", aim: Aim::None }
    }

    /// Creates a row without a baseline.
    pub(crate) fn alone(name: &'static str, what: String, value: f64, unit: &'static str, aim: Aim) -> Self {
        let product = format!("{value:.1} {unit}");
        Self { name, what, product, baseline: String::new(), value: Some(value), unit, aim }
    }

    /// Converts the row to JSON for the table of `cargo xtask bench`.
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

    /// Formats the row as a line of text.
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
