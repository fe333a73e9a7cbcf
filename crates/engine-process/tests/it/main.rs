//! Tests of the engine over real worker processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, too")]

mod contract;
mod support;
