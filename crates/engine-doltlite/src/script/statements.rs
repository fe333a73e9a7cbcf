//! A script into its statements, one at a time.

use std::io::{self, Read};
use std::str;

use branchyard_sqlite_lexer::{skip_to_statement, terminated_statement_length};

const LEAST_READ: usize = 64 * 1024;

/// A statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptStatement {
    /// Line, from 1, on which its first token stands.
    pub(super) line: u64,
    /// From its first token to its semicolon.
    pub(super) text: String,
}

/// Why there is no further statement.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The script is to blame, on this line.
    Script { line: u64, detail: String },
    /// It cannot be read.
    Io(io::Error),
}

/// Reads statements. Memory: twice the longest.
pub(super) struct Statements<'a> {
    script: &'a mut dyn Read,
    limit: usize,
    /// What is read and no part of a statement yet.
    buffer: Vec<u8>,
    /// How much of the buffer is done with.
    done: usize,
    /// The line on which what is left of the buffer begins.
    line: u64,
    bytes: usize,
    ended: bool,
}

/// What the text read so far begins with.
enum TextBegin {
    /// A statement: so many bytes of white space and comments, so many of its own.
    ScriptStatement(usize, usize),
    /// Nothing that is whole.
    More,
    /// Nothing, and nothing will come.
    End,
}

impl<'a> Statements<'a> {
    pub(super) fn new(script: &'a mut dyn Read, limit: usize) -> Self {
        Self { script, limit, buffer: Vec::new(), done: 0, line: 1, bytes: 0, ended: false }
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next statement, `None` after the last.
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
                    // White space and comments are done with once something follows that is neither.
                    if blank < length {
                        self.skip(blank);
                    }
                    if length > self.limit + LEAST_READ {
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

    /// The text that is left, as far as it is valid, and whether it is invalid after that.
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

    /// Reads about as much as is waiting, so that a long statement is not looked at too often.
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

    /// Gives out a few bytes at a time.
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
