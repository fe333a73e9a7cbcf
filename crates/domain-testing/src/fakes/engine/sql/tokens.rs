//! Statements as slices of tokens.

use branchyard_sqlite_lexer::{SqlToken, statement_length, tokenize};

use branchyard_domain::ports::SqlFailure;

pub(super) fn syntax(sql: &str, token: Option<&SqlToken<'_>>) -> SqlFailure {
    match token {
        Some(token) => SqlFailure::Syntax { position: token.end() + 1, near: token.text.to_owned() },
        None => SqlFailure::Syntax { position: sql.len() + 1, near: String::new() },
    }
}

/// Returns the tokens of each statement, without empty statements.
pub(super) fn statements(sql: &str) -> Result<Vec<Vec<SqlToken<'_>>>, SqlFailure> {
    if tokenize(sql).any(|token| !token.is_terminated) {
        return Err(syntax(sql, None));
    }
    let (mut statements, mut start) = (Vec::new(), 0);
    while start < sql.len() {
        let end = start + statement_length(&sql[start..]);
        let tokens = tokenize(&sql[start..end]).map(|token| SqlToken { start: start + token.start, ..token });
        statements.push(without_semicolons(tokens.collect()));
        start = end;
    }
    statements.retain(|statement| !statement.is_empty());
    Ok(statements)
}

/// Removes leading and trailing semicolons. Keeps those within a trigger.
fn without_semicolons(mut tokens: Vec<SqlToken<'_>>) -> Vec<SqlToken<'_>> {
    while tokens.last().is_some_and(|token| token.is(";")) {
        tokens.pop();
    }
    tokens.drain(..tokens.iter().take_while(|token| token.is(";")).count());
    tokens
}
