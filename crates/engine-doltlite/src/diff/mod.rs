//! What differs between two commits.
//!
//! Tables are matched by name. The engine's own matching takes a table that was dropped and another that was made for one that was
//! renamed, when they look alike (`engine-notes.md` §7.6).

mod engines;
mod rows;
mod side;
mod sorted;
mod tables;

pub(crate) use rows::changed_rows;
pub(crate) use side::TableSide;
pub(crate) use tables::changed_tables;
