//! Deployments over the fakes, and the contract suites of the ports on the fakes.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod deployments;
mod suites;
