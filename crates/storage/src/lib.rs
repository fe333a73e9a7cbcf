//! The metadata port on diesel: SQLite for one node, Postgres for several, from one code.
//!
//! [`Store`] implements [`Metadata`](branchyard_domain::ports::Metadata). The connection is an enum of both engines and never
//! leaves this crate; neither does any SQL. There is one `table!` set (`schema`), one file per aggregate, and for what the
//! columns cannot hold flat, private JSON mirrors (`json`) that are versioned apart from the entities.
//!
//! The metadata file is a *standard* SQLite file, in WAL mode, although the SQLite linked here is DoltLite's: see `file`.
//!
//! # Adding a migration
//! 1. Write `migrations/{sqlite,postgres}/<date>-<number>_<name>/{up,down}.sql`, add only (see `migrations/README.md`).
//! 2. Name the folder in `migrations.rs` and change `schema.rs`.
//! 3. `cargo test -p branchyard-storage`, with `BRANCHYARD_TEST_POSTGRES_URL` set.

// Both are here to be linked: the first carries every `sqlite3_*` symbol, the second the zlib that it needs.
use doltlite as _;
use libz_sys as _;
// Named so that their features (no bundled SQLite, libpq from source) hold for this crate whatever else is built with it.
use libsqlite3_sys as _;
use pq_sys as _;

mod accounts;
mod activities;
mod backup_files;
mod backups;
mod blobs;
mod collaborators;
mod connection;
mod convert;
mod databases;
mod deliveries;
mod deployment_operations;
mod deployments;
mod dump;
mod error;
mod events;
mod file;
mod hooks;
mod idempotency;
mod instances;
mod json;
mod ledger;
mod members;
mod migrations;
mod newest_timestamp;
mod next_operation;
mod operations;
mod prepared;
mod pulls;
mod refs;
mod releases;
mod samples;
mod schema;
mod sessions;
mod stars;
mod static_sql;
mod store;
mod tokens;
mod transaction;
mod update;
mod uploads;
mod version;
mod wal_sync;

pub use blobs::FolderBlobs;
pub use dump::DumpError;
pub use error::{MigrationError, OpenError};
pub use migrations::Status;
pub use store::{Connections, PoolLoad, Store, StoreOptions};
