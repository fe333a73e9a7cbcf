//! Changes of definitions: none may become longer than the engine's other connections read, or the database could be neither backed up nor
//! collected any more; and what the engine does wrong when one changes in the middle of a transaction is avoided.

use branchyard_domain::ports::SessionError;
use rusqlite::limits::Limit;

use super::codes;
use crate::connection::Connection;
use crate::guard::MAX_LENGTH;
use crate::schema;

/// Runs a statement about definitions and fails when it left one that is too long; the caller undoes it then.
pub(super) fn watched<T>(
    connection: &Connection,
    run: impl FnOnce() -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let ours = |error: rusqlite::Error| codes::failure(&error, false);
    // The engine reads what it is about to store. That it is too long is better said by us than found out by it.
    let limit = |bytes| connection.raw().set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, bytes).map_err(ours);
    let usual = limit(MAX_LENGTH)?;
    let ran = run();
    limit(usual)?;
    let done = ran?;
    match schema::too_long(connection).map_err(ours)? {
        Some(message) => Err(SessionError::Statement { code: "TOOBIG", message }),
        None => Ok(done),
    }
}

/// The same for a command, a merge for one, which is done when it is done: the branch goes back to where it was. Where changes that
/// were not committed would be lost by that, the command stays, and the error says what to do.
pub(super) fn watched_command<T>(
    connection: &Connection,
    run: impl FnOnce() -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let ours = |error: rusqlite::Error| codes::failure(&error, false);
    let text = |sql| connection.raw().query_row(sql, [], |row| row.get::<_, String>(0));
    let before = text("SELECT dolt_hashof('HEAD')").map_err(ours)?;
    let done = run()?;
    let Some(told) = schema::too_long(connection).map_err(ours)? else { return Ok(done) };
    let is_clean = connection.raw().query_row("SELECT count(*) = 0 FROM dolt_status", [], |row| row.get(0));
    let message = if is_clean.map_err(ours)? {
        connection.raw().query_row("SELECT dolt_reset('--hard', ?)", [before], |_| Ok(())).map_err(ours)?;
        told
    } else {
        format!("{told}, and uncommitted changes keep it from being undone; drop it, or reset to {before}")
    };
    Err(SessionError::Statement { code: "TOOBIG", message })
}

/// Has the engine put the rows in order that the open transaction changed so far. An ALTER TABLE would otherwise take rows that were
/// deleted for ones that are there, and give those that take their places its default where they are NULL.
pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.raw().query_row("SELECT dolt_hashof_db()", [], |_| Ok(()))
}
