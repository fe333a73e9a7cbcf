//! Tests of the stores: the contract suite, races, faults, and what is durable.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests; a skipped test says so")]

mod elsewhere;
mod endpoint;
mod faults;
mod folder;
mod options;
mod s3;
mod tls;
mod versitygw;

use branchyard_domain::values::ObjectKey;

/// Parses a key.
fn key(text: &str) -> ObjectKey {
    ObjectKey::parse(text).unwrap()
}
