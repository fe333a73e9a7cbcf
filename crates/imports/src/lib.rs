//! File formats to rows: what an uploaded file says, before any table is touched.
//!
//! An import reads its file twice, each time from its start:
//!
//! 1. [`scan`] reads everything, collects the row errors and fixes the types of the columns;
//! 2. [`rows`] reads it again as values for the columns of a table, be it new (the affinity comes from
//!    [`Scan::affinity`]) or present (the affinity comes from the declared type, [`Affinity::of_declared_type`]).
//!
//! Two passes because the last line of a file can turn a column of integers into text, and nothing may be held in
//! memory but the current record. The head of each format's module says what more it needs.
//!
//! The crate is synchronous, opens no file and knows no SQL. To stop a long import let the reader given here
//! fail: the error comes back as [`ImportError::Io`].
//!
//! # Adding a format
//! - a variant of [`Format`]: the compiler then names the two places that have to choose, [`scan`] and [`rows`];
//! - a module with a type that implements [`Records`] if its values have types, [`Rows`] if they are text. A reader of records
//!   outside of this crate needs no variant: [`scan_records`] and [`typed_rows`] take any;
//! - its limits, if it has any, in [`Limits`].

mod calendar;
mod columns;
pub mod delimited;
mod error;
mod failure;
mod format;
mod infer;
mod json;
mod number;
mod parquet;
mod rows;
mod scan;
mod source;
#[cfg(test)]
mod testing;
mod typed;
mod value;
mod xlsx;
mod yaml;

pub use error::{ImportError, RowError, RowErrors};
pub use format::{Format, Input, Limits, ReadSeek};
pub use infer::{ColumnType, ColumnTypes};
pub use rows::{Row, Rows, rows};
pub use scan::{Scan, scan};
pub use typed::{Record, Records, scan_records, typed_rows};
pub use value::{Affinity, InvalidValue, Value, convert};
