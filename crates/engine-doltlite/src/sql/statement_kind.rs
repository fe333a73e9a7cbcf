//! Classifies statements by their first word.

use branchyard_sqlite_lexer::{first_word, is_first_word};

/// What a statement does, as far as its first word shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementKind {
    /// Reads, or cannot be classified by its first word.
    Read,
    /// Changes rows or definitions.
    Write,
    /// Changes a definition in a way that must not share a transaction with other changes.
    Alter,
    /// Rebuilds data that the engine keeps for itself.
    Maintenance,
    /// Transaction control, files and settings.
    Control,
}

/// Returns the kind that the first word of a statement shows.
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
