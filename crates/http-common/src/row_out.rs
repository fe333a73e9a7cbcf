//! Writes the values of a row in pieces, so that a long value is never copied as a whole.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::ports::ValueRef;

use crate::cells::{real, write_integer, write_real};

/// Bytes of a value that are written between two calls of [`RowOut::flush_if_due`]. A multiple of 3, so that the base64 of the
/// pieces joins to the base64 of the whole.
pub(crate) const PIECE: usize = 48 << 10;
const _: () = assert!(PIECE.is_multiple_of(3));

/// An output for rows, with a buffer that is flushed in pieces.
pub trait RowOut {
    /// Returns the buffer to append to.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Passes on the buffer if it is full enough. Returns `false` if the output accepts no more.
    fn flush_if_due(&mut self) -> bool;
}

/// An unbounded buffer.
impl RowOut for Vec<u8> {
    fn buffer(&mut self) -> &mut Self {
        self
    }

    fn flush_if_due(&mut self) -> bool {
        true
    }
}

/// Writes text as a JSON string. Bytes that are not UTF-8 become U+FFFD. Returns `false` if the output accepts no more.
pub fn write_json_text(out: &mut impl RowOut, text: &[u8]) -> bool {
    if text.len() <= PIECE {
        let buffer = out.buffer();
        if needs_no_escape(text) {
            buffer.reserve(text.len() + 2);
            buffer.push(b'"');
            buffer.extend_from_slice(text);
            buffer.push(b'"');
        } else {
            // Writing to a vector cannot fail.
            let _ = serde_json::to_writer(buffer, &String::from_utf8_lossy(text));
        }
        return true;
    }
    out.buffer().push(b'"');
    let goes_on = write_pieces(out, text, write_json_inner);
    out.buffer().push(b'"');
    goes_on
}

/// Writes a value as JSON: numbers as numbers, except for infinite ones, and a blob as its base64. Returns `false` if the output accepts
/// no more.
pub fn write_json_value(out: &mut impl RowOut, value: ValueRef<'_>) -> bool {
    let buffer = out.buffer();
    match value {
        ValueRef::Null => buffer.extend_from_slice(b"null"),
        ValueRef::Integer(number) => write_integer(buffer, number),
        ValueRef::Real(number) if number.is_finite() => write_real(buffer, number),
        ValueRef::Real(number) => return write_json_text(out, real(number).as_bytes()),
        ValueRef::Text(bytes) => return write_json_text(out, bytes),
        ValueRef::Blob(bytes) => {
            buffer.push(b'"');
            let goes_on = write_base64(out, bytes);
            out.buffer().push(b'"');
            return goes_on;
        }
    }
    true
}

/// Returns `true` if text is the content of a JSON string as it is. Looks at all bytes, which the processor does many at a time.
fn needs_no_escape(text: &[u8]) -> bool {
    let is_plain = text.iter().fold(true, |plain, byte| plain & (*byte >= b' ') & (*byte != b'"') & (*byte != b'\\'));
    is_plain && std::str::from_utf8(text).is_ok()
}

/// Writes the content of a JSON string without its quotes.
fn write_json_inner(buffer: &mut Vec<u8>, piece: &str) {
    let start = buffer.len();
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *buffer, piece);
    buffer.pop();
    buffer.remove(start);
}

/// Writes bytes as base64. Returns `false` if the output accepts no more.
pub fn write_base64(out: &mut impl RowOut, bytes: &[u8]) -> bool {
    bytes.chunks(PIECE).all(|piece| {
        out.buffer().extend_from_slice(STANDARD.encode(piece).as_bytes());
        piece.len() < PIECE || out.flush_if_due()
    })
}

/// Writes text piece by piece with `write`. Bytes that are not UTF-8 become U+FFFD. Returns `false` if the output accepts no more.
pub(crate) fn write_pieces(out: &mut impl RowOut, text: &[u8], write: impl Fn(&mut Vec<u8>, &str)) -> bool {
    if text.len() <= PIECE {
        write(out.buffer(), &String::from_utf8_lossy(text));
        return true;
    }
    text_pieces(text).all(|piece| {
        write(out.buffer(), piece);
        out.flush_if_due()
    })
}

/// Returns text in pieces of at most [`PIECE`] bytes, with U+FFFD for bytes that are not UTF-8.
fn text_pieces(text: &[u8]) -> impl Iterator<Item = &str> {
    text.utf8_chunks().flat_map(|chunk| {
        let replaced = if chunk.invalid().is_empty() { "" } else { "\u{fffd}" };
        TextPieces(chunk.valid()).chain(std::iter::once(replaced))
    })
}

struct TextPieces<'a>(&'a str);

impl<'a> Iterator for TextPieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let mut end = self.0.len().min(PIECE);
        while !self.0.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, RowOut, text_pieces, write_base64, write_json_text};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// An output that records its longest buffer and accepts no more after `most` bytes.
    struct BoundedText {
        held: Vec<u8>,
        taken: Vec<u8>,
        longest: usize,
        most: usize,
    }

    impl BoundedText {
        fn new(most: usize) -> Self {
            Self { held: Vec::new(), taken: Vec::new(), longest: 0, most }
        }
    }

    impl RowOut for BoundedText {
        fn buffer(&mut self) -> &mut Vec<u8> {
            &mut self.held
        }

        fn flush_if_due(&mut self) -> bool {
            self.longest = self.longest.max(self.held.len());
            self.taken.append(&mut self.held);
            self.taken.len() < self.most
        }
    }

    fn written(out: &mut BoundedText) -> Vec<u8> {
        out.flush_if_due();
        std::mem::take(&mut out.taken)
    }

    #[test]
    fn pieces_are_the_whole() {
        let long = "aä😀\"\\\n\u{1}".repeat(PIECE);
        let mut broken = long.clone().into_bytes();
        broken[PIECE] = 0xff;
        for text in [long.as_bytes(), &broken, b"", b"\xff", b"\xe2\x82", b"a\xffb\xf0\x9f", b"\"", b"\x01"] {
            let whole = String::from_utf8_lossy(text);
            assert_eq!(text_pieces(text).collect::<String>(), whole);
            let mut out = BoundedText::new(usize::MAX);
            assert!(write_json_text(&mut out, text));
            assert!(String::from_utf8(written(&mut out)).unwrap() == serde_json::to_string(&whole).unwrap());
            assert!(write_base64(&mut out, text));
            assert!(written(&mut out) == STANDARD.encode(text).into_bytes());
        }
    }

    #[test]
    fn long_values_are_not_held_as_a_whole() {
        let long = vec![1; 100 * PIECE];
        let mut out = BoundedText::new(usize::MAX);
        assert!(write_json_text(&mut out, &long) && write_base64(&mut out, &long));
        assert!(out.longest <= 6 * PIECE + 1, "{} bytes", out.longest);
    }

    #[test]
    fn an_output_that_wants_no_more_ends_a_value() {
        let long = vec![b'x'; 100 * PIECE];
        let mut out = BoundedText::new(3 * PIECE);
        assert!(!write_json_text(&mut out, &long));
        assert!(written(&mut out).len() < 5 * PIECE);
        assert!(!write_base64(&mut out, &long));
        assert!(written(&mut out).len() < 6 * PIECE);
    }
}
