//! Differences between two commits, or between a commit and the open transaction of a write.
//!
//! Tables are matched by name. The engine's own matching treats a dropped table and a new table that look alike as one
//! renamed table.

mod ends;
mod engines;
mod rows;
mod side;
mod sorted;
mod tables;

pub(crate) use ends::{Comparison, DiffEnd};
pub(crate) use rows::changed_rows;
pub(crate) use side::TableSide;
pub(crate) use tables::changed_tables;
