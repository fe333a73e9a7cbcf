//! The metadata port on diesel: SQLite for one node, Postgres for several, from one code base.
//!
//! [`Store`] implements [`Metadata`](branchyard_domain::ports::Metadata). A connection is an enum of both engines and
//! never leaves this crate; neither does any SQL. There is one set of `table!` definitions (`schema`) and one file per
//! aggregate. Values that do not fit flat columns have private JSON mirrors (`json`), which are versioned separately
//! from the entities.
//!
//! The metadata file is a *standard* SQLite file in WAL mode, although the SQLite linked here is DoltLite's: see
//! `file`. Connections to Postgres over TLS are opened without libpq: see `postgres`.
//!
//! # Adding a migration
//! 1. Write `migrations/{sqlite,postgres}/<date>-<number>_<name>/{up,down}.sql`, which may only add (see
//!    `migrations/README.md`).
//! 2. Add the folder to `TEXTS` in `migrations.rs` and change `schema.rs`.
//! 3. Run `cargo test -p branchyard-storage` with `BRANCHYARD_TEST_POSTGRES_URL` set.
#![doc = include_str!("../README.md")]

// Both are named so that they are linked: the first provides every `sqlite3_*` symbol, the second the zlib that the
// first needs.
use doltlite as _;
use libz_sys as _;
// Named so that this crate's features (no bundled SQLite, libpq from source) apply in every build.
use libsqlite3_sys as _;
use pq_sys as _;

mod accounts;
mod activities;
mod backup_files;
mod backups;
mod blobs;
mod cluster_id;
mod collaborators;
mod collections;
mod connection;
mod convert;
mod databases;
mod deferred;
mod deliveries;
mod deployment_operations;
mod deployments;
mod dump;
mod durable;
mod error;
mod events;
mod exchange;
mod facts;
mod file;
mod former_names;
mod hooks;
mod idempotency;
mod instances;
mod json;
mod key_ring;
mod ledger;
mod members;
mod migrations;
mod mirrors;
mod newest_timestamp;
mod next_operation;
mod oauth;
mod object_blobs;
mod operations;
mod personal_data;
mod postgres;
mod prepared;
mod pulls;
mod purge;
mod pushed_chunks;
mod ref_log;
mod refs;
mod releases;
mod request_counts;
mod rights_version;
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
mod user_keys;
mod version;
mod wal_sync;
mod watches;
mod write_keys;

pub use blobs::FolderBlobs;
pub use dump::DumpError;
pub use durable::{
    CollectError, Collection, Collector, LiveNode, MarkError, NodeRun, ObjectCounts, SqlCluster, SqlDataKeys, SqlNodes,
    SqlObjects, SqlRecords, Task, for_each_object, losses_of, objects_of, older_records, remove_marks, store_loss,
    store_mark,
};
pub use error::{MigrationError, OpenError};
pub use exchange::{Exchange, ExchangeEvent, ExchangeSender};
pub use key_ring::{KeyRingError, SealedKeyRing, StoredKeyRing};
pub use migrations::{Status, check_unopened};
pub use object_blobs::ObjectBlobs;
pub use pushed_chunks::FolderPushedChunks;
pub use store::{ConnectionPoolLoad, Connections, Store, StoreOptions};
