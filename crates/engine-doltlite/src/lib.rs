//! The engine port on DoltLite: immutable commits with their tables and history, one file per database.
//!
//! A file holds one reserved branch with a secret name; the branches and tags of users are not in it. Every write moves
//! the reserved branch to the commit it starts from, changes the tables and commits, in one engine transaction. Reads
//! open the file fixed to a commit.
//!
//! Untrusted SQL runs under a guard: an allow-list checked while a statement is prepared, run-time limits, bounded
//! replacements of some functions, a progress handler and a watchdog thread. See `docs/ARCHITECTURE.md` and the tests
//! of this crate.
#![doc = include_str!("../README.md")]

// The process has one SQLite: `doltlite` carries all `sqlite3_*` symbols, and zlib is built from source.
use doltlite as _;
use libz_sys as _;

mod ancestry;
mod branch;
mod browse;
mod cells;
mod check;
mod chunks;
mod collect;
mod commits;
mod conflicts;
mod connection;
mod database_files;
mod deferred_references;
#[cfg(target_os = "linux")]
mod descriptors;
mod diff;
mod engine;
mod fetch;
mod files;
mod format;
mod guard;
mod idle_connections;
mod import;
mod local_file;
mod memory;
mod merge;
mod merge_preview;
mod objects;
mod options;
mod private_copy;
#[cfg(target_os = "linux")]
mod provided;
mod put_off;
mod queue;
mod reach;
mod read;
mod records;
mod row_history;
mod row_resolutions;
mod scan;
mod schema;
mod script;
#[cfg(target_os = "linux")]
mod second_names;
mod session;
mod sql;
mod sqlite;
mod sqlite_export;
mod verify;
mod versions;
mod watchdog;
mod write;
mod write_preview;
mod yield_hook;

pub use ancestry::{Ancestry, ParentsOf};
pub use collect::{COLLECTION_ROUNDS, CollectedHistory, CollectionSource, FileIdentity};
pub use commits::{AncestorCache, copy_file};
pub use engine::{DoltliteEngine, io_fault, missing};
pub use files::{Files, Temporary, copy_for_now, lock_path};
pub use format::{FormatCheck, NEWEST_FORMAT, format_of, refuse_newer};
pub use guard::MAX_LENGTH;
pub use local_file::{LocalFile, LocalFileError, LocalKey, local_keys, new_local_key};
pub use memory::{MemoryLender, MemoryPool, set_up as limit_process_memory};
pub use merge_preview::{ConflictQuery, ConflictWindow, HeadPair, TrialMerges, Trials};
pub use options::EngineOptions;
#[cfg(target_os = "linux")]
pub use provided::{CommitParents, ProvidedFile};
pub use put_off::PutOffCopies;
pub use queue::{TurnGate, WriteQueues, WriteTurn};
pub use records::{RecordedCommit, commits_behind, ends_record};
pub use sql::shape::shape;
pub use sqlite::{BatchSink, CellBatch, SqliteRows, SqliteTable, spool};
pub use versions::EngineVersions;
pub use write_preview::{PreviewCopies, PreviewCopySlot};
pub use yield_hook::{Long, WatchedCall, YieldHook};
