//! A store that seals its objects, over one in memory.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod damage;
mod data_keys;
mod harness;
mod objects;
