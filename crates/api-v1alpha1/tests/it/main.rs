//! Tests of the API on in-memory ports, without sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod authorization;
mod downloads;
mod error_sources;
mod good;
mod harness;
mod refusals;
mod shapes;
