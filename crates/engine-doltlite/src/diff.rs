//! Differences between two commits.
//!
//! Tables are matched by name. The engine's own matching treats a dropped table and a new table that look alike as one
//! renamed table.

mod engines;
mod rows;
mod side;
mod sorted;
mod tables;

pub(crate) use rows::changed_rows;
pub(crate) use side::TableSide;
pub(crate) use tables::changed_tables;
