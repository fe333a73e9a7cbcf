//! Redaction of SQL for logs.

use crate::token::{TokenKind, tokenize};

/// Replaces every literal in `sql` by `?`, removes comments, and truncates the result to `max_chars` characters.
///
/// Double-quoted names are replaced too, because SQLite reads them as strings if no column has that name.
#[must_use]
pub fn redact(sql: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut end = None;
    for token in tokenize(sql) {
        if end.is_some_and(|end| end < token.start) {
            out.push(' ');
        }
        end = Some(token.end());
        let is_value = match token.kind {
            TokenKind::Text | TokenKind::Blob | TokenKind::Number => true,
            TokenKind::QuotedName => token.text.starts_with('"'),
            TokenKind::Word | TokenKind::Parameter | TokenKind::Symbol => false,
        };
        out.push_str(if is_value { "?" } else { token.text });
    }
    if let Some((at, _)) = out.char_indices().nth(max_chars) {
        out.truncate(at);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn no_literal_is_left() {
        for (sql, expected) in [
            ("select 'it''s', 12, 1.5e-3, x'00ff' from t2 where a = -7", "select ?, ?, ?, ? from t2 where a = -?"),
            ("insert into [my t] values (\"secret\", ?1, :a2) -- 'x' 9", "insert into [my t] values (?, ?1, :a2)"),
            ("select /* 'x' */ 0xff\n,max('open", "select ? ,max(?"),
            ("select é, tax'a'", "select é, tax?"),
        ] {
            assert_eq!(redact(sql, 1000), expected);
        }
        assert_eq!(redact("select abc", 8), "select a");
        assert_eq!(redact("select", 0), "");
    }
}
