//! Values that a type would spell differently than their file.

use crate::error::shortened;
use crate::number;

/// Number of examples kept of a column and type.
const EXAMPLES: usize = 3;

/// What a numeric type would do with the values of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Respelled {
    /// Number of values that the type spells differently, such as `1.10` as `1.1`.
    pub changed: u64,
    /// Number of values that do not fit the type.
    pub unfit: u64,
    /// The first changed values with their new spelling. Long ones are shortened.
    pub first: Vec<(String, String)>,
}

impl Respelled {
    fn change(&mut self, text: &str, spelled: impl FnOnce() -> String) {
        self.changed += 1;
        if self.first.len() < EXAMPLES {
            self.first.push((shortened(text), spelled()));
        }
    }

    fn compare(&mut self, text: &str, spelled: String) {
        if spelled != text {
            self.change(text, || spelled);
        }
    }
}

/// What each numeric type would do with the values of a column. Text changes no value. Empty values are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnSpelling {
    /// Whether a value begins with `+`, as phone numbers do.
    pub has_plus: bool,
    /// As `INTEGER`.
    pub integer: Respelled,
    /// As `REAL`.
    pub real: Respelled,
    /// As `NUMERIC`.
    pub numeric: Respelled,
}

impl ColumnSpelling {
    /// Observes one value of the column.
    pub(crate) fn observe(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.has_plus |= text.starts_with('+');
        if let Some(integer) = number::integer(text) {
            if text.starts_with('+') || text == "-0" {
                self.integer.change(text, || integer.to_string());
                self.numeric.change(text, || integer.to_string());
            }
            self.real.change(text, || number::shown(number::nearest_real(integer)));
            return;
        }
        self.integer.unfit += 1;
        let Some(real) = number::real(text) else {
            self.real.unfit += 1;
            return;
        };
        self.real.compare(text, number::shown(real));
        if !number::is_whole(text) {
            // A numeric column stores whole numbers as integers.
            let spelled = number::exact_integer(real).map_or_else(|| number::shown(real), |whole| whole.to_string());
            self.numeric.compare(text, spelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(values: &[&str]) -> ColumnSpelling {
        let mut spelling = ColumnSpelling::default();
        for value in values {
            spelling.observe(value);
        }
        spelling
    }

    fn first(respelled: &Respelled) -> Vec<String> {
        respelled.first.iter().map(|(from, to)| format!("{from} → {to}")).collect()
    }

    #[test]
    fn phone_numbers_versions_and_exponents() {
        let phones = observed(&["+4712345678", "", "+4787654321"]);
        assert!(phones.has_plus);
        assert_eq!(phones.integer.changed, 2);
        assert_eq!(first(&phones.integer), ["+4712345678 → 4712345678", "+4787654321 → 4787654321"]);

        let versions = observed(&["1.10", "1.2", "1.20", "2.0", "3.10"]);
        assert_eq!((versions.real.changed, versions.integer.unfit), (3, 5));
        assert_eq!(first(&versions.real), ["1.10 → 1.1", "1.20 → 1.2", "3.10 → 3.1"]);
        assert_eq!(first(&versions.numeric), ["1.10 → 1.1", "1.20 → 1.2", "2.0 → 2"]);

        assert_eq!(first(&observed(&["1e5"]).real), ["1e5 → 100000.0"]);
        assert_eq!(first(&observed(&["1e5", "-0"]).numeric), ["1e5 → 100000", "-0 → 0"]);
    }

    #[test]
    fn a_numeric_column_keeps_whole_numbers_beside_fractions() {
        let mixed = observed(&["1", "2.5", "99999999999999999999", "x"]);
        assert_eq!(mixed.numeric, Respelled::default());
        assert_eq!(first(&mixed.real), ["1 → 1.0", "99999999999999999999 → 1e+20"]);
        assert_eq!((mixed.real.unfit, mixed.integer.unfit), (1, 3));
    }
}
