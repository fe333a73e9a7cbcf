//! The engine port on real files.

mod diffs;
mod flows;
mod guard;
mod imports;
mod merges;
mod support;
