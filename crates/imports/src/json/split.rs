//! Splitting a JSON file into the texts of its records.

use std::io::Read;

use super::layout::RecordLayout;
use crate::error::FileError;
use crate::source::{Chunk, Source};

/// The unparsed text of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordText<'a> {
    /// Physical line, from 1, on which the record begins.
    pub(super) line: u64,
    /// The text, or `None` if it is too long to be kept.
    pub(super) text: Option<&'a str>,
}

/// The token expected between two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// The `[` of the array, or a part of its prefix, which the layout detection has checked.
    Open,
    /// A record, or `]` directly after `[`.
    First,
    /// A record.
    Record,
    /// `,` or `]`.
    Comma,
    /// The `}` of the object around the array.
    Close,
    /// A record or the end of the file.
    Line,
    /// The end of the file.
    End,
}

/// The state of the search for the end of a record.
#[derive(Debug, Default)]
struct SplitProgress {
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// Whether the record is a number or a word, which extends to the next delimiter.
    bare: bool,
}

/// Splits a file into records. Looks at their content only as far as necessary to find their ends.
#[derive(Debug)]
pub(super) struct Splitter<R> {
    source: Source<R>,
    shape: RecordLayout,
    expect: Expect,
    line: u64,
    text: String,
    limit: usize,
}

impl<R: Read> Splitter<R> {
    pub(super) fn new(input: R, shape: RecordLayout, limit: usize) -> Self {
        let expect = if shape == RecordLayout::Lines { Expect::Line } else { Expect::Open };
        Self { source: Source::new(input), shape, expect, line: 1, text: String::new(), limit }
    }

    /// Returns the next record, or `None` after the last.
    pub(super) fn next_piece(&mut self) -> Result<Option<RecordText<'_>>, FileError> {
        if !self.find_record()? {
            return Ok(None);
        }
        let line = self.line;
        let whole = self.read_record(line)?;
        self.expect = if self.shape == RecordLayout::Lines { Expect::Line } else { Expect::Comma };
        Ok(Some(RecordText { line, text: whole.then_some(&self.text) }))
    }

    /// Reads up to the first character of a record. Returns `false` at the end of the file.
    fn find_record(&mut self) -> Result<bool, FileError> {
        loop {
            let (line, expect) = (self.line, self.expect);
            let Some(text) = text_in(&mut self.source, self.line)? else {
                return match expect {
                    Expect::Line | Expect::End => Ok(false),
                    _ => Err(FileError::at(line, "the file ends before its array does")),
                };
            };
            let Some(at) = text.find(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')) else {
                let (lines, read) = (lines_in(text), text.len());
                self.line += lines;
                self.source.consume(read);
                continue;
            };
            let (lines, next) = (lines_in(&text[..at]), text.as_bytes()[at]);
            self.line += lines;
            self.source.consume(at);
            let takes = match (expect, next) {
                (Expect::Open, b'[') => Some(Expect::First),
                (Expect::Open, _) => Some(Expect::Open),
                (Expect::Comma, b',') => Some(Expect::Record),
                (Expect::First | Expect::Comma, b']') => {
                    Some(if self.shape == RecordLayout::Wrapped { Expect::Close } else { Expect::End })
                }
                (Expect::Close, b'}') => Some(Expect::End),
                _ => None,
            };
            match takes {
                Some(expect) => {
                    // Each of these tokens is one byte long, and so is every character before the array.
                    self.source.consume(1);
                    self.expect = expect;
                }
                None => return self.begins_record(expect, next).map(|()| true),
            }
        }
    }

    fn begins_record(&self, expect: Expect, next: u8) -> Result<(), FileError> {
        let wrong = |detail: &str| Err(FileError::at(self.line, detail));
        match (expect, next) {
            (Expect::Comma, _) => wrong("a comma or the end of the array is missing after a record"),
            (Expect::Close | Expect::End, _) => wrong("there is something after the end"),
            (_, b',' | b']' | b'}' | b':') => wrong("a record is missing"),
            _ => Ok(()),
        }
    }

    /// Reads a record from its first character to its last. Returns `false` if it is too long to be kept.
    fn read_record(&mut self, line: u64) -> Result<bool, FileError> {
        self.text.clear();
        let mut progress = SplitProgress::default();
        let mut whole = true;
        loop {
            let Some(text) = text_in(&mut self.source, self.line)? else {
                if progress.bare {
                    return Ok(whole);
                }
                return Err(FileError::at(line, "the file ends within the record"));
            };
            let end = progress.end_in(text.as_bytes());
            let part = &text[..end.unwrap_or(text.len())];
            let (lines, read) = (lines_in(part), part.len());
            whole &= self.text.len() + read <= self.limit;
            if whole {
                self.text.push_str(part);
            }
            self.line += lines;
            self.source.consume(read);
            if end.is_some() {
                return Ok(whole);
            }
        }
    }
}

/// Returns the next text of a file that has been read up to `line`, or `None` at its end.
fn text_in<R: Read>(source: &mut Source<R>, line: u64) -> Result<Option<&str>, FileError> {
    match source.chunk().map_err(FileError::Io)? {
        Chunk::Text(text) => Ok(Some(text)),
        Chunk::End => Ok(None),
        Chunk::Foreign(encoding) => Err(FileError::at(1, format!("the file is {encoding}, not UTF-8"))),
        Chunk::Invalid => Err(FileError::at(line, "not valid UTF-8")),
    }
}

fn lines_in(text: &str) -> u64 {
    text.bytes().map(|byte| u64::from(byte == b'\n')).sum()
}

impl SplitProgress {
    /// Returns the position after the last byte of the record, if the record ends in these bytes.
    fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.in_string && !self.escaped {
                // Most of a typical file is the inside of strings.
                match bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                    Some(0) => {}
                    Some(plain) => {
                        at += plain;
                        continue;
                    }
                    None => return None,
                }
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => {
                    self.in_string = !self.in_string;
                    if !self.in_string && self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                b'[' | b'{' if !self.bare => self.depth += 1,
                b']' | b'}' if !self.bare => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b'[' | b']' | b'{' | b'}' if self.bare => return Some(at),
                _ if self.depth == 0 => self.bare = true,
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(file: &str, shape: RecordLayout, limit: usize) -> (Vec<(u64, Option<String>)>, Option<String>) {
        let mut splitter = Splitter::new(file.as_bytes(), shape, limit);
        let mut found = Vec::new();
        loop {
            match splitter.next_piece() {
                Ok(Some(piece)) => found.push((piece.line, piece.text.map(str::to_owned))),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }

    fn whole(file: &str, shape: RecordLayout) -> Vec<(u64, String)> {
        let (found, error) = pieces(file, shape, 1_000);
        assert_eq!(error, None, "{file}");
        found.into_iter().map(|(line, text)| (line, text.unwrap())).collect()
    }

    #[test]
    fn records_are_cut_out_with_their_lines() {
        let is =
            |parts: &[(u64, &str)]| parts.iter().map(|(line, text)| (*line, (*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(whole("[]", RecordLayout::Array), is(&[]));
        assert_eq!(whole(" [ {} ] \n", RecordLayout::Array), is(&[(1, "{}")]));
        assert_eq!(
            whole("[\n{\"a\":\n1},{\"b\":\"}]\\\"\"}\n, 12,\"s\",[{}]]", RecordLayout::Array),
            is(&[(2, "{\"a\":\n1}"), (3, "{\"b\":\"}]\\\"\"}"), (4, "12"), (4, "\"s\""), (4, "[{}]")])
        );
        assert_eq!(whole("{ \"rows\" :\n[{}] }", RecordLayout::Wrapped), is(&[(2, "{}")]));
        assert_eq!(whole("{}\n\n{\"a\":1}\r\n", RecordLayout::Lines), is(&[(1, "{}"), (3, "{\"a\":1}")]));
        assert_eq!(whole("{\"a\":1}", RecordLayout::Lines), is(&[(1, "{\"a\":1}")]));
    }

    #[test]
    fn faults_between_records_are_named() {
        for (file, shape, told) in [
            ("[{}", RecordLayout::Array, "line 1: the file ends before its array does"),
            ("[{}\n{}]", RecordLayout::Array, "line 2: a comma or the end of the array is missing after a record"),
            ("[{},]", RecordLayout::Array, "line 1: a record is missing"),
            ("[,{}]", RecordLayout::Array, "line 1: a record is missing"),
            ("[]\n\n]", RecordLayout::Array, "line 3: there is something after the end"),
            ("{\"rows\":[]", RecordLayout::Wrapped, "line 1: the file ends before its array does"),
            ("[\n{\"a\":", RecordLayout::Array, "line 2: the file ends within the record"),
            ("{}\n}", RecordLayout::Lines, "line 2: a record is missing"),
        ] {
            assert_eq!(pieces(file, shape, 100).1.as_deref(), Some(told), "{file}");
        }
    }

    #[test]
    fn what_is_too_long_is_read_over() {
        let (found, error) = pieces("{\"a\":1}\n{\"a\":12}\n{\"a\":1}", RecordLayout::Lines, 7);
        let short = Some("{\"a\":1}".to_owned());
        assert_eq!((found, error), (vec![(1, short.clone()), (2, None), (3, short)], None));
    }
}
