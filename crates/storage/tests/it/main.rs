//! The store on both engines. Postgres is tested if `BRANCHYARD_TEST_POSTGRES_URL` names a server on which databases
//! may be created. With `BRANCHYARD_TEST_REQUIRE_POSTGRES=1`, a missing URL is a failure.
//! Tests of TLS start a server of their own if Postgres is installed; with the same variable, it has to be.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "helpers of tests; a skipped test says so"
)]

mod cluster;
mod cluster_id;
mod data_keys;
mod dump;
mod durable;
mod exchange;
mod failover;
mod file;
mod home;
mod key_ring;
mod lists;
mod migrations;
mod newest_timestamp;
mod node_administration;
mod object_blobs;
mod object_collection;
mod postgres;
mod suite;
mod tls;
