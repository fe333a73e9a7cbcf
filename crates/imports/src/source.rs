//! Decoding of bytes to text with a fixed buffer.

use std::io::{self, Read};
use std::str;

use crate::encoding::{Encoding, TextDecoder};

const BUFFER_BYTES: usize = 64 * 1024;

/// Number of bytes at the start of UTF-16 that show the order of bytes.
const UTF16_SAMPLE: usize = 1024;

/// Byte order marks. UTF-32 comes first, because its little-endian mark begins with that of UTF-16.
const MARKS: [(&[u8], &str); 5] = [
    (b"\xFF\xFE\0\0", "UTF-32"),
    (b"\0\0\xFE\xFF", "UTF-32"),
    (b"\xFF\xFE", "UTF-16"),
    (b"\xFE\xFF", "UTF-16"),
    (b"\xEF\xBB\xBF", "UTF-8"),
];

/// The next piece of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk<'a> {
    /// Text of at least one character.
    Text(&'a str),
    /// The end of the file.
    End,
    /// A byte order mark of the named encoding, at the start of the file.
    Foreign(&'static str),
    /// Bytes that are not text in the encoding of the file. All text before them has been returned.
    Invalid,
}

/// What follows the decoded text.
#[derive(Debug, Clone, Copy)]
enum Outlook {
    Begin,
    More,
    End,
    Foreign(&'static str),
    Invalid,
}

/// A reader of text that skips a leading byte order mark.
#[derive(Debug)]
pub(crate) struct Source<R> {
    input: R,
    encoding: Encoding,
    /// The decoder of an encoding other than UTF-8, once the beginning of the file is known.
    decoder: Option<TextDecoder>,
    bytes: Box<[u8]>,
    /// Number of bytes at the start of `bytes` that are read but not decoded: the beginning of an incomplete sequence.
    undecoded: usize,
    /// The decoded text, kept apart from `bytes` so that no text is validated twice.
    text: String,
    /// Number of consumed bytes of `text`.
    consumed: usize,
    outlook: Outlook,
}

impl<R: Read> Source<R> {
    /// Creates a reader of UTF-8.
    pub(crate) fn new(input: R) -> Self {
        Self::with_encoding(input, Encoding::Utf8)
    }

    /// Creates a reader of text in `encoding`.
    pub(crate) fn with_encoding(input: R, encoding: Encoding) -> Self {
        Self {
            input,
            encoding,
            decoder: None,
            bytes: vec![0; BUFFER_BYTES].into_boxed_slice(),
            undecoded: 0,
            text: String::with_capacity(BUFFER_BYTES),
            consumed: 0,
            outlook: Outlook::Begin,
        }
    }

    /// Returns the next piece, which stays the same until it is [consumed](Source::consume).
    pub(crate) fn chunk(&mut self) -> io::Result<Chunk<'_>> {
        while self.consumed == self.text.len() {
            match self.outlook {
                Outlook::Begin => self.read_mark()?,
                Outlook::More => self.read_more()?,
                Outlook::End => return Ok(Chunk::End),
                Outlook::Foreign(encoding) => return Ok(Chunk::Foreign(encoding)),
                Outlook::Invalid => return Ok(Chunk::Invalid),
            }
        }
        Ok(Chunk::Text(&self.text[self.consumed..]))
    }

    /// Marks `bytes` bytes of the returned text as consumed. They must end on a character boundary.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.consumed += bytes;
    }

    /// Returns the number of bytes at the start of a file that show its encoding.
    fn mark_bytes(&self) -> usize {
        match self.encoding {
            Encoding::Utf8 | Encoding::Windows1252 => 4,
            Encoding::Utf16 => UTF16_SAMPLE,
        }
    }

    /// Reads as many bytes as the longest mark has, or the whole file if it is shorter.
    fn read_mark(&mut self) -> io::Result<()> {
        while self.undecoded < self.mark_bytes() {
            match self.read()? {
                0 => break,
                count => self.undecoded += count,
            }
        }
        let start = &self.bytes[..self.undecoded];
        let mark = MARKS.iter().find(|(mark, _)| start.starts_with(mark));
        if let Some((_, encoding)) = mark.filter(|(_, encoding)| *encoding != self.encoding.name()) {
            self.outlook = Outlook::Foreign(encoding);
            return Ok(());
        }
        let skipped = mark.map_or(0, |(mark, _)| mark.len());
        self.decoder = TextDecoder::of(self.encoding, start);
        self.outlook = Outlook::More;
        self.decode(skipped, self.undecoded);
        Ok(())
    }

    fn read_more(&mut self) -> io::Result<()> {
        match self.read()? {
            0 if self.decoder.is_some() => self.end_decoding(),
            0 if self.undecoded == 0 => self.outlook = Outlook::End,
            0 => self.outlook = Outlook::Invalid,
            count => self.decode(0, self.undecoded + count),
        }
        Ok(())
    }

    /// Ends the text of a decoder, which may hold the beginning of a character.
    fn end_decoding(&mut self) {
        self.text.clear();
        self.consumed = 0;
        let is_whole = self.decoder.as_mut().is_none_or(|decoder| decoder.decode(&[], true, &mut self.text));
        self.outlook = if is_whole { Outlook::End } else { Outlook::Invalid };
    }

    /// Reads after the undecoded bytes, which leave room in the buffer here.
    fn read(&mut self) -> io::Result<usize> {
        loop {
            match self.input.read(&mut self.bytes[self.undecoded..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Decodes the bytes in `start..end` as far as they are valid.
    fn decode(&mut self, start: usize, end: usize) {
        let bytes = &self.bytes[start..end];
        self.text.clear();
        self.consumed = 0;
        self.undecoded = 0;
        if let Some(decoder) = &mut self.decoder {
            if !decoder.decode(bytes, false, &mut self.text) {
                self.outlook = Outlook::Invalid;
            }
            return;
        }
        let Some(invalid) = decode_prefix(bytes, &mut self.text) else {
            return;
        };
        let rest = bytes.len() - self.text.len();
        match invalid {
            InvalidEncoding::Incomplete => {
                self.bytes.copy_within(end - rest..end, 0);
                self.undecoded = rest;
            }
            InvalidEncoding::Wrong => self.outlook = Outlook::Invalid,
        }
    }
}

/// The reason why decoding stopped before the end of the bytes.
enum InvalidEncoding {
    /// The bytes end within a sequence.
    Incomplete,
    Wrong,
}

/// Appends the valid beginning of `bytes` to `text`.
fn decode_prefix(bytes: &[u8], text: &mut String) -> Option<InvalidEncoding> {
    let error = match str::from_utf8(bytes) {
        Ok(valid) => {
            text.push_str(valid);
            return None;
        }
        Err(error) => error,
    };
    if let Ok(valid) = str::from_utf8(&bytes[..error.valid_up_to()]) {
        text.push_str(valid);
    }
    Some(match error.error_len() {
        None => InvalidEncoding::Incomplete,
        Some(_) => InvalidEncoding::Wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all text of a source and the piece that follows it.
    fn drain(input: impl Read) -> (String, Chunk<'static>) {
        let mut source = Source::new(input);
        let mut all = String::new();
        loop {
            let read = match source.chunk().unwrap() {
                Chunk::Text(text) => {
                    all.push_str(text);
                    text.len()
                }
                Chunk::End => return (all, Chunk::End),
                Chunk::Foreign(encoding) => return (all, Chunk::Foreign(encoding)),
                Chunk::Invalid => return (all, Chunk::Invalid),
            };
            source.consume(read);
        }
    }

    struct ByteByByte<'a>(&'a [u8]);

    impl Read for ByteByByte<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn bytes_become_text() {
        let cases: [(&[u8], &str, Chunk<'_>); 14] = [
            (b"", "", Chunk::End),
            (b"a", "a", Chunk::End),
            (b"\xEF\xBB\xBF", "", Chunk::End),
            (b"\xEF\xBB\xBFa", "a", Chunk::End),
            (b"\xEF\xBB\xBF\xEF\xBB\xBFa", "\u{feff}a", Chunk::End),
            (b"a\xEF\xBB\xBF", "a\u{feff}", Chunk::End),
            ("aé€😀z".as_bytes(), "aé€😀z", Chunk::End),
            (b"\xFF\xFEa\0", "", Chunk::Foreign("UTF-16")),
            (b"\xFE\xFF\0a", "", Chunk::Foreign("UTF-16")),
            (b"\xFF\xFE\0\0a", "", Chunk::Foreign("UTF-32")),
            (b"\0\0\xFE\xFF\0", "", Chunk::Foreign("UTF-32")),
            (b"ab\xFFc", "ab", Chunk::Invalid),
            (b"ab\xE2\x82", "ab", Chunk::Invalid),
            (b"\xEF\xBB", "", Chunk::Invalid),
        ];
        for (bytes, text, end) in cases {
            assert_eq!(drain(bytes), (text.to_owned(), end), "{bytes:?}");
            assert_eq!(drain(ByteByByte(bytes)), drain(bytes), "{bytes:?}, byte by byte");
        }
    }

    #[test]
    fn sequences_may_lie_across_buffers() {
        for offset in 0..4 {
            let text = "x".repeat(BUFFER_BYTES - offset) + &"😀".repeat(BUFFER_BYTES);
            assert_eq!(drain(text.as_bytes()), (text.clone(), Chunk::End));
        }
    }
}
