//! The tokenizer.

use std::borrow::Cow;

/// The kind of a [`SqlToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A keyword or an unquoted name. Every non-ASCII byte may be part of a name.
    Word,
    /// A name in double quotes, backticks or brackets. SQLite reads a double-quoted name as a string if no column has
    /// that name.
    QuotedName,
    /// A string in single quotes.
    Text,
    /// A blob such as `x'00ff'`, whether or not its digits are valid.
    Blob,
    /// A number with everything attached to it: `12`, `0x1f`, `1.5e-3`, and the invalid `12abc`.
    Number,
    /// A parameter such as `?`, `?1`, `:name`, `@name` or `$name`.
    Parameter,
    /// A single punctuation character. Multi-character operators are several tokens.
    Symbol,
}

/// A token of SQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlToken<'a> {
    /// Kind of the token.
    pub kind: TokenKind,
    /// Byte offset of the token in the SQL text.
    pub start: usize,
    /// The token as written, including quotes.
    pub text: &'a str,
    /// Whether the token is complete. `false` if the SQL text ends before the closing quote.
    pub is_terminated: bool,
}

impl<'a> SqlToken<'a> {
    /// Returns the byte offset of the end of the token in the SQL text.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns `true` if the token is this keyword, compared case-insensitively, or this symbol. A quoted name is
    /// never a keyword.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Symbol) && self.text.eq_ignore_ascii_case(text)
    }

    /// Returns `true` if [`SqlToken::is`] holds for one of `texts`.
    #[must_use]
    pub fn is_one_of(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.is(text))
    }

    /// Returns the name or string that the token stands for, without quotes and with doubled quotes resolved.
    #[must_use]
    pub fn unquoted(&self) -> Cow<'a, str> {
        let Some(quote @ ('\'' | '"' | '`' | '[')) = self.text.chars().next() else { return Cow::Borrowed(self.text) };
        let inner = &self.text[1..self.text.len() - usize::from(self.is_terminated)];
        let doubled = match quote {
            '\'' => "''",
            '"' => "\"\"",
            '`' => "``",
            _ => return Cow::Borrowed(inner),
        };
        if inner.contains(doubled) { Cow::Owned(inner.replace(doubled, &doubled[1..])) } else { Cow::Borrowed(inner) }
    }
}

/// Returns the tokens of SQL text, without whitespace and comments.
///
/// An unclosed comment extends to the end of the text, as in SQLite. An unclosed string or quoted name does too, and
/// SQLite rejects it; see [`SqlToken::is_terminated`].
#[must_use]
pub fn tokenize(sql: &str) -> SqlTokens<'_> {
    SqlTokens { sql, at: 0 }
}

/// An iterator over the tokens of SQL text; see [`tokenize`].
#[derive(Debug, Clone)]
pub struct SqlTokens<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Iterator for SqlTokens<'a> {
    type Item = SqlToken<'a>;

    fn next(&mut self) -> Option<SqlToken<'a>> {
        let bytes = self.sql.as_bytes();
        self.at += blank_length(&bytes[self.at..]);
        let start = self.at;
        let (kind, length, is_terminated) = token_at(&bytes[start..])?;
        self.at += length;
        Some(SqlToken { kind, start, text: &self.sql[start..self.at], is_terminated })
    }
}

/// Returns the length of the whitespace and comments at the start.
pub(crate) fn blank_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match &bytes[at..] {
            // A vertical tab continues a run of whitespace but does not begin one.
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0c, rest @ ..] => {
                1 + count(rest, |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c))
            }
            // SQLite treats a byte order mark as whitespace wherever a token could begin.
            [0xef, 0xbb, 0xbf, ..] => 3,
            // The line break is not part of the comment, and begins a run of whitespace.
            [b'-', b'-', comment @ ..] => 2 + find(comment, b'\n').unwrap_or(comment.len()),
            // At the end of the text, SQLite reads `/*` as two symbols.
            [b'/', b'*', comment @ ..] if !comment.is_empty() => {
                2 + comment.windows(2).position(|pair| pair == b"*/").map_or(comment.len(), |end| end + 2)
            }
            _ => return at,
        };
    }
}

/// Returns the kind and length of the first token and whether it is terminated. A token ends before an ASCII
/// character or at the end of the text, so the length is a character boundary.
fn token_at(bytes: &[u8]) -> Option<(TokenKind, usize, bool)> {
    let first = *bytes.first()?;
    let second = bytes.get(1).copied().unwrap_or_default();
    let (kind, (length, is_terminated)) = match first {
        b'\'' => (TokenKind::Text, quoted(bytes, b'\'')),
        b'"' | b'`' => (TokenKind::QuotedName, quoted(bytes, first)),
        b'[' => (TokenKind::QuotedName, until(bytes, 1, b']')),
        b'x' | b'X' if second == b'\'' => (TokenKind::Blob, until(bytes, 2, b'\'')),
        b'0'..=b'9' => (TokenKind::Number, (number(bytes), true)),
        b'.' if second.is_ascii_digit() => (TokenKind::Number, (number(bytes), true)),
        b'?' => (TokenKind::Parameter, (1 + count(&bytes[1..], |byte| byte.is_ascii_digit()), true)),
        b'$' | b'@' | b':' | b'#' => match parameter(bytes) {
            (1, _) => (TokenKind::Symbol, (1, true)),
            ended => (TokenKind::Parameter, ended),
        },
        _ if is_name(first) => (TokenKind::Word, (count(bytes, is_name), true)),
        _ => (TokenKind::Symbol, (1, true)),
    };
    Some((kind, length, is_terminated))
}

/// Returns `true` for bytes that can continue a name: `IdChar` of SQLite.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

fn count(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !matches(*byte)).unwrap_or(bytes.len())
}

/// Returns the length up to and including the first `close` at or after `from`, and whether there is one.
fn until(bytes: &[u8], from: usize, close: u8) -> (usize, bool) {
    find(&bytes[from..], close).map_or((bytes.len(), false), |at| (from + at + 1, true))
}

/// Returns the length up to and including the first quote that is not doubled, and whether there is one.
fn quoted(bytes: &[u8], quote: u8) -> (usize, bool) {
    let mut at = 1;
    loop {
        match until(bytes, at, quote) {
            (end, true) if bytes.get(end) == Some(&quote) => at = end + 1,
            end => return end,
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    let digits = |from: usize| from + count(&bytes[from..], |byte| byte.is_ascii_digit() || byte == b'_');
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if let (Some(b'e' | b'E'), Some(b'+' | b'-')) = (bytes.get(at), bytes.get(at + 1))
        && is_digit(at + 2)
    {
        at = digits(at + 2);
    }
    // Hexadecimal digits, exponents without a sign, and characters that make the number invalid.
    at + count(&bytes[at..], is_name)
}

/// Returns the length of a parameter and whether it is terminated: `:name`, `@name`, `#name`, or `$name` with the
/// `::` and the parentheses of Tcl. The length is 1 if there is no name.
fn parameter(bytes: &[u8]) -> (usize, bool) {
    let (mut at, mut is_named) = (1, false);
    loop {
        match &bytes[at..] {
            [byte, ..] if is_name(*byte) => is_named = true,
            [b':', b':', ..] => at += 1,
            [b'(', rest @ ..] if is_named => {
                let inside = count(rest, |byte| !matches!(byte, b')' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c));
                return if rest.get(inside) == Some(&b')') {
                    (at + inside + 2, true)
                } else {
                    (at + 1 + inside, false)
                };
            }
            _ => return (at, true),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenKind, tokenize};

    fn tokens(sql: &str) -> Vec<(TokenKind, &str)> {
        tokenize(sql).map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn every_kind_of_token_is_recognized() {
        use TokenKind::{Blob, Number, Parameter, QuotedName, Symbol, Text, Word};
        for (sql, expected) in [
            ("a$b é_1", vec![(Word, "a$b"), (Word, "é_1")]),
            (
                "\"a\"\"b\"`c``d`[e\"f]",
                vec![(QuotedName, "\"a\"\"b\""), (QuotedName, "`c``d`"), (QuotedName, "[e\"f]")],
            ),
            ("'it''s''", vec![(Text, "'it''s''")]),
            ("x'00' X'zz' tax'a'", vec![(Blob, "x'00'"), (Blob, "X'zz'"), (Word, "tax"), (Text, "'a'")]),
            (
                "1 0x1F 1_0.5e-3 .5 1e 2abc",
                vec!["1", "0x1F", "1_0.5e-3", ".5", "1e", "2abc"].into_iter().map(|n| (Number, n)).collect(),
            ),
            ("1e+a", vec![(Number, "1e"), (Symbol, "+"), (Word, "a")]),
            (
                "?1 ? :a @b $c::d(e)",
                vec!["?1", "?", ":a", "@b", "$c::d(e)"].into_iter().map(|p| (Parameter, p)).collect(),
            ),
            (
                "a.b->>'c'",
                vec![
                    (Word, "a"),
                    (Symbol, "."),
                    (Word, "b"),
                    (Symbol, "-"),
                    (Symbol, ">"),
                    (Symbol, ">"),
                    (Text, "'c'"),
                ],
            ),
            ("- -1/ *", vec![(Symbol, "-"), (Symbol, "-"), (Number, "1"), (Symbol, "/"), (Symbol, "*")]),
            ("/* a */ b -- c\nd/*/ e", vec![(Word, "b"), (Word, "d")]),
            ("\u{feff}a \u{feff}b", vec![(Word, "a"), (Word, "b")]),
            ("-- a\n\u{b}b", vec![(Word, "b")]),
            ("a \u{b}b\u{b}", vec![(Word, "a"), (Word, "b"), (Symbol, "\u{b}")]),
            (": $(a)", vec![(Symbol, ":"), (Symbol, "$"), (Symbol, "("), (Word, "a"), (Symbol, ")")]),
        ] {
            assert_eq!(tokens(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_is_not_closed_extends_to_the_end() {
        for open in ["'a", "\"a", "`a", "[a", "x'0", "$a(b", "'", "'''"] {
            let found: Vec<_> = tokenize(open).collect();
            assert!(found.len() == 1 && !found[0].is_terminated && found[0].text == open, "{open}: {found:?}");
        }
        assert_eq!(tokens("/* a"), []);
        assert_eq!(tokens("-- a"), []);
    }

    #[test]
    fn quotes_are_undone() {
        for (sql, expected) in [
            ("'it''s'", "it's"),
            ("\"a\"\"\"", "a\""),
            ("`a``b`", "a`b"),
            ("[a\"\"b]", "a\"\"b"),
            ("word", "word"),
            ("'a", "a"),
            ("'", ""),
        ] {
            let token = tokenize(sql).next().unwrap();
            assert_eq!(token.unquoted(), expected, "{sql}");
        }
    }

    proptest::proptest! {
        #[test]
        fn tokens_and_what_is_between_them_make_up_the_text(sql in "(?s).*") {
            tile(&sql);
        }

        #[test]
        fn odd_texts_have_tokens_too(sql in "['\"`\\[\\]x$:@#?.0-9eE+/*()\\n \u{feff}\u{e9}-]{0,30}") {
            tile(&sql);
        }
    }

    fn tile(sql: &str) {
        let mut end = 0;
        for token in tokenize(sql) {
            assert!(token.start >= end && token.end() > token.start, "{token:?}");
            assert_eq!(&sql[token.start..token.end()], token.text);
            assert_eq!(tokenize(&sql[end..token.start]).count(), 0, "{token:?}");
            end = token.end();
        }
        assert_eq!(tokenize(&sql[end..]).count(), 0);
        assert!(crate::statement_length(sql) <= sql.len() && sql.is_char_boundary(crate::statement_length(sql)));
        assert!(crate::redact(sql, 9).chars().count() <= 9);
    }
}
