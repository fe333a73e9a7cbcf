//! Texts as strings of the languages that pages show.

use serde_json::Value;

/// Quotes a text for a POSIX shell.
pub(crate) fn in_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Quotes a text as JSON does, which is also a string of Python, JavaScript and, for ASCII, R. Escapes what ends lines in some of them.
pub(crate) fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace('\u{7f}', "\\u007f")
}

/// Quotes a text as a literal of DuckDB.
pub(crate) fn in_duckdb(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
