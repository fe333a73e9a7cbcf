//! Tests of the engine port on real files.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, too")]

mod collections;
mod definitions;
mod diffs;
mod flows;
mod formats;
mod guard;
mod hidden;
mod hostile;
mod idle;
mod imports;
mod large_writes;
mod large_writes_table;
mod limits;
mod merges;
mod objects;
mod previews;
mod row_histories;
mod secrecy;
mod selections;
mod sessions;
mod sqlite;
mod stored;
mod support;
mod tested;
mod turns;
