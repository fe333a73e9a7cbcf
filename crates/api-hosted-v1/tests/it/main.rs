//! Tests of the adapter over in-memory ports: permissions, the shape of each response, and the order of errors. Every response
//! is validated against the OpenAPI document.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod authorization;
mod create;
mod harness;
mod shapes;
