//! Detection of a JSON file's layout, from as little of the file as possible.

use std::io::Read;

use crate::error::FileError;
use crate::source::{Chunk, Source};

/// The arrangement of the records in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordLayout {
    /// The elements of an array.
    Array,
    /// The elements of an array under the only key of an object, `rows`.
    Wrapped,
    /// A sequence of values.
    Lines,
}

/// The properties of a JSON file that have to be known before its first record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: RecordLayout,
    /// Whether an array is on a single line.
    pub(crate) one_line: bool,
}

impl Layout {
    pub(crate) const LINES: Self = Self { shape: RecordLayout::Lines, one_line: false };
}

/// Detects the layout of a file. Reads the first line of an array, but all of an object whose first key is `rows`, because
/// only the end shows whether that key is the only one.
pub(crate) fn layout(input: impl Read) -> Result<Layout, FileError> {
    let mut source = Source::new(input);
    let mut probe = Probe::default();
    loop {
        let chunk = source.chunk().map_err(FileError::Io)?;
        let read = match chunk {
            Chunk::Text(text) => {
                for byte in text.bytes() {
                    if let Some(layout) = probe.look(byte)? {
                        return Ok(layout);
                    }
                }
                text.len()
            }
            // Errors found here are reported with their line when the records are read.
            Chunk::End | Chunk::Foreign(_) | Chunk::Invalid => return Ok(probe.end()),
        };
        source.consume(read);
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LayoutState {
    /// Before the first token.
    #[default]
    Start,
    /// In a top-level array.
    Array,
    /// After `{`.
    Object,
    /// In the first key, with the number of characters that match.
    Key(usize),
    /// After the key `rows`.
    AfterKey,
    /// After the colon of `rows`.
    AfterColon,
    /// In the array of `rows`.
    Rows,
    /// After the array of `rows`.
    AfterRows,
    /// After the top-level object.
    AfterObject,
}

const KEY: &[u8] = b"rows\"";

#[derive(Debug, Default)]
struct Probe {
    state: LayoutState,
    line: u64,
    first_line: u64,
    many_lines: bool,
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Probe {
    /// Returns the layout as soon as it is certain.
    fn look(&mut self, byte: u8) -> Result<Option<Layout>, FileError> {
        if byte == b'\n' {
            self.line += 1;
        }
        let blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        if blank && !self.in_string && !matches!(self.state, LayoutState::Key(_)) {
            return Ok(None);
        }
        self.many_lines |= self.state != LayoutState::Start && self.line > self.first_line;
        self.state = match (self.state, byte) {
            (LayoutState::Start, b'[') => {
                self.first_line = self.line;
                LayoutState::Array
            }
            (LayoutState::Start, b'{') => {
                self.first_line = self.line;
                LayoutState::Object
            }
            (LayoutState::Start, _) => {
                let detail = "the file holds neither an array of objects nor objects";
                return Err(FileError::at(self.line + 1, detail));
            }
            (LayoutState::Array, _) if self.many_lines => return Ok(Some(self.array(RecordLayout::Array))),
            (LayoutState::Array, _) => LayoutState::Array,
            (LayoutState::Object, b'"') => LayoutState::Key(0),
            (LayoutState::Key(read), byte) if KEY.get(read) == Some(&byte) => {
                if read + 1 == KEY.len() {
                    LayoutState::AfterKey
                } else {
                    LayoutState::Key(read + 1)
                }
            }
            (LayoutState::AfterKey, b':') => LayoutState::AfterColon,
            (LayoutState::AfterColon, b'[') => {
                self.depth = 1;
                LayoutState::Rows
            }
            (LayoutState::Rows, byte) => {
                self.within(byte);
                if self.depth == 0 { LayoutState::AfterRows } else { LayoutState::Rows }
            }
            (LayoutState::AfterRows, b'}') => LayoutState::AfterObject,
            _ => return Ok(Some(Layout::LINES)),
        };
        Ok(None)
    }

    fn within(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth -= 1,
            _ => {}
        }
    }

    fn array(&self, shape: RecordLayout) -> Layout {
        Layout { shape, one_line: !self.many_lines }
    }

    fn end(&self) -> Layout {
        match self.state {
            LayoutState::Array => self.array(RecordLayout::Array),
            LayoutState::Rows | LayoutState::AfterRows | LayoutState::AfterObject => self.array(RecordLayout::Wrapped),
            _ => Layout::LINES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        let is = |shape, one_line| Layout { shape, one_line };
        let cases = [
            ("[]", is(RecordLayout::Array, true)),
            ("\n [{\"a\":1},{}]\n\n", is(RecordLayout::Array, true)),
            ("[\n{\"a\":1}]", is(RecordLayout::Array, false)),
            ("[{\"a\":1},\n{}]", is(RecordLayout::Array, false)),
            ("{\"rows\":[{\"a\":\"]}\\\"\"}]}", is(RecordLayout::Wrapped, true)),
            ("{ \"rows\" : [\n] }", is(RecordLayout::Wrapped, false)),
            ("{\"rows\":[", is(RecordLayout::Wrapped, true)),
            ("{\"rows\":[],\"a\":1}", Layout::LINES),
            ("{\"rows\":[]}{\"rows\":[]}", Layout::LINES),
            ("{\"rows\":1}", Layout::LINES),
            ("{\"row\":[]}", Layout::LINES),
            ("{\"rowset\":[]}", Layout::LINES),
            ("{}", Layout::LINES),
            ("", Layout::LINES),
            ("\u{feff}[]", is(RecordLayout::Array, true)),
        ];
        for (file, expected) in cases {
            assert_eq!(layout(file.as_bytes()).unwrap(), expected, "{file}");
        }
        assert_eq!(
            layout(&b"\n1"[..]).unwrap_err().to_string(),
            "line 2: the file holds neither an array of objects nor objects"
        );
    }
}
