//! The adapter over the fakes: who may do what, the shape of each answer, refusals in their order. Every answer is checked
//! against the OpenAPI document.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod authorisation;
mod create;
mod harness;
mod shapes;
