//! File formats to rows: what an uploaded file says, before any table is touched.
//!
//! An import reads its file twice, each time from a fresh reader:
//!
//! 1. [`scan`] reads everything, collects the row errors and fixes the types of the columns;
//! 2. [`rows`] reads it again as values for the columns of a table, be it new (the affinity comes from
//!    [`Scan::affinity`]) or present (the affinity comes from the declared type, [`Affinity::of_declared_type`]).
//!
//! Two passes because the last line of a file can turn a column of integers into text, and nothing may be held in
//! memory but the current record.
//!
//! The crate is synchronous, opens no file and knows no SQL. To stop a long import let the [`std::io::Read`] given here
//! fail: the error comes back as [`ImportError::Io`].
//!
//! # Adding a format
//! - a variant of [`Format`]: the compiler then names the two places that have to choose, [`scan`] and [`rows`];
//! - a module with a type that implements [`Rows`]; a text format brings its own reader as [`delimited`] does;
//! - its limits, if it has any, in [`Limits`].

pub mod delimited;
mod error;
mod format;
mod infer;
mod number;
mod rows;
mod scan;
mod value;

pub use error::{ImportError, RowError, RowErrors};
pub use format::{Format, Limits};
pub use infer::{ColumnType, ColumnTypes};
pub use rows::{Row, Rows, rows};
pub use scan::{Scan, scan};
pub use value::{Affinity, InvalidValue, Value, convert};
