//! Splits a script into its statements, one at a time.

use std::io::{self, Read};
use std::str;

use branchyard_sqlite_lexer::{skip_to_statement, terminated_statement_length};

const LEAST_READ: usize = 64 * 1024;

/// A statement of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptStatement {
    /// Line of its first token, from 1.
    pub(super) line: u64,
    /// The text from its first token to its semicolon.
    pub(super) text: String,
}

/// The reason why there is no further statement.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The script is invalid on this line.
    Script { line: u64, detail: String },
    /// The script cannot be read.
    Io(io::Error),
}

/// A reader of statements. It holds at most about twice the longest statement in memory.
pub(super) struct Statements<'a> {
    script: &'a mut dyn Read,
    limit: usize,
    /// Bytes that were read and not returned yet.
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that are already consumed.
    done: usize,
    /// The line on which the rest of the buffer begins.
    line: u64,
    bytes: usize,
    ended: bool,
}

/// What the text read so far begins with.
enum TextBegin {
    /// A statement: the length of the white space and comments before it, and its own length, in bytes.
    ScriptStatement(usize, usize),
    /// No complete statement yet.
    More,
    /// The end of the script.
    End,
}

impl<'a> Statements<'a> {
    pub(super) fn new(script: &'a mut dyn Read, limit: usize) -> Self {
        Self { script, limit, buffer: Vec::new(), done: 0, line: 1, bytes: 0, ended: false }
    }

    /// Returns the number of bytes read so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the next statement, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<ScriptStatement>, Stopped> {
        loop {
            let (valid, broken) = self.text();
            match find(valid, self.ended) {
                TextBegin::End if !broken => return Ok(None),
                TextBegin::ScriptStatement(blank, length) => {
                    let text = valid[blank..blank + length].to_owned();
                    self.skip(blank);
                    let statement = ScriptStatement { line: self.line, text };
                    self.skip(length);
                    return if length > self.limit { Err(self.too_long(statement.line)) } else { Ok(Some(statement)) };
                }
                TextBegin::More | TextBegin::End => {
                    let (blank, length) = (valid.len() - skip_to_statement(valid).len(), valid.len());
                    if broken {
                        self.skip(length);
                        return Err(Stopped::Script { line: self.line, detail: "not valid UTF-8".to_owned() });
                    }
                    // White space and comments can be skipped once another token follows.
                    if blank < length {
                        self.skip(blank);
                    }
                    if length > self.limit.saturating_add(LEAST_READ) {
                        return Err(self.too_long(self.line));
                    }
                    self.read()?;
                }
            }
        }
    }

    fn too_long(&self, line: u64) -> Stopped {
        Stopped::Script { line, detail: format!("the statement is longer than {} bytes", self.limit) }
    }

    /// Returns the rest of the text up to the first invalid byte. The second value is `true` if an invalid byte
    /// follows.
    fn text(&self) -> (&str, bool) {
        let bytes = &self.buffer[self.done..];
        match str::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => {
                let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                (valid, self.ended || error.error_len().is_some())
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        let skipped = &self.buffer[self.done..self.done + bytes];
        self.line += skipped.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        self.done += bytes;
    }

    /// Reads about as much as the buffer holds, so that a long statement is not scanned too often.
    fn read(&mut self) -> Result<(), Stopped> {
        self.buffer.drain(..self.done);
        self.done = 0;
        let more = u64::try_from(self.buffer.len().max(LEAST_READ)).unwrap_or(u64::MAX);
        let read = (&mut *self.script).take(more).read_to_end(&mut self.buffer).map_err(Stopped::Io)?;
        self.bytes += read;
        self.ended = read == 0;
        Ok(())
    }
}

fn find(text: &str, ended: bool) -> TextBegin {
    let rest = skip_to_statement(text);
    let blank = text.len() - rest.len();
    match terminated_statement_length(rest) {
        Some(length) => TextBegin::ScriptStatement(blank, length),
        None if !ended => TextBegin::More,
        None if rest.is_empty() => TextBegin::End,
        None => TextBegin::ScriptStatement(blank, rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let few = buffer.len().min(3);
            self.0.read(&mut buffer[..few])
        }
    }

    type StatementError = (u64, String);

    fn statements(script: &[u8], limit: usize) -> (Vec<StatementError>, Option<StatementError>) {
        let mut slow = Slow(script);
        let mut statements = Statements::new(&mut slow, limit);
        let mut found = Vec::new();
        loop {
            match statements.next() {
                Ok(Some(statement)) => found.push((statement.line, statement.text)),
                Ok(None) => return (found, None),
                Err(Stopped::Script { line, detail }) => return (found, Some((line, detail))),
                Err(Stopped::Io(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn statements_have_the_line_of_their_first_token() {
        let script = "\u{feff}-- é\nselect 1;\n\n/* ;\n */ insert into t\nvalues ('a;\n''b'); ; select 2; -- end\n";
        let (found, stopped) = statements(script.as_bytes(), 100);
        let expected = [
            (2, "select 1;".to_owned()),
            (5, "insert into t\nvalues ('a;\n''b');".to_owned()),
            (7, "select 2;".to_owned()),
        ];
        assert_eq!((found, stopped), (expected.to_vec(), None));
        assert_eq!(statements(b"select 1\n", 100).0, [(1, "select 1\n".to_owned())]);
        assert_eq!(statements(b" -- nothing", 100), (vec![], None));
        let trigger = "create trigger x after insert on t begin select 1; end;";
        assert_eq!(statements(format!("{trigger}select 2").as_bytes(), 100).0.len(), 2);
    }

    #[test]
    fn a_long_script_is_read_in_pieces() {
        let comment = format!("/* {} */\n", "x".repeat(30_000));
        let script = format!("{comment}insert into t values ('é');\n").repeat(20);
        let (found, stopped) = statements(script.as_bytes(), 100);
        assert_eq!((found.len(), stopped), (20, None));
        assert_eq!(found[19].0, 40);
    }

    #[test]
    fn what_cannot_be_run_stops_at_its_line() {
        let exact = "select 1;";
        assert_eq!(statements(exact.as_bytes(), exact.len()).1, None);
        let told = Some((2, "the statement is longer than 9 bytes".to_owned()));
        assert_eq!(statements(b"select 1;\nselect 12;", 9).1, told);
        let endless = [b"select 1;\nselect '", &[b'x'; 500_000][..]].concat();
        assert_eq!(statements(&endless, 9).1, told);
        let told = Some((3, "not valid UTF-8".to_owned()));
        let (found, stopped) = statements(b"select 1;\nselect\n'\xff';", 100);
        assert_eq!((found.len(), stopped), (1, told));
        assert_eq!(statements(b"select '\xc3", 100).1, Some((1, "not valid UTF-8".to_owned())));
    }
}
