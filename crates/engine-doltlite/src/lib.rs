//! The engine port on DoltLite: immutable commits with their tables and history, one file per database.
//!
//! A file holds one reserved branch of ours, of a secret name; nothing a user calls a branch or a tag is in it. Every write moves the branch to the commit it
//! starts from, changes it and commits, in one engine transaction; reads open the file fixed to a commit.
//!
//! SQL of strangers runs under a guard: an allow-list checked while a statement is prepared, run-time limits, bounded
//! replacements of some functions, a progress handler and a watchdog thread. See `docs/ARCHITECTURE.md` and the tests of this crate.

// One SQLite in the process: `doltlite` carries all `sqlite3_*` symbols, zlib comes from source.
use doltlite as _;
use libz_sys as _;

mod ancestry;
mod branch;
mod browse;
mod cells;
mod commits;
mod conflicts;
mod connection;
mod diff;
mod engine;
mod fetch;
mod files;
mod guard;
mod import;
mod memory;
mod merge;
mod merge_preview;
mod objects;
mod options;
mod pool;
mod private_copy;
mod queue;
mod reach;
mod read;
mod scan;
mod schema;
mod script;
mod session;
mod sql;
mod sqlite;
mod verify;
mod watchdog;
mod write;
mod yield_hook;

pub use engine::DoltliteEngine;
pub use options::EngineOptions;
pub use sqlite::{SqliteRows, SqliteTable};
pub use yield_hook::{Long, WatchedCall, YieldHook};
