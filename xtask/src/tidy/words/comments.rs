//! Finds the comments of Rust source.

/// A line of a comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comment<'a> {
    pub(super) line: usize,
    /// `//`, `///`, `//!` or `/*`.
    pub(super) marker: &'static str,
    pub(super) text: &'a str,
    /// `true` if no code stands before it on its line.
    pub(super) alone: bool,
}

/// Returns the lines of all comments. A marker in a literal does not begin a comment.
pub(super) fn scan(source: &str) -> Vec<Comment<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let length = if rest.starts_with("//") || rest.starts_with("/*") {
            comment(source, at, &mut found)
        } else {
            literal(source, at).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8))
        };
        at += length;
    }
    found
}

/// Adds the comment that begins at the offset, and returns its length.
fn comment<'a>(source: &'a str, at: usize, found: &mut Vec<Comment<'a>>) -> usize {
    let rest = &source[at..];
    let (marker, length) = if rest.starts_with("/*") {
        ("/*", rest.find("*/").map_or(rest.len(), |end| end + 2))
    } else {
        let marker = ["///", "//!"].into_iter().find(|marker| rest.starts_with(marker)).unwrap_or("//");
        (marker, rest.find('\n').unwrap_or(rest.len()))
    };
    let before = source[..at].rsplit('\n').next().unwrap_or_default();
    let first = source[..at].matches('\n').count() + 1;
    let text = rest[marker.len()..length].trim_end_matches("*/");
    for (index, text) in text.lines().enumerate() {
        found.push(Comment { line: first + index, marker, text, alone: index > 0 || before.trim().is_empty() });
    }
    length
}

/// Returns the length of the string or character that begins at the offset, if one does.
fn literal(source: &str, at: usize) -> Option<usize> {
    let rest = &source[at..];
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    if rest.starts_with('\'') {
        // A lifetime has no quote after its first character.
        let mut chars = rest.chars().skip(1);
        let is_character = chars.next() == Some('\\') || chars.next() == Some('\'');
        return is_character.then(|| quoted(rest, '\''));
    }
    let in_name = source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let raw = ["r", "br", "cr"].into_iter().filter(|_| !in_name).find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let body = raw[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |start| start + end.len());
    Some(rest.len() - body.len() + length)
}

/// Returns the length of a literal that begins and ends with `quote`.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(usize, &str, &str, bool)> {
        scan(source).into_iter().map(|found| (found.line, found.marker, found.text, found.alone)).collect()
    }

    #[test]
    fn comments_are_found() {
        let source = "//! a\n\n    /// b\nfn c() {} // d é\n/* e\nf */ const G: u8 = 1; //\n";
        let expected = [
            (1, "//!", " a", true),
            (3, "///", " b", true),
            (4, "//", " d é", false),
            (5, "/*", " e", true),
            (6, "/*", "f ", true),
        ];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn literals_are_no_comments() {
        let source = concat!(
            "const A: &str = \"https://a\\\"//\";\n",
            "const B: &str = r#\"\"//\"#;\n",
            "const C: &[u8] = br\"//\\\";\n",
            "const D: [char; 3] = ['\"', '\\'', '/'];\n",
            "const E: &str = \"\n// x\n\";\n",
            "fn f<'a>(g: &'a str) -> &'a str { g } // h\n",
            "const R: &str = var\"//\";\n",
        );
        assert_eq!(texts(source), [(8, "//", " h", false)]);
    }
}
