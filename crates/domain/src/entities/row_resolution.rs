//! Decisions about single rows in conflict.

use super::{Cell, Side};

/// How the conflict of one row is resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct RowResolution {
    /// The table, in any letter case.
    pub table: String,
    /// Names and values of the primary key, as the conflict shows them. Numbers may be texts.
    pub primary_key: Vec<(String, Cell)>,
    /// What the row becomes.
    pub becomes: ResolvedRow,
}

/// What a row in conflict becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedRow {
    /// The row of one side, or no row if that side removed it.
    Of(Side),
    /// A row with these values. Columns that are left out keep the value of our side or, if that side removed the row, of theirs.
    With(Vec<(String, Cell)>),
}

impl RowResolution {
    /// Returns the approximate memory size of the values, in bytes.
    pub fn bytes(&self) -> usize {
        let values = match &self.becomes {
            ResolvedRow::Of(_) => &[][..],
            ResolvedRow::With(values) => values,
        };
        self.primary_key.iter().chain(values).map(|(_, cell)| cell.bytes()).sum()
    }
}

// Numbers that are not equal to themselves are not stored.
impl Eq for RowResolution {}
