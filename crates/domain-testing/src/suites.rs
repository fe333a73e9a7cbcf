//! Contract suites that every implementation of a port has to pass: the in-memory fakes here, and the real
//! implementations in their crates.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "code of tests")]

pub mod blobs;
pub mod database_store;
pub mod deployments;
pub mod engine;
pub mod metadata;
pub mod provisioner;
