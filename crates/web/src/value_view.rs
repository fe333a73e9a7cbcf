//! Values as the page of a row shows them: documents in JSON with line breaks, addresses as links.

/// Longest document that is shown with line breaks, in bytes.
const MOST_BYTES: usize = 100_000;
/// Deepest nesting of a document that is shown with line breaks.
const MOST_DEPTH: usize = 30;

/// Returns a JSON object or array with line breaks and indentation. Numbers and texts stay as they are written. Returns `None` for
/// any other text.
pub(crate) fn pretty_json(text: &str) -> Option<String> {
    let trimmed = text.trim();
    let looks_so =
        trimmed.starts_with('{') && trimmed.ends_with('}') || trimmed.starts_with('[') && trimmed.ends_with(']');
    if !looks_so || text.len() > MOST_BYTES || serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_err() {
        return None;
    }
    let (mut pretty, mut depth, mut in_text, mut is_escaped) = (String::new(), 0_usize, false, false);
    let mut rest = trimmed.chars().filter(|c| !c.is_control()).peekable();
    while let Some(c) = rest.next() {
        if in_text {
            pretty.push(c);
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        let line = |pretty: &mut String, depth: usize| {
            pretty.push('\n');
            pretty.push_str(&"  ".repeat(depth));
        };
        match c {
            ' ' => {}
            '{' | '[' => {
                pretty.push(c);
                while rest.next_if_eq(&' ').is_some() {}
                if let Some(end) = rest.next_if(|next| matches!(next, '}' | ']')) {
                    pretty.push(end);
                    continue;
                }
                depth += 1;
                if depth > MOST_DEPTH {
                    return None;
                }
                line(&mut pretty, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut pretty, depth);
                pretty.push(c);
            }
            ',' => {
                pretty.push(c);
                line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            _ => {
                in_text = c == '"';
                pretty.push(c);
            }
        }
    }
    Some(pretty)
}

/// Returns the text if it is an address on the web.
pub(crate) fn web_address(text: &str) -> Option<&str> {
    let has_host = ["https://", "http://"].iter().any(|scheme| {
        let start = text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        start && text.len() > scheme.len()
    });
    let is_plain = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    (has_host && is_plain && text.len() <= 2_000).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{pretty_json, web_address};

    #[test]
    fn documents_have_line_breaks_and_keep_their_spelling() {
        let text = "{\"b\": [1.10, {}, [ ]],\n\"a\":\"x, {y}: \\\"z\\\" \\\\\",\"n\":12345678901234567890}";
        let expected = "{\n  \"b\": [\n    1.10,\n    {},\n    []\n  ],\n  \"a\": \"x, {y}: \\\"z\\\" \\\\\",\n  \"n\": 12345678901234567890\n}";
        assert_eq!(pretty_json(text).as_deref(), Some(expected));
        for other in ["", "1", "\"a\"", "{a}", "[1", "{\"a\":1} x}"] {
            assert_eq!(pretty_json(other), None, "{other}");
        }
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        assert_eq!(pretty_json(&deep), None);
    }

    #[test]
    fn only_addresses_on_the_web_are_links() {
        assert_eq!(web_address("https://a.test/b?c=d"), Some("https://a.test/b?c=d"));
        assert_eq!(web_address("HTTP://a.test"), Some("HTTP://a.test"));
        for other in ["https://", "javascript:alert(1)", "a https://b.test", "https://a b", "ftp://a.test", "héttp"] {
            assert_eq!(web_address(other), None, "{other}");
        }
    }
}
