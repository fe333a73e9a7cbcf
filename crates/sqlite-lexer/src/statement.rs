//! Statement boundaries and first words.

use crate::token::{SqlToken, TokenKind, tokenize};

/// Returns `sql` without the whitespace, comments and empty statements before its first statement. Empty if there is
/// no statement.
#[must_use]
pub fn skip_to_statement(sql: &str) -> &str {
    let first = tokenize(sql).find(|token| !token.is(";"));
    &sql[first.map_or(sql.len(), |token| token.start)..]
}

/// Returns the length in bytes of the first statement, including its semicolon and everything before the statement.
/// Returns the length of `sql` if the statement has no semicolon.
#[must_use]
pub fn statement_length(sql: &str) -> usize {
    terminated_statement_length(sql).unwrap_or(sql.len())
}

/// Returns the length in bytes of the first statement, including its semicolon and everything before the statement.
/// Returns `None` if the statement has no semicolon.
///
/// Semicolons within `CREATE TRIGGER … END` do not end the statement, as in `sqlite3_complete`.
#[must_use]
pub fn terminated_statement_length(sql: &str) -> Option<usize> {
    let mut position = Position::Start;
    for token in tokenize(sql) {
        if !token.is(";") {
            position = position.after(&token);
        } else if let Some(next) = position.after_semicolon() {
            position = next;
        } else if !matches!(position, Position::Start) {
            return Some(token.end());
        }
    }
    None
}

/// The position within a statement, as far as it decides whether a semicolon ends the statement.
#[derive(Clone, Copy)]
enum Position {
    Start,
    Statement,
    Explain,
    Create,
    Trigger,
    TriggerSemicolon,
    TriggerEnd,
}

impl Position {
    fn after(self, token: &SqlToken<'_>) -> Self {
        match self {
            Self::Start if token.is_one_of(&["EXPLAIN"]) => Self::Explain,
            Self::Start | Self::Explain if token.is_one_of(&["CREATE"]) => Self::Create,
            // The words of EXPLAIN QUERY PLAN.
            Self::Explain
                if token.kind == TokenKind::Word
                    && !token.is_one_of(&["EXPLAIN", "TEMP", "TEMPORARY", "TRIGGER", "END"]) =>
            {
                Self::Explain
            }
            Self::Create if token.is_one_of(&["TEMP", "TEMPORARY"]) => Self::Create,
            Self::Create if token.is_one_of(&["TRIGGER"]) => Self::Trigger,
            Self::TriggerSemicolon if token.is_one_of(&["END"]) => Self::TriggerEnd,
            Self::Trigger | Self::TriggerSemicolon | Self::TriggerEnd => Self::Trigger,
            Self::Start | Self::Statement | Self::Explain | Self::Create => Self::Statement,
        }
    }

    /// Returns the position after a semicolon, or `None` if the semicolon ends the statement.
    fn after_semicolon(self) -> Option<Self> {
        matches!(self, Self::Trigger | Self::TriggerSemicolon).then_some(Self::TriggerSemicolon)
    }
}

/// Returns the first word of the first statement as written. Returns the first character if the statement begins with
/// something else, and an empty text if there is no statement.
#[must_use]
pub fn first_word(sql: &str) -> &str {
    match tokenize(sql).find(|token| !token.is(";")) {
        None => "",
        Some(token) if token.kind == TokenKind::Word => token.text,
        Some(token) => &token.text[..token.text.chars().next().map_or(0, char::len_utf8)],
    }
}

/// Returns `true` if the first statement begins with one of these keywords, compared case-insensitively.
#[must_use]
pub fn is_first_word(sql: &str, keywords: &[&str]) -> bool {
    let word = first_word(sql);
    keywords.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// Returns `true` if the first statement ends the open transaction: `COMMIT`, `END` or `ROLLBACK`, but not `ROLLBACK
/// TO` a savepoint.
#[must_use]
pub fn ends_transaction(sql: &str) -> bool {
    let statement = skip_to_statement(sql);
    if is_first_word(statement, &["COMMIT", "END"]) {
        return true;
    }
    let goes_back_only = || tokenize(statement).take_while(|token| !token.is(";")).any(|token| token.is("TO"));
    is_first_word(statement, &["ROLLBACK"]) && !goes_back_only()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_their_semicolon() {
        for (first, rest) in [
            ("select 1;", " select 2"),
            ("select ';', \"a;\"\"b\", [c;d], `e;f` -- ;\n /* ; */;", ""),
            (
                "create trigger x after insert on t begin select case 1 when 1 then 2 end; delete from t; end;",
                "select 1",
            ),
            ("CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END ;", ";"),
            ("explain query plan create trigger x after insert on t begin select 1; end;", "select 1"),
            ("create table trigger_end(a);", "end;"),
            ("create \"trigger\" x begin select 1;", "end;"),
            ("select 'open; ", ""),
            (" ;; select 1;", ";"),
        ] {
            let sql = format!("{first}{rest}");
            assert_eq!(&sql[..statement_length(&sql)], first);
        }
    }

    #[test]
    fn first_words() {
        for (sql, word) in [
            ("select 1", "select"),
            ("  ;; -- x\n /* y */ Delete from t", "Delete"),
            ("", ""),
            ("-- only", ""),
            ("/* open", ""),
            ("/*/ open", ""),
            ("\u{feff}select 1", "select"),
            ("(select 1)", "("),
            ("é x", "é"),
            ("-1", "-"),
            ("\"select\" 1", "\""),
        ] {
            assert_eq!(first_word(sql), word, "{sql}");
        }
        assert!(is_first_word("/* x */ Drop table t", &["CREATE", "DROP"]));
        assert!(!is_first_word("'drop'", &["DROP"]));
        assert!(!is_first_word("", &["DROP"]));
    }

    #[test]
    fn transactions_are_ended_however_it_is_written() {
        for sql in [
            "COMMIT",
            "commit;",
            " /* app */ ROLLBACK",
            ";COMMIT",
            "-- app\nend transaction",
            "rollback transaction",
            "ROLLBACK; SELECT 1 TO 2",
        ] {
            assert!(ends_transaction(sql), "{sql}");
        }
        for sql in [
            "",
            "select 1",
            "rollback to x",
            "ROLLBACK /* all */ TRANSACTION TO SAVEPOINT x",
            "release x",
            "commits",
            "select 'COMMIT'",
            "explain commit",
            "\"commit\"",
            "/* COMMIT",
            "begin; commit",
        ] {
            assert!(!ends_transaction(sql), "{sql}");
        }
    }
}
