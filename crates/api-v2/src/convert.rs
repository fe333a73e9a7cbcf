//! Conversions from domain types to wire types. Structs are destructured without `..`, so that a new field of the domain is a
//! compile error until the conversion decides whether v2 shows the field.

mod accounts;
mod cells;
mod columns;
mod history;
mod hooks;
mod operations;
mod people;
mod pulls;
mod refs;
mod results;
mod row_history;

pub(crate) use accounts::token;
pub(crate) use cells::REPLACED;
pub(crate) use columns::query_column;
pub(crate) use history::preview;
pub(crate) use hooks::hook_with_secret;
pub(crate) use operations::{operation, operation_ref};
pub(crate) use people::database_ref;
pub(crate) use pulls::{pull, pull_summary, withdrawn};
pub(crate) use refs::branch;
pub(crate) use results::{failed, finished};
pub(crate) use row_history::{row_blame, row_revision};
