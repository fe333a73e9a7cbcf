//! The API over in-memory ports, without a socket.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail where the test would")]

mod administration;
mod authorization;
mod collaborators;
mod conventions;
mod databases;
mod harness;
mod hooks;
mod imports;
mod keys;
mod manners;
mod operations;
mod organizations;
mod paging;
mod pulls;
mod quotas;
mod rates;
mod refs;
mod renames;
mod row_history;
mod shapes;
mod sql;
mod tokens;
