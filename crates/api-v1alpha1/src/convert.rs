//! Conversions from the domain to the wire. Structs are destructured without `..`, so that a new field of the domain fails the
//! build until it is explicitly left out of v1alpha1.

mod columns;
mod operations;
mod pulls;
mod users;

pub(crate) use columns::column;
pub(crate) use operations::{fork_poll, job, job_poll, pending, user_operation, write_done};
pub(crate) use pulls::{pull, pull_item, pull_part};
