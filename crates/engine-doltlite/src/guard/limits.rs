//! Run-time limits of connections.

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

/// Maximum size of a value or row in bytes. The API contract promises values of 16 MiB, and a row may hold several.
pub const MAX_LENGTH: i32 = 64 << 20;
/// Maximum length of a statement in bytes, and so of a definition, because each connection reads all definitions.
pub(crate) const MAX_SQL: i32 = 1 << 20;

/// Maximum length of a statement of a session in bytes, and the upper bound of the deployment's setting.
const MAX_SESSION_SQL: i32 = 16 << 20;

/// Maximum length of a `LIKE` or `GLOB` pattern of a session, in bytes.
const SESSION_PATTERN_BYTES: i32 = 1000;

pub(super) fn apply(connection: &rusqlite::Connection, pattern_bytes: i32) -> rusqlite::Result<()> {
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_LENGTH),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL),
        (Limit::SQLITE_LIMIT_COLUMN, 2000),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 1000),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 500),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, pattern_bytes),
        // Each path of a JSON function searches the whole document.
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 127),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 50),
    ] {
        connection.set_limit(limit, value)?;
    }
    defend(connection)
}

/// Applies the limits that the contract promises to sessions (hosted-v1 §11.1).
pub(super) fn apply_for_session(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    apply(connection, SESSION_PATTERN_BYTES)?;
    for (limit, value) in
        [(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SESSION_SQL), (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)]
    {
        connection.set_limit(limit, value)?;
    }
    Ok(())
}

fn defend(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    Ok(())
}
