//! From the domain to the wire. Structs are taken apart without `..`: a new field of the domain stops the build until someone
//! decides that v1alpha1 does not show it.

mod columns;
mod operations;
mod pulls;
mod users;

pub(crate) use columns::column;
pub(crate) use operations::{fork_poll, job, job_poll, pending, user_operation, write_done};
pub(crate) use pulls::{pull, pull_item, pull_part};
