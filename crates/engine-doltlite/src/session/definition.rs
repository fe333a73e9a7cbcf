//! Checks and preparations for statements that change definitions.
//!
//! No definition may become longer than the engine's other connections can read, because the database could then be
//! neither backed up nor garbage-collected. The module also avoids an error of the engine when a definition changes in
//! the middle of a transaction.

use branchyard_domain::ports::SessionError;
use rusqlite::limits::Limit;

use super::codes;
use crate::connection::Connection;
use crate::guard::MAX_LENGTH;
use crate::schema;

/// Runs a statement that changes definitions. Fails if a definition is too long afterwards; the caller then rolls back.
pub(super) fn watched<T>(
    connection: &Connection,
    run: impl FnOnce() -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let ours = |error: rusqlite::Error| codes::failure(&error, false);
    // The engine parses the definition that it is about to store. The limit is raised so that `schema::too_long`
    // reports a definition that is too long, with a clearer error than the engine's.
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

/// Works like [`watched`] for a command, such as a merge, that takes effect at once: if a definition is too long, the
/// branch is reset to its previous commit. If a reset would lose uncommitted changes, the effect of the command stays,
/// and the error explains what to do.
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

/// Forces the engine to process the row changes that the open transaction made so far. Otherwise an ALTER TABLE would
/// treat deleted rows as present, and would replace NULL by its default in the rows that took their places.
pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.raw().query_row("SELECT dolt_hashof_db()", [], |_| Ok(()))
}
