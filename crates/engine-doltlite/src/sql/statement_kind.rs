//! What the first word of a statement says.

use branchyard_sqlite_lexer::{first_word, is_first_word};

/// What a statement does, as far as its first word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementKind {
    /// Reads, or cannot be told from the first word alone.
    Read,
    /// Changes rows or definitions.
    Write,
    /// Changes a definition in a way that must not share a transaction with other changes.
    Alter,
    /// Rebuilds what the engine keeps for itself.
    Maintenance,
    /// Transaction control, files, settings.
    Control,
}

/// Returns what the first word of a statement says.
pub(crate) fn statement_kind(sql: &str) -> StatementKind {
    match first_word(sql).to_ascii_uppercase().as_str() {
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "CREATE" | "DROP" => StatementKind::Write,
        "ANALYZE" | "REINDEX" => StatementKind::Maintenance,
        "ALTER" => StatementKind::Alter,
        "BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "ATTACH" | "DETACH" | "VACUUM"
        | "PRAGMA" => StatementKind::Control,
        _ => StatementKind::Read,
    }
}

/// Returns `true` if a statement may store a definition.
pub(crate) fn defines(sql: &str) -> bool {
    is_first_word(sql, &["CREATE", "ALTER"])
}
