//! Wrappers of the engine's tables and functions that take commits, so that commits which the database does not show
//! count as absent.
//!
//! The engine resolves a hash while a statement runs, and a view, a trigger, a join or a computed argument may produce
//! that hash. The check is therefore made where a hash reaches the engine. There are three such places:
//! - Functions (`dolt_hashof`) are replaced. The replacement checks its arguments and calls the engine's function on
//!   the companion connection of the [`Scope`].
//! - Single tables (`dolt_log`) are replaced by modules that check their arguments and read the engine's table on the
//!   companion.
//! - Tables that exist once per user table (`dolt_at_t`) have columns that depend on the commit. Only their methods
//!   that take arguments are wrapped.
//!
//! A connection is wrapped name by name, when the authorizer first meets a name. After that it cannot run internal
//! statements any more.
#![expect(
    unsafe_code,
    reason = "modules of virtual tables have no safe interface that could stand before another module"
)]

mod callbacks;
mod fixed_tables;
mod functions;
mod history_tables;

use std::cell::RefCell;
use std::sync::Arc;

use branchyard_domain::values::CommitHash;
use rusqlite::{Connection, Error, ffi};

use self::fixed_tables::{fixed_tables, replace};
use self::functions::functions;
use self::history_tables::{HistoryTable, put_before};
use super::lists;
use crate::reach::{self, Scope};

thread_local! {
    /// The scope of the user statement on this thread.
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// Sets the scope of this thread until the result is dropped.
pub(super) fn enter(scope: Option<Arc<Scope>>) -> InScope {
    InScope(CURRENT.replace(scope))
}

/// The previous scope of the thread, restored when dropped; see [`enter`].
pub(super) struct InScope(Option<Arc<Scope>>);

impl Drop for InScope {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current() -> Option<Arc<Scope>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns the reason why a statement may not pass this text as a ref. Returns `None` if it may.
fn refused(spec: &[u8]) -> Option<String> {
    let scope = current()?;
    let spec = String::from_utf8_lossy(spec);
    for commit in reach::hashes(&spec) {
        match scope.shows(&commit) {
            Ok(true) => {}
            Ok(false) => return Some(absent(&commit)),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot look up a commit");
                return Some("commits cannot be looked up at the moment".to_owned());
            }
        }
    }
    None
}

fn absent(commit: &CommitHash) -> String {
    format!("no such commit: {commit}")
}

/// Returns the error of a statement that names a commit which the database does not show.
pub(crate) fn no_such_commit(commit: &CommitHash) -> Error {
    failure(absent(commit))
}

fn failure(text: String) -> Error {
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(text))
}

/// Wraps the function or table with this name.
pub(crate) fn wrap(connection: &Connection, scope: Option<&Scope>, name: &str) -> rusqlite::Result<()> {
    if lists::function_takes_commits(name) {
        return functions(connection);
    }
    if lists::is_fixed_table_of_commits(name) {
        let table = fixed_tables()?.get(name).ok_or_else(|| failure(format!("no such table: {name}")))?;
        return replace(connection, table);
    }
    let Some((kind, table)) = HistoryTable::of(name) else { return Err(failure(format!("no such table: {name}"))) };
    if !is_known(connection, scope, table)? {
        return Err(failure(format!("no such table: {name}")));
    }
    put_before(connection, kind, name)
}

/// Returns `true` if the table exists or existed in the history that is read. The engine itself also looks for the
/// columns of the table in the last written commit, which the database may not show.
fn is_known(connection: &Connection, scope: Option<&Scope>, table: &str) -> rusqlite::Result<bool> {
    let here = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE";
    if connection.prepare(here)?.exists([table])? {
        return Ok(true);
    }
    let Some(scope) = scope else { return Ok(true) };
    let once = "SELECT 1 FROM dolt_diff WHERE table_name = ? COLLATE NOCASE LIMIT 1";
    scope.with(|companion| companion.prepare(once)?.exists([table]))
}
