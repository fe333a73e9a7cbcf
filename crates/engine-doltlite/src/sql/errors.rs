//! Maps the engine's errors to the fixed texts of the contracts (v2 §6.7).

use branchyard_domain::ports::{EngineError, SqlFailure};
use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::first_word;
use rusqlite::{Error, ErrorCode, ffi};

use super::statement_kind::{StatementKind, statement_kind};
use crate::guard::{GuardMode, GuardRefusal, StatementEffects};

/// Returns the code and the text of an error, without the statement.
pub(crate) fn parts(error: &Error) -> (Option<ffi::Error>, String) {
    match error {
        Error::SqliteFailure(code, Some(text)) => (Some(*code), text.clone()),
        Error::SqliteFailure(code, None) => (Some(*code), code.to_string()),
        Error::SqlInputError { error, msg, .. } => (Some(*error), msg.clone()),
        other => (None, other.to_string()),
    }
}

fn primary(error: &Error) -> Option<ErrorCode> {
    parts(error).0.map(|code| code.code)
}

/// Returns `true` if an interrupt ended the statement.
pub(crate) fn interrupted(error: &Error) -> bool {
    primary(error) == Some(ErrorCode::OperationInterrupted)
}

/// Returns `true` if the statement was refused memory.
pub(crate) fn is_out_of_memory(error: &Error) -> bool {
    primary(error) == Some(ErrorCode::OutOfMemory)
}

/// Returns `true` if an interrupt ended the statement, or it was refused memory, as happens once its time is over.
pub(crate) fn cut_short(error: &Error) -> bool {
    interrupted(error) || is_out_of_memory(error)
}

/// Returns the error of an internal statement that failed.
pub(crate) fn fault(context: &str, error: Error) -> EngineError {
    let (code, text) = parts(&error);
    match code.map(|code| code.code) {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            EngineError::Damaged(format!("{context}: {text}"))
        }
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => EngineError::Unavailable(format!("{context}: {text}")),
        _ => EngineError::Fault { context: context.to_owned(), source: Box::new(error) },
    }
}

/// Returns `true` if the engine reports that a commit is not in the file.
pub(crate) fn is_missing_commit(error: &Error) -> bool {
    let text = parts(error).1;
    text.contains("missing chunk")
        || text.contains("no chunk source")
        || text.contains("commit not found")
        || text.contains("could not resolve")
        || text.contains("invalid dolt_log revision")
        || (text.contains("branch or revision") && text.contains("not found"))
        || text.contains("ref not found")
}

/// Returns `true` if the engine reports that a hash is not that of a readable commit.
pub(crate) fn is_no_commit(error: &Error) -> bool {
    matches!(primary(error), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::NotFound))
}

/// Returns the error of an internal statement that failed and that names `commit`.
pub(crate) fn fault_at(context: &str, commit: &CommitHash, error: Error) -> EngineError {
    if is_missing_commit(&error) {
        return EngineError::NoSuchCommit(commit.clone());
    }
    in_commit(commit, fault(context, error))
}

/// Returns the error of a statement on `commit`: what is damaged is the commit, which a client may have pushed, and not the file.
pub(crate) fn in_commit(commit: &CommitHash, error: EngineError) -> EngineError {
    match error {
        EngineError::Damaged(detail) => EngineError::DamagedCommit { commit: commit.clone(), detail },
        other => other,
    }
}

/// The reason why user statements failed.
#[derive(Debug)]
pub(crate) enum StatementFailure {
    /// The statements are at fault.
    Sql(SqlFailure),
    /// The engine is at fault.
    Engine(EngineError),
}

impl StatementFailure {
    /// Converts the failure to an error of the port. `statement` is the number of the failed statement, from 1.
    pub(crate) fn at(self, statement: u32) -> EngineError {
        match self {
            Self::Sql(failure) => EngineError::Sql { failure, statement },
            Self::Engine(error) => error,
        }
    }

    /// Returns the failure, or the external reason if the statements were ended early.
    pub(crate) fn unless_ended(self, ended: Option<EngineError>) -> Self {
        match ended {
            Some(EngineError::TimedOut(ms)) => Self::Sql(SqlFailure::TimedOut(ms)),
            Some(error) => Self::Engine(error),
            None => self,
        }
    }
}

impl From<SqlFailure> for StatementFailure {
    fn from(failure: SqlFailure) -> Self {
        Self::Sql(failure)
    }
}

/// The position of a statement in the text that the user sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatementPosition<'a> {
    /// The whole text.
    pub whole: &'a str,
    /// The text of the statement.
    pub text: &'a str,
    /// Byte offset of the statement in `whole`.
    pub start: usize,
    /// The mode that the statement runs in.
    pub mode: GuardMode,
}

impl<'a> StatementPosition<'a> {
    /// Returns the position of a text that is one statement.
    pub(crate) fn all(sql: &'a str, mode: GuardMode) -> Self {
        Self { whole: sql, text: sql, start: 0, mode }
    }

    /// Returns the error for a text that is empty or ends within a statement.
    pub(crate) fn ends_early(&self) -> SqlFailure {
        SqlFailure::Syntax { position: self.whole.len() + 1, near: String::new() }
    }

    /// Returns the error for a refusal by the guard.
    pub(crate) fn refused(&self, refusal: &GuardRefusal) -> SqlFailure {
        match refusal {
            GuardRefusal::Elsewhere(name) => {
                let what = match name.as_str() {
                    "dolt_tags" => "tags",
                    "dolt_commit_ancestors" => "commits",
                    _ => "branches",
                };
                SqlFailure::Engine(format!("{name} is not available in SQL; list {what} through the API"))
            }
            GuardRefusal::Write if self.mode == GuardMode::Reader => SqlFailure::NotARead,
            GuardRefusal::Write | GuardRefusal::Never | GuardRefusal::Unwrapped => {
                SqlFailure::NotAllowed(first_word(self.text).to_owned())
            }
        }
    }

    /// Returns an error if the first word alone forbids the statement.
    pub(crate) fn refused_by_first_word(&self) -> Option<SqlFailure> {
        let word = first_word(self.text);
        match (statement_kind(self.text), self.mode) {
            // The guard checks each pragma.
            (StatementKind::Control, _) if word.eq_ignore_ascii_case("pragma") => None,
            (StatementKind::Control, _) => Some(SqlFailure::NotAllowed(word.to_owned())),
            (StatementKind::Maintenance, GuardMode::Writer) => Some(SqlFailure::NotAllowed(word.to_owned())),
            (StatementKind::Write | StatementKind::Alter | StatementKind::Maintenance, GuardMode::Reader) => {
                Some(SqlFailure::NotARead)
            }
            _ => None,
        }
    }

    /// Returns the reason why preparing or running the statement failed.
    pub(crate) fn failed(&self, error: Error, seen: &StatementEffects) -> StatementFailure {
        // The engine also reports a virtual table with invalid content of the user as damaged.
        let of_the_file = parts(&error).0.is_some_and(|code| match code.code {
            ErrorCode::DatabaseCorrupt => code.extended_code != ffi::SQLITE_CORRUPT_VTAB,
            ErrorCode::NotADatabase
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::FileLockingProtocolFailed => true,
            _ => false,
        });
        if of_the_file && seen.history && is_no_commit(&error) {
            // A single unreadable commit does not mean that the database is damaged.
            StatementFailure::Sql(SqlFailure::Engine("a commit of the history cannot be read".into()))
        } else if of_the_file {
            StatementFailure::Engine(fault("run a statement", error))
        } else {
            StatementFailure::Sql(self.failure(&error, seen))
        }
    }

    fn failure(&self, error: &Error, seen: &StatementEffects) -> SqlFailure {
        if let Error::SqlInputError { msg, sql, offset, .. } = error
            && let Some(near) = syntax_near(msg)
        {
            let base = self.start + self.text.len().saturating_sub(sql.len());
            let offset = usize::try_from(*offset).unwrap_or(0);
            return SqlFailure::Syntax { position: base + offset + near.len() + 1, near: near.to_owned() };
        }
        let (code, text) = parts(error);
        if text == "incomplete input" {
            return self.ends_early();
        }
        if let Some(near) = syntax_near(&text) {
            // The message has no offset: report the first occurrence of the token.
            let at = self.start + self.text.find(near).unwrap_or(0);
            return SqlFailure::Syntax { position: at + near.len() + 1, near: near.to_owned() };
        }
        if let Some(refusal) = &seen.refusal {
            return self.refused(refusal);
        }
        if let Some(failure) = self.refused_by_first_word() {
            return failure;
        }
        if let Some(name) = text.strip_prefix("no such table: ").or_else(|| text.strip_prefix("no such view: ")) {
            return SqlFailure::NoSuchTable(name.strip_prefix("main.").unwrap_or(name).to_owned());
        }
        match code.map(|code| code.code) {
            Some(ErrorCode::AuthorizationForStatementDenied) => self.refused(&GuardRefusal::Never),
            Some(ErrorCode::ReadOnly) if self.mode == GuardMode::Reader => SqlFailure::NotARead,
            _ => SqlFailure::Engine(text),
        }
    }
}

/// Returns the token in a message about a syntax error.
fn syntax_near(message: &str) -> Option<&str> {
    message
        .strip_prefix("near \"")
        .and_then(|rest| rest.strip_suffix("\": syntax error"))
        .or_else(|| message.strip_prefix("unrecognized token: \"").and_then(|rest| rest.strip_suffix('"')))
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::EngineError;
    use branchyard_domain::values::CommitHash;
    use rusqlite::{Error, ffi};

    use super::{fault, fault_at};

    fn corrupt() -> Error {
        Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None)
    }

    #[test]
    fn a_damaged_commit_is_not_a_damaged_database() {
        let named = CommitHash::parse(&"1".repeat(40)).unwrap();
        let of_one = fault_at("read a table", &named, corrupt());
        assert!(matches!(&of_one, EngineError::DamagedCommit { commit, .. } if *commit == named), "{of_one:?}");
        assert!(!of_one.to_string().contains("database file is damaged"), "{of_one}");
        assert!(matches!(fault("list the branches", corrupt()), EngineError::Damaged(_)));
    }
}
