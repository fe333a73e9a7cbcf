//! Just enough of a tokenizer to tell what kind of statement a text begins with.

/// What the first word says a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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

/// The text from its first token on: white space, comments and empty statements are skipped.
pub(crate) fn skip_blank(sql: &str) -> &str {
    let bytes = sql.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0c | b';') => at += 1,
            // A byte order mark counts as white space at the start only.
            Some(0xef) if at == 0 && bytes.starts_with(b"\xef\xbb\xbf") => at += 3,
            Some(b'-') if bytes.get(at + 1) == Some(&b'-') => {
                at = memchr(b'\n', bytes, at).map_or(bytes.len(), |end| end + 1);
            }
            Some(b'/') if bytes.get(at + 1) == Some(&b'*') => {
                at = comment_end(bytes, at + 2);
            }
            _ => return &sql[at..],
        }
    }
}

fn memchr(byte: u8, bytes: &[u8], from: usize) -> Option<usize> {
    bytes[from..].iter().position(|b| *b == byte).map(|at| from + at)
}

fn comment_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |at| from + at + 2)
}

/// The first word of a statement as written; empty when there is no statement. Something that is no word is given as one character.
pub(crate) fn first_word(sql: &str) -> &str {
    let sql = skip_blank(sql);
    let word = sql
        .char_indices()
        .find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_' || !c.is_ascii()))
        .map_or(sql.len(), |(at, _)| at);
    match (word, sql.chars().next()) {
        (0, Some(c)) => &sql[..c.len_utf8()],
        _ => &sql[..word],
    }
}

/// What the first word of a statement says.
pub(crate) fn kind(sql: &str) -> Kind {
    match first_word(sql).to_ascii_uppercase().as_str() {
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "CREATE" | "DROP" => Kind::Write,
        "ANALYZE" | "REINDEX" => Kind::Maintenance,
        "ALTER" => Kind::Alter,
        "BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "ATTACH" | "DETACH" | "VACUUM" | "PRAGMA" => {
            Kind::Control
        }
        _ => Kind::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(first_word(sql), word, "{sql}");
        }
    }
}
