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

/// Where statements end, as `sqlite3_complete` sees it: at a semicolon, but that of a trigger only after its END.
#[derive(Clone, Copy)]
enum Within {
    Start,
    Statement,
    Explain,
    Create,
    Trigger,
    TriggerSemicolon,
    TriggerEnd,
}

impl Within {
    fn after_word(self, word: &str) -> Self {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        match self {
            Self::Start if is("EXPLAIN") => Self::Explain,
            Self::Start | Self::Explain if is("CREATE") => Self::Create,
            Self::Explain if !(is("EXPLAIN") || is("TEMP") || is("TEMPORARY") || is("TRIGGER") || is("END")) => {
                Self::Explain
            }
            Self::Create if is("TEMP") || is("TEMPORARY") => Self::Create,
            Self::Create if is("TRIGGER") => Self::Trigger,
            Self::TriggerSemicolon if is("END") => Self::TriggerEnd,
            other => other.after_other(),
        }
    }

    fn after_other(self) -> Self {
        match self {
            Self::Trigger | Self::TriggerSemicolon | Self::TriggerEnd => Self::Trigger,
            Self::Start | Self::Statement | Self::Explain | Self::Create => Self::Statement,
        }
    }

    /// `None` where the statement is over.
    fn after_semicolon(self) -> Option<Self> {
        match self {
            Self::Trigger | Self::TriggerSemicolon => Some(Self::TriggerSemicolon),
            _ => None,
        }
    }
}

/// The length of the first statement with its semicolon, or of all there is.
pub(crate) fn statement_length(sql: &str) -> usize {
    complete_length(sql).unwrap_or(sql.len())
}

/// The length of the first statement with its semicolon; `None` if there is none that ends with one.
pub(crate) fn complete_length(sql: &str) -> Option<usize> {
    let bytes = sql.as_bytes();
    let mut within = Within::Start;
    let mut at = sql.len() - skip_blank(sql).len();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b';' => {
                at += 1;
                match within.after_semicolon() {
                    Some(next) => within = next,
                    None => return Some(at),
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => at += 1,
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = memchr(b'\n', bytes, at).map_or(bytes.len(), |end| end + 1);
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = comment_end(bytes, at + 2),
            b'\'' | b'"' | b'`' | b'[' => {
                let close = if *byte == b'[' { b']' } else { *byte };
                // A doubled quote reads as two strings side by side: the same end.
                at = memchr(close, bytes, at + 1).map_or(bytes.len(), |end| end + 1);
                within = within.after_other();
            }
            _ if is_word(*byte) => {
                let end = bytes[at..].iter().position(|byte| !is_word(*byte)).map_or(bytes.len(), |length| at + length);
                within = within.after_word(&String::from_utf8_lossy(&bytes[at..end]));
                at = end;
            }
            _ => {
                at += 1;
                within = within.after_other();
            }
        }
    }
    None
}

/// How deep parentheses may stand in each other, and with them subqueries and joins.
pub(crate) const MAX_NESTING: usize = 100;

/// How deep the parentheses of a text stand in each other.
pub(crate) fn nesting(sql: &str) -> usize {
    let bytes = sql.as_bytes();
    let (mut at, mut depth, mut deepest) = (0, 0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'(' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b')' => depth = depth.saturating_sub(1),
            b'-' if bytes.get(at) == Some(&b'-') => at = memchr(b'\n', bytes, at).map_or(bytes.len(), |end| end + 1),
            b'/' if bytes.get(at) == Some(&b'*') => at = comment_end(bytes, at + 1),
            b'\'' | b'"' | b'`' | b'[' => {
                let close = if *byte == b'[' { b']' } else { *byte };
                at = memchr(close, bytes, at).map_or(bytes.len(), |end| end + 1);
            }
            _ => {}
        }
    }
    deepest
}

/// How many paths a call of a JSON function may have. Each is looked for in the whole document, and nothing stops a call.
pub(crate) const MAX_PATHS: usize = 16;

/// The functions that take several paths, and the number of arguments of each path.
const BY_PATHS: [(&str, usize); 12] = [
    ("json_extract", 1),
    ("jsonb_extract", 1),
    ("json_remove", 1),
    ("jsonb_remove", 1),
    ("json_set", 2),
    ("jsonb_set", 2),
    ("json_insert", 2),
    ("jsonb_insert", 2),
    ("json_replace", 2),
    ("jsonb_replace", 2),
    ("json_array_insert", 2),
    ("jsonb_array_insert", 2),
];

/// The most paths that any one call in a text has.
pub(crate) fn paths(sql: &str) -> usize {
    // Most statements are too short for too many.
    if sql.len() < 2 * MAX_PATHS {
        return 0;
    }
    let bytes = sql.as_bytes();
    // Of each open parenthesis: how many arguments a path takes, if it belongs to such a function, and its commas.
    let mut open: Vec<(Option<usize>, usize)> = Vec::new();
    let (mut at, mut most, mut name) = (0, 0, &bytes[..0]);
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => continue,
            b'-' if bytes.get(at) == Some(&b'-') => {
                at = memchr(b'\n', bytes, at).map_or(bytes.len(), |end| end + 1);
                continue;
            }
            b'/' if bytes.get(at) == Some(&b'*') => {
                at = comment_end(bytes, at + 1);
                continue;
            }
            b'(' => {
                let called = BY_PATHS.iter().find(|(function, _)| name.eq_ignore_ascii_case(function.as_bytes()));
                open.push((called.map(|(_, arguments)| *arguments), 0));
            }
            b',' => {
                if let Some((arguments, commas)) = open.last_mut() {
                    *commas += 1;
                    most = most.max(arguments.map_or(0, |arguments| commas.div_ceil(arguments)));
                }
            }
            b')' => drop(open.pop()),
            b'\'' | b'"' | b'`' | b'[' => {
                let close = if *byte == b'[' { b']' } else { *byte };
                at = memchr(close, bytes, at).map_or(bytes.len(), |end| end + 1);
                name = &bytes[start + 1..(at - 1).max(start + 1)];
                continue;
            }
            _ if is_word(*byte) => {
                at = bytes[at..].iter().position(|byte| !is_word(*byte)).map_or(bytes.len(), |length| at + length);
                name = &bytes[start..at];
                continue;
            }
            _ => {}
        }
        name = &bytes[..0];
    }
    most
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
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
        "BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "ATTACH" | "DETACH" | "VACUUM"
        | "PRAGMA" => Kind::Control,
        _ => Kind::Read,
    }
}

/// Whether a statement may store a definition.
pub(crate) fn defines(sql: &str) -> bool {
    let word = first_word(sql);
    ["CREATE", "ALTER"].iter().any(|other| word.eq_ignore_ascii_case(other))
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
            ("create table trigger_end(a);", "end;"),
            ("select 'open; ", ""),
            (" ;; select 1;", ";"),
        ] {
            let sql = format!("{first}{rest}");
            assert_eq!(&sql[..statement_length(&sql)], first);
        }
    }

    #[test]
    fn parentheses_nest_outside_of_texts_and_comments() {
        for (sql, depth) in [
            ("select 1", 0),
            ("select (1), ((2))", 2),
            ("select '((' || \"((\" || `((` || [((] -- ((\n /* (( */ , (1)", 1),
            ("))((", 2),
            ("select '(", 0),
            ("/* (", 0),
            ("-- (", 0),
        ] {
            assert_eq!(nesting(sql), depth, "{sql}");
        }
    }

    #[test]
    fn paths_are_counted_call_by_call() {
        let list = |count: usize| vec!["'$.a'"; count].join(", ");
        for (sql, expected) in [
            (format!("select json_extract(doc, {})", list(40)), 40),
            (format!("select JSON_Remove /* ( */ (doc, {}), json_extract(doc, '$')", list(33)), 33),
            (format!("select \"json_set\"(f(1, 2, {}), {})", list(9), list(80)), 40),
            (format!("select [jsonb_insert]\n--\n('(', {}", list(63)), 32),
            (format!("select json_array({}), 'json_extract(1, {}'", list(50), list(50).replace('\'', "")), 0),
            (format!("select json_extract(doc, (select max({}) from t), '$')", list(50)), 2),
            (format!("select json_extract + (1, {})", list(50)), 0),
            (format!("select {}", list(50)), 0),
        ] {
            assert_eq!(paths(&sql), expected, "{sql}");
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
        ] {
            assert_eq!(first_word(sql), word, "{sql}");
        }
    }
}
