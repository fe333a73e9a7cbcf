//! Names and texts as SQL.

/// A name in double quotes, so that any text is a name.
pub(crate) fn name(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if c == '"' {
            quoted.push('"');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Names in double quotes, with commas between them.
pub(crate) fn names<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(name).collect::<Vec<_>>().join(", ")
}

/// A text in single quotes; `None` when it holds a NUL, where the engine would end it.
pub(crate) fn text(text: &str) -> Option<String> {
    (!text.contains('\0')).then(|| format!("'{}'", text.replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(name(r#"a"b;--"#), r#""a""b;--""#);
        assert_eq!(names(["a", "b c"]), r#""a", "b c""#);
        assert_eq!(text("it's; --\"").as_deref(), Some("'it''s; --\"'"));
        assert_eq!(text("a\0b"), None);
    }
}
