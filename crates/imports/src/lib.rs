//! Readers that convert uploaded files to rows, independently of any table.
//!
//! An import reads its file twice, each time from the start:
//!
//! 1. [`scan`] reads the whole file, collects the row errors and infers the types of the columns;
//! 2. [`rows`] reads the file again, as values for the columns of a table. For a new table the affinities come from
//!    [`Scan::affinity`], for an existing one from the declared types ([`Affinity::of_declared_type`]).
//!
//! Two passes are necessary because the last line of a file can turn a column of integers into text, and memory may hold
//! only the current record. The module of each format states what else it keeps in memory.
//!
//! The crate is synchronous, opens no file and knows no SQL. To stop a long import, let the caller's reader fail: its error
//! is returned as [`FileError::Io`].
//!
//! # Adding a format
//! - a variant of [`Format`]: the compiler then points to the two functions that match on it, [`scan`] and [`rows`];
//! - a module with a type that implements [`Records`] if its values have types, or [`Rows`] if they are text. A reader of
//!   records outside this crate needs no variant: [`scan_records`] and [`typed_rows`] accept any;
//! - its limits, if it has any, in [`FileLimits`].
#![doc = include_str!("../README.md")]

mod calendar;
mod columns;
pub mod delimited;
mod encoding;
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
mod spelling;
#[cfg(test)]
mod testing;
mod typed;
mod value;
mod xlsx;
mod yaml;

pub use encoding::Encoding;
pub use error::{FileError, RowError, RowErrors};
pub use format::{FileLimits, Format, Input, ReadSeek, TextOptions};
pub use infer::{ColumnType, ColumnTypes};
pub use rows::{Row, Rows, rows};
pub use scan::{Scan, columns, scan};
pub use spelling::{ColumnSpelling, Respelled};
pub use typed::{Record, Records, scan_records, typed_rows};
pub use value::{Affinity, CellValue, ChosenType, Conversion, InvalidValue, convert};
