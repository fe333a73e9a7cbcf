//! The engine over a store in memory, with rows in memory.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, too")]

mod contract;
mod days;
mod rows;
mod yard;
