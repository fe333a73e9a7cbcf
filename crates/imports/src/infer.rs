//! Column types of new tables, and their inference from the fields of text formats.

use crate::number;

/// The largest magnitude up to which every whole number is exact as a real number.
const EXACT_IN_REAL: u64 = 1 << 53;

/// The type of a column in a new table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Every value is a whole number within 64 bits.
    Integer,
    /// Every value is a finite number, and none loses digits as a real number.
    Real,
    /// Any other values, or no values at all.
    Text,
    /// Every value is a blob.
    Blob,
    /// Blobs among other values. The column has no type, so that each value is stored unchanged.
    Mixed,
}

impl ColumnType {
    /// Returns the declared type of such a column in a new table, or an empty text for none.
    pub fn declared(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
            Self::Mixed => "",
        }
    }
}

/// Infers the types of the columns of a file from their values. Each value has to be [observed](ColumnTypes::observe) once.
#[derive(Debug, Clone)]
pub struct ColumnTypes(Vec<Evidence>);

impl ColumnTypes {
    /// Creates an inference without observations, for a file with `columns` columns.
    pub fn new(columns: usize) -> Self {
        Self(vec![Evidence::default(); columns])
    }

    /// Observes one value. Empty values and unknown columns are ignored.
    pub fn observe(&mut self, column: usize, value: &str) {
        if let Some(evidence) = self.0.get_mut(column)
            && !value.is_empty()
        {
            evidence.observe(value);
        }
    }

    /// Returns the type of each column.
    pub fn finish(self) -> Vec<ColumnType> {
        self.0.iter().map(Evidence::column_type).collect()
    }
}

/// The kinds of values found in a column.
#[derive(Debug, Clone, Default)]
struct Evidence {
    integers: bool,
    reals: bool,
    /// Whether there is a whole number that a real number cannot represent exactly.
    inexact: bool,
    oversized: bool,
    others: bool,
}

impl Evidence {
    fn observe(&mut self, value: &str) {
        if self.others {
            return; // already text, regardless of further values
        }
        if let Some(integer) = number::integer(value) {
            self.integers = true;
            self.inexact |= integer.unsigned_abs() > EXACT_IN_REAL;
        } else if number::is_whole(value) {
            self.oversized = true;
        } else if number::real(value).is_some() {
            self.reals = true;
        } else {
            self.others = true;
        }
    }

    fn column_type(&self) -> ColumnType {
        if self.others || self.oversized {
            ColumnType::Text
        } else if self.reals {
            if self.inexact { ColumnType::Text } else { ColumnType::Real }
        } else if self.integers {
            ColumnType::Integer
        } else {
            ColumnType::Text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ColumnType::{Integer, Real, Text};

    #[test]
    fn types() {
        let cases: &[(&[&str], ColumnType)] = &[
            (&["1", "-0", "+5"], Integer),
            (&["1", "", "2"], Integer),
            (&["9223372036854775807"], Integer),
            (&["9223372036854775808"], Text),
            (&["1", "9223372036854775808"], Text),
            (&["1.5", "9223372036854775808"], Text),
            (&["1.5", "9007199254740992"], Real),
            (&["1.5", "9007199254740993"], Text),
            (&["9007199254740993", "1.5"], Text),
            (&["-9007199254740993", "1.5"], Text),
            (&["1", "9007199254740993"], Integer),
            (&["1", ".5", "5.", "1e5"], Real),
            (&["1e300"], Real),
            (&["1.0"], Real),
            (&["."], Text),
            (&["e5"], Text),
            (&["1e999"], Text),
            (&["1", "007"], Text),
            (&["1", " 1"], Text),
            (&["NaN"], Text),
            (&["true"], Text),
            (&["2026-09-04"], Text),
            (&["x", "1", "2.5"], Text),
            (&["", ""], Text),
            (&[], Text),
        ];
        for (values, expected) in cases {
            let mut types = ColumnTypes::new(1);
            for value in *values {
                types.observe(0, value);
            }
            assert_eq!(types.finish(), [*expected], "{values:?}");
        }
    }

    #[test]
    fn columns_are_apart() {
        let mut types = ColumnTypes::new(3);
        for (column, value) in ["1", "1.5", "x", "beyond"].into_iter().enumerate() {
            types.observe(column, value);
        }
        assert_eq!(types.finish(), [Integer, Real, Text]);
    }
}
