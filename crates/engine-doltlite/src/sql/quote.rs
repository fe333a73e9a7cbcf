//! Names as SQL text.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(name(r#"a"b;--"#), r#""a""b;--""#);
        assert_eq!(names(["a", "b c"]), r#""a", "b c""#);
    }
}
