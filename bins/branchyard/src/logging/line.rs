//! The lines of the log, written into a buffer that a thread uses again and again.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::time::SystemTime;

use tracing::Level;

/// Maximum number of bytes of the text of a field, before characters are escaped. The rest is cut off.
pub(super) const FIELD_BYTES: usize = 8 << 10;
/// Capacity above which a thread does not keep its buffer.
const KEPT_BYTES: usize = 64 << 10;

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineFormat {
    Text,
    Json,
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The second for which the text of a time was made last, and the text.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// A line of the log under construction.
pub(super) struct Line<'a> {
    format: LineFormat,
    bytes: &'a mut Vec<u8>,
}

/// Writes a line into the buffer of this thread, and passes the finished line to `done`.
pub(super) fn write_line(
    format: LineFormat,
    (at, level, target): (SystemTime, Level, &str),
    fill: impl FnOnce(&mut Line<'_>),
    done: impl FnOnce(&[u8]),
) {
    // The buffer is taken out of its place, because formatting a value may log in turn.
    let mut bytes = BUFFER.take();
    bytes.clear();
    let mut line = Line { format, bytes: &mut bytes };
    line.head(at, level, target);
    fill(&mut line);
    line.end();
    done(&bytes);
    if bytes.capacity() <= KEPT_BYTES {
        BUFFER.set(bytes);
    }
}

impl Line<'_> {
    fn head(&mut self, at: SystemTime, level: Level, target: &str) {
        match self.format {
            LineFormat::Json => {
                self.raw("{\"timestamp\":\"");
                self.time(at);
                self.raw("\",\"level\":\"");
                self.raw(level.as_str());
                self.raw("\",\"target\":\"");
                self.raw_escaped(format_args!("{target}"));
                self.raw("\"");
            }
            LineFormat::Text => {
                self.time(at);
                // The longest level has five letters.
                let padding = if level.as_str().len() < 5 { "  " } else { " " };
                self.raw(padding);
                self.raw(level.as_str());
                self.raw(" ");
                self.raw_escaped(format_args!("{target}"));
                self.raw(":");
            }
        }
    }

    fn end(&mut self) {
        self.raw(match self.format {
            LineFormat::Json => "}\n",
            LineFormat::Text => "\n",
        });
    }

    /// Writes the time in UTC with microseconds (RFC 3339).
    fn time(&mut self, at: SystemTime) {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        SECOND.with_borrow_mut(|(second, text)| {
            if *second != since.as_secs() {
                let time = chrono::DateTime::<chrono::Utc>::from(at);
                text.clear();
                let _ = write!(text, "{}", time.format("%Y-%m-%dT%H:%M:%S"));
                *second = since.as_secs();
            }
            self.bytes.extend_from_slice(text.as_bytes());
        });
        let _ = write!(self, ".{:06}Z", since.subsec_micros());
    }

    /// Writes the message. Called at most once, before the fields.
    pub(super) fn message(&mut self, message: fmt::Arguments<'_>) {
        match self.format {
            LineFormat::Json => self.text("message", message),
            LineFormat::Text => {
                self.raw(" ");
                self.raw_escaped(message);
            }
        }
    }

    /// Adds a field with a text.
    pub(super) fn text(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        self.raw("\"");
        self.raw_escaped(value);
        self.raw("\"");
    }

    /// Adds a field with a number or a truth value, which `value` writes as JSON does.
    pub(super) fn plain(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        let _ = self.write_fmt(value);
    }

    /// Adds a field with a number that may be infinite or not a number, which JSON cannot express.
    pub(super) fn float(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.plain(name, format_args!("{value}"))
        } else {
            self.plain(name, format_args!("null"))
        }
    }

    /// Adds fields that another line with the same format was given.
    pub(super) fn fields(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    fn name(&mut self, name: &str) {
        match self.format {
            LineFormat::Json => {
                self.raw(",\"");
                self.raw_escaped(format_args!("{name}"));
                self.raw("\":");
            }
            LineFormat::Text => {
                self.raw(" ");
                self.raw(name);
                self.raw("=");
            }
        }
    }

    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes a text with the escapes of JSON, which also keep a text from breaking the line or from reaching a terminal's escapes.
    fn raw_escaped(&mut self, text: fmt::Arguments<'_>) {
        let mut escaped = Escaped { bytes: self.bytes, room: FIELD_BYTES };
        if escaped.write_fmt(text).is_err() {
            self.raw("…");
        }
    }
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.raw(text);
        Ok(())
    }
}

/// Creates the fields of a line apart from it, for [`Line::fields`].
pub(super) fn fields(format: LineFormat, bytes: &mut Vec<u8>) -> Line<'_> {
    Line { format, bytes }
}

/// Escapes text as JSON does. Fails when the field has no more room.
struct Escaped<'a> {
    bytes: &'a mut Vec<u8>,
    room: usize,
}

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = (0..=text.len().min(self.room)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate().take(fits) {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0..=0x1f | 0x7f => "",
                _ => continue,
            };
            self.bytes.extend_from_slice(&text.as_bytes()[plain..at]);
            plain = at + 1;
            self.bytes.extend_from_slice(escape.as_bytes());
            if escape.is_empty() {
                self.bytes.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            }
        }
        self.bytes.extend_from_slice(&text.as_bytes()[plain..fits]);
        self.room -= fits;
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use tracing::Level;

    use super::{FIELD_BYTES, Line, LineFormat, write_line};

    fn line(format: LineFormat, fill: impl FnOnce(&mut Line<'_>)) -> String {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_764_000_000_000_042);
        let mut text = String::new();
        let head = (at, Level::WARN, "a::b");
        write_line(format, head, fill, |bytes| text = String::from_utf8(bytes.to_vec()).unwrap());
        text
    }

    #[test]
    fn a_line_is_one_object_or_one_line_of_text() {
        let fill = |line: &mut Line<'_>| {
            line.message(format_args!("a \"message\""));
            line.text("text", format_args!("two\nlines \u{1b}[31m ü"));
            line.plain("number", format_args!("{}", 7));
            line.float("fraction", 0.5);
            line.float("nothing", f64::NAN);
        };
        assert_eq!(
            line(LineFormat::Json, fill),
            "{\"timestamp\":\"2025-11-24T16:00:00.000042Z\",\"level\":\"WARN\",\"target\":\"a::b\",\
             \"message\":\"a \\\"message\\\"\",\"text\":\"two\\nlines \\u001b[31m ü\",\"number\":7,\"fraction\":0.5,\
             \"nothing\":null}\n"
        );
        assert_eq!(
            line(LineFormat::Text, fill),
            "2025-11-24T16:00:00.000042Z  WARN a::b: a \\\"message\\\" text=\"two\\nlines \\u001b[31m ü\" number=7 \
             fraction=0.5 nothing=null\n"
        );
    }

    #[test]
    fn a_long_text_is_cut_off_between_two_characters() {
        let text = |length: usize| {
            let line = line(LineFormat::Json, |line| line.text("t", format_args!("{}", "ü".repeat(length))));
            let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
            parsed["t"].as_str().unwrap().to_owned()
        };
        assert_eq!(text(FIELD_BYTES / 2), "ü".repeat(FIELD_BYTES / 2));
        assert_eq!(text(FIELD_BYTES / 2 + 1), "ü".repeat(FIELD_BYTES / 2) + "…");
    }

    #[test]
    fn a_value_that_logs_while_it_is_formatted_does_no_harm() {
        struct Chatty;
        impl std::fmt::Display for Chatty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(line(LineFormat::Text, |inner| inner.message(format_args!("inner"))).trim())
            }
        }
        let outer = line(LineFormat::Json, |line| line.text("t", format_args!("{Chatty}")));
        assert!(outer.contains("inner") && outer.ends_with("\"}\n"), "{outer}");
    }
}
