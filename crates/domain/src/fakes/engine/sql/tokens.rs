//! Tokens, and statements as runs of them.

use crate::ports::SqlFailure;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    QuotedName,
    Number,
    Text,
    Symbol,
}

/// A token, from one byte of the text up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

pub(super) fn syntax(sql: &str, token: Option<&Token>) -> SqlFailure {
    match token {
        Some(token) => SqlFailure::Syntax { position: token.end + 1, near: sql[token.start..token.end].to_owned() },
        None => SqlFailure::Syntax { position: sql.len() + 1, near: String::new() },
    }
}

/// The statements of a text; empty ones are left out.
pub(super) fn statements(sql: &str) -> Result<Vec<Vec<Token>>, SqlFailure> {
    let mut statements = vec![Vec::new()];
    let mut at = 0;
    while let Some(first) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let length = |stops: &dyn Fn(char) -> bool| rest.find(stops).unwrap_or(rest.len());
        let (kind, end) = match first {
            c if c.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            // The statements of a trigger's body are part of it.
            ';' if statements.last().is_none_or(|statement| !is_inside_trigger(sql, statement)) => {
                statements.push(Vec::new());
                at += 1;
                continue;
            }
            c if c.is_alphabetic() || c == '_' => (Kind::Word, at + length(&|c| !c.is_alphanumeric() && c != '_')),
            c if c.is_ascii_digit() => (Kind::Number, at + length(&|c| !c.is_ascii_digit() && c != '.')),
            '\'' => (Kind::Text, at + quoted(sql, at, '\'')?),
            '"' | '`' => (Kind::QuotedName, at + quoted(sql, at, first)?),
            _ => (Kind::Symbol, at + first.len_utf8()),
        };
        if let Some(statement) = statements.last_mut() {
            statement.push(Token { kind, start: at, end });
        }
        at = end;
    }
    statements.retain(|statement| !statement.is_empty());
    Ok(statements)
}

fn is_inside_trigger(sql: &str, tokens: &[Token]) -> bool {
    let is = |token: Option<&Token>, word: &str| {
        token.is_some_and(|token| sql[token.start..token.end].eq_ignore_ascii_case(word))
    };
    is(tokens.first(), "create") && is(tokens.get(1), "trigger") && !is(tokens.last(), "end")
}

/// The length of what is quoted, quotes included; a doubled quote stands for itself.
fn quoted(sql: &str, start: usize, quote: char) -> Result<usize, SqlFailure> {
    let rest = &sql[start + 1..];
    let mut at = 0;
    loop {
        let found = rest[at..].find(quote).ok_or_else(|| syntax(sql, None))?;
        at += found + 1;
        if !rest[at..].starts_with(quote) {
            return Ok(at + 1);
        }
        at += 1;
    }
}

/// What a quoted token says.
pub(super) fn unquote(text: &str) -> String {
    let quote = text.chars().next().unwrap_or('"');
    let inner = &text[1..text.len() - 1];
    inner.replace(&format!("{quote}{quote}"), &quote.to_string())
}
