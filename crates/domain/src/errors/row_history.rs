//! Errors of the history of rows.

use super::{PortError, ReadError, RefError};

/// Why a value does not name a row of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowKeyFault {
    /// A column of the primary key has no value.
    #[error("the primary key also has the column '{0}'")]
    Missing(String),
    /// A column is not one of the primary key.
    #[error("'{0}' is not a column of the primary key")]
    Unknown(String),
    /// A column occurs twice, in different letter cases.
    #[error("'{0}' occurs twice")]
    Twice(String),
    /// A column of a primary key is never NULL.
    #[error("'{0}' is a column of the primary key, so it can't be null")]
    Null(String),
}

/// Errors of the history of a row or a table.
#[derive(Debug, thiserror::Error)]
pub enum RowHistoryError {
    /// Views have no rows of their own.
    #[error("'{0}' is a view, and only tables have a history; look at the tables that it reads")]
    IsView(String),
    /// Rows without a key cannot be distinguished over time.
    #[error("table '{0}' has no primary key, so there is only a history of the whole table")]
    NoPrimaryKey(String),
    /// The key does not fit the table.
    #[error("the key does not fit the table")]
    Key(Vec<RowKeyFault>),
    /// There is no row with this key, and there never was.
    #[error("no such row in table '{0}'")]
    NoSuchRow(String),
    /// The table cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl From<RefError> for RowHistoryError {
    fn from(error: RefError) -> Self {
        Self::Read(error.into())
    }
}
