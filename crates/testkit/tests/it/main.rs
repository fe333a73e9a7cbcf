//! Tests that need a whole server over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests fail where the test would"
)]

mod bodies;
mod clock;
mod connection;
mod crowds;
mod database_store;
mod edits;
mod exports;
mod failover;
mod fair;
mod files;
mod hooks;
mod hostile;
mod idempotency;
mod import_options;
mod imports;
mod lanes;
mod memory;
mod merges;
mod metrics;
mod nodes;
mod oauth;
mod scripts;
mod shared_store;
mod shares;
mod sharing;
mod snapshots;
mod streams;
mod tls;
mod v1alpha1;
mod web;
