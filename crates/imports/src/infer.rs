//! The types of the columns of a new table: what they are, and how the fields of a text file tell them.

use crate::number;

/// Whole numbers up to here are exact as a real number.
const EXACT_IN_REAL: u64 = 1 << 53;

/// The type of a column of a new table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Every value is a whole number within 64 bits.
    Integer,
    /// Every value is a finite number, and none loses digits as a real one.
    Real,
    /// Everything else, and columns without any value.
    Text,
    /// Every value is bytes.
    Blob,
    /// Bytes among other values: no type at all, so that each stays as it is.
    Mixed,
}

impl ColumnType {
    /// How a new table declares such a column; empty for no type.
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

/// Finds the types of the columns of a file: every value is [observed](ColumnTypes::observe) once.
#[derive(Debug, Clone)]
pub struct ColumnTypes(Vec<Evidence>);

impl ColumnTypes {
    /// Nothing observed yet, for a file with so many columns.
    pub fn new(columns: usize) -> Self {
        Self(vec![Evidence::default(); columns])
    }

    /// Takes one value into account. Empty values say nothing, and neither do columns the file does not have.
    pub fn observe(&mut self, column: usize, value: &str) {
        if let Some(evidence) = self.0.get_mut(column)
            && !value.is_empty()
        {
            evidence.observe(value);
        }
    }

    /// The types, one for each column.
    pub fn finish(self) -> Vec<ColumnType> {
        self.0.iter().map(Evidence::column_type).collect()
    }
}

/// Which kinds of values a column holds.
#[derive(Debug, Clone, Default)]
struct Evidence {
    integers: bool,
    reals: bool,
    /// A whole number that a real one cannot hold exactly, maybe not even an integer.
    inexact: bool,
    oversized: bool,
    others: bool,
}

impl Evidence {
    fn observe(&mut self, value: &str) {
        if self.others {
            return; // text already, whatever comes
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
