//! The protocol under a scheduler that decides by a seed which node goes on at each step, and what fails (docs/testing.md).
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod engine;
mod node;
mod ports;
mod random;
mod schedule;
mod simulation;
mod world;
