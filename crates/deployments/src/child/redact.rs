//! SQL texts for the log: without their values.

/// The text with `?` for each literal, without comments, cut to `most` characters.
pub(crate) fn redact(sql: &str, most: usize) -> String {
    let bytes = sql.as_bytes();
    let mut out = String::new();
    let mut at = 0;
    let mut after_word = false;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'\'' => {
                at = quoted(bytes, at, b'\'');
                // The letter before a blob's quotes.
                if matches!(out.as_bytes().last(), Some(b'x' | b'X')) && single_letter(&out) {
                    out.pop();
                }
                out.push('?');
                after_word = false;
            }
            // A name, or where there is no such name a text.
            b'"' | b'`' | b'[' => {
                let close = if *byte == b'[' { b']' } else { *byte };
                at = quoted(bytes, at, close);
                out.push_str(if *byte == b'"' { "?" } else { &sql[start..at] });
                after_word = true;
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at);
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at += bytes[at + 2..].windows(2).position(|pair| pair == b"*/").map_or(bytes.len() - at, |n| n + 4);
            }
            b'0'..=b'9' if !after_word => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'.' || *b == b'_') {
                    at += 1;
                }
                out.push('?');
            }
            _ => {
                after_word = byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"_$:@?".contains(byte);
                at += 1;
                while !sql.is_char_boundary(at) {
                    at += 1;
                }
                out.push_str(if byte.is_ascii_whitespace() { " " } else { &sql[start..at] });
            }
        }
    }
    out.trim().chars().take(most).collect()
}

fn single_letter(out: &str) -> bool {
    let before = out.len().checked_sub(2).and_then(|at| out.as_bytes().get(at));
    before.is_none_or(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'))
}

/// Just behind the closing mark; a doubled one does not close.
fn quoted(bytes: &[u8], from: usize, close: u8) -> usize {
    let mut at = from + 1;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        if *byte == close {
            if bytes.get(at) != Some(&close) || close == b']' {
                return at;
            }
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn no_value_is_left() {
        for (sql, expected) in [
            ("select 'it''s', 12, 1.5e3, x'00ff' from t2 where a = -7", "select ?, ?, ?, ? from t2 where a = -?"),
            ("insert into [my t] values (\"secret\", ?1, :a2) -- 'x' 9", "insert into [my t] values (?, ?1, :a2)"),
            ("select /* 'x' */ 0xff\n,max('open", "select  ? ,max(?"),
            ("select é, tax'a'", "select é, tax?"),
        ] {
            assert_eq!(redact(sql, 1000), expected);
        }
        assert_eq!(redact("select abc", 8), "select a");
        assert_eq!(redact("select", 0), "");
    }
}
