//! What the text of statements says about what they do, for people who are about to run them.
//!
//! The notes are advice. What statements may do is decided by the engine.

use branchyard_sqlite_lexer::{SqlToken, TokenKind, skip_to_statement, statement_length, tokenize};

/// Functions whose results differ from run to run.
const VARYING: &[&str] = &["random", "randomblob", "last_insert_rowid", "changes", "total_changes"];
/// Keywords that stand for the time of the run.
const TIMES: &[&str] = &["CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME"];
/// Functions that use the time of the run if they have no argument for another one.
const DATES: &[&str] = &["date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"];
/// Arguments of these functions that stand for the time of the run.
const NOW: &[&str] = &["now", "subsec", "subsecond"];

/// What stands out in a text of statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementNotes {
    /// `UPDATE` and `DELETE` statements that change all rows of a table, because they have no `WHERE`.
    pub unlimited: Vec<UnlimitedChange>,
    /// Whether a statement uses the time, random numbers or other values that differ from run to run.
    pub varies: bool,
}

/// A statement that changes all rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlimitedChange {
    /// `UPDATE` or `DELETE`.
    pub verb: &'static str,
    /// Name of the table.
    pub table: String,
}

impl StatementNotes {
    /// Reads statements.
    pub fn of(sql: &str) -> Self {
        let mut notes = Self::default();
        let mut rest = skip_to_statement(sql);
        while !rest.is_empty() {
            let (text, after) = rest.split_at(statement_length(rest));
            let tokens: Vec<SqlToken<'_>> = tokenize(text).collect();
            notes.unlimited.extend(unlimited(&tokens));
            notes.varies |= varies(&tokens);
            rest = skip_to_statement(after);
        }
        notes
    }
}

/// Returns the tokens that are not in parentheses.
fn outside_parentheses<'a, 'b>(tokens: &'b [SqlToken<'a>]) -> Vec<&'b SqlToken<'a>> {
    let mut depth = 0_usize;
    let mut outside = Vec::new();
    for token in tokens {
        if token.is(")") {
            depth = depth.saturating_sub(1);
        } else if token.is("(") {
            depth += 1;
        } else if depth == 0 {
            outside.push(token);
        }
    }
    outside
}

fn unlimited(tokens: &[SqlToken<'_>]) -> Option<UnlimitedChange> {
    const VERBS: &[&str] = &["UPDATE", "DELETE", "INSERT", "REPLACE", "SELECT", "VALUES"];
    let outside = outside_parentheses(tokens);
    // The statement behind common table expressions is the first word that is no part of them.
    let begins_with = outside.first()?.is("WITH");
    let at = if begins_with { outside.iter().position(|token| token.is_one_of(VERBS))? } else { 0 };
    let verb = ["UPDATE", "DELETE"].into_iter().find(|verb| outside[at].is(verb))?;
    if outside[at..].iter().any(|token| token.is("WHERE")) {
        return None;
    }
    let mut names = outside[at + 1..].iter();
    let mut name = names.next()?;
    if verb == "UPDATE" && name.is("OR") {
        names.next();
        name = names.next()?;
    } else if name.is("FROM") {
        name = names.next()?;
    }
    if names.clone().next().is_some_and(|token| token.is(".")) {
        name = names.nth(1)?;
    }
    Some(UnlimitedChange { verb, table: name.unquoted().into_owned() })
}

fn varies(tokens: &[SqlToken<'_>]) -> bool {
    tokens.iter().enumerate().any(|(at, token)| {
        let is_call = tokens.get(at + 1).is_some_and(|next| next.is("("));
        if !is_call || !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) {
            return token.is_one_of(TIMES);
        }
        let name = token.unquoted();
        let is_one_of = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        is_one_of(VARYING) || (is_one_of(DATES) && uses_now(&name, &tokens[at + 2..]))
    })
}

/// Returns `true` if a date function uses the time of the run. `after` begins behind the opening parenthesis.
fn uses_now(function: &str, after: &[SqlToken<'_>]) -> bool {
    let arguments = arguments(after);
    let is_now = |token: &SqlToken<'_>| {
        let is_text = matches!(token.kind, TokenKind::Text | TokenKind::QuotedName);
        is_text && NOW.iter().any(|now| token.unquoted().eq_ignore_ascii_case(now))
    };
    let commas = outside_parentheses(arguments).iter().filter(|token| token.is(",")).count();
    let count = if arguments.is_empty() { 0 } else { commas + 1 };
    // The first argument of `strftime` is the format.
    let least = if function.eq_ignore_ascii_case("strftime") { 2 } else { 1 };
    count < least || arguments.iter().any(is_now)
}

/// Returns the tokens up to the parenthesis that ends a call.
fn arguments<'a, 'b>(after: &'b [SqlToken<'a>]) -> &'b [SqlToken<'a>] {
    let mut depth = 0_usize;
    let end = after.iter().position(|token| {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return true,
            }
        }
        false
    });
    &after[..end.unwrap_or(after.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlimited(sql: &str) -> Vec<String> {
        StatementNotes::of(sql).unlimited.iter().map(|note| format!("{} {}", note.verb, note.table)).collect()
    }

    #[test]
    fn changes_without_a_condition_are_noted() {
        for (sql, notes) in [
            ("UPDATE t SET a = 1", &["UPDATE t"][..]),
            ("update or ignore main.\"my t\" set a = 1", &["UPDATE my t"]),
            ("DELETE FROM t; DELETE FROM u WHERE a = 1; /* where */ DELETE FROM v -- where", &["DELETE t", "DELETE v"]),
            ("UPDATE t SET a = (SELECT b FROM u WHERE u.id = t.id)", &["UPDATE t"]),
            ("UPDATE t SET a = 'where'", &["UPDATE t"]),
            ("WITH gone AS (SELECT 1 WHERE 1) DELETE FROM t", &["DELETE t"]),
            ("WITH gone AS (SELECT 1) DELETE FROM t WHERE id IN gone", &[]),
            ("UPDATE t SET a = 1 WHERE id = 2", &[]),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1", &[]),
            ("CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET a = 1; DELETE FROM u; END", &[]),
            ("DELETE", &[]),
            ("", &[]),
        ] {
            assert_eq!(unlimited(sql), notes, "{sql}");
        }
    }

    #[test]
    fn what_differs_from_run_to_run_is_noted() {
        for sql in [
            "UPDATE t SET a = random()",
            "UPDATE t SET a = \"random\" ()",
            "INSERT INTO t VALUES (current_timestamp)",
            "INSERT INTO t VALUES (1); INSERT INTO t VALUES (datetime('NOW', '+1 day'))",
            "INSERT INTO t VALUES (date())",
            "INSERT INTO t VALUES (strftime('%s'))",
            "INSERT INTO t VALUES (unixepoch('subsec'))",
        ] {
            assert!(StatementNotes::of(sql).varies, "{sql}");
        }
        for sql in [
            "UPDATE t SET random = 1",
            "UPDATE t SET a = 'random()' -- random()",
            "UPDATE t SET a = date(b, '+1 day'), c = strftime('%Y', d)",
            "UPDATE t SET date = abs(random)",
            "INSERT INTO t VALUES ('now')",
            "UPDATE t SET a = date(max(b, c))",
        ] {
            assert!(!StatementNotes::of(sql).varies, "{sql}");
        }
    }
}
