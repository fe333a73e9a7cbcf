//! What only a whole server over real sockets shows.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod connection;
mod files;
mod idempotency;
mod imports;
mod pages;
mod scripts;
mod streams;
mod v1alpha1;
