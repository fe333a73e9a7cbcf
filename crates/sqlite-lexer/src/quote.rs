//! Quoting of names and strings.

/// Returns `name` in double quotes, which makes any text a valid name.
#[must_use]
pub fn quote_name(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for c in name.chars() {
        if c == '"' {
            quoted.push('"');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Returns `names` in double quotes, separated by commas.
pub fn quote_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote_name).collect::<Vec<_>>().join(", ")
}

/// Returns `text` as a string literal in single quotes. Returns `None` if the text contains NUL, at which SQLite ends
/// the SQL text.
#[must_use]
pub fn quote_text(text: &str) -> Option<String> {
    (!text.contains('\0')).then(|| format!("'{}'", text.replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(quote_name(r#"a"b;--"#), r#""a""b;--""#);
        assert_eq!(quote_names(["a", "b c"]), r#""a", "b c""#);
        assert_eq!(quote_text("it's; --\"").as_deref(), Some("'it''s; --\"'"));
        assert_eq!(quote_text("a\0b"), None);
    }
}
