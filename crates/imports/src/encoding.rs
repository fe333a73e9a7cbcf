//! The encodings of delimited text.

use encoding_rs::{Decoder, DecoderResult, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    #[default]
    Utf8,
    /// UTF-16 in the byte order of its mark. Without a mark, in the order in which the beginning of the file has more zero bytes as
    /// the high halves of its units, or else in little-endian order.
    Utf16,
    /// Windows-1252. Its five undefined bytes are errors.
    Windows1252,
}

impl Encoding {
    /// Returns the name of the encoding.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 => "UTF-16",
            Self::Windows1252 => "Windows-1252",
        }
    }
}

/// A decoder that reports invalid bytes, and replaces none.
pub(crate) struct TextDecoder {
    decoder: Decoder,
    /// Whether the crate would decode bytes that the encoding does not define.
    refuses_undefined: bool,
}

impl std::fmt::Debug for TextDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextDecoder").field("encoding", &self.decoder.encoding().name()).finish_non_exhaustive()
    }
}

impl TextDecoder {
    /// Creates the decoder of a file that begins with `start`, its byte order mark included. Returns `None` for UTF-8.
    pub(crate) fn of(encoding: Encoding, start: &[u8]) -> Option<Self> {
        let (encoding, refuses_undefined) = match encoding {
            Encoding::Utf8 => return None,
            Encoding::Windows1252 => (WINDOWS_1252, true),
            Encoding::Utf16 if is_big_endian(start) => (UTF_16BE, false),
            Encoding::Utf16 => (UTF_16LE, false),
        };
        Some(Self { decoder: encoding.new_decoder_without_bom_handling(), refuses_undefined })
    }

    /// Appends the text of `bytes` to `text`. Returns `false` if the bytes are invalid, after appending the text before them. With
    /// `is_last`, bytes that end within a character are invalid too; otherwise the decoder keeps them for the next call.
    pub(crate) fn decode(&mut self, bytes: &[u8], is_last: bool, text: &mut String) -> bool {
        // The Encoding Standard decodes bytes that Windows-1252 leaves undefined as control characters.
        let is_undefined = |byte: &u8| self.refuses_undefined && matches!(byte, 0x81 | 0x8D | 0x8F | 0x90 | 0x9D);
        let defined = bytes.iter().position(is_undefined).unwrap_or(bytes.len());
        let mut rest = &bytes[..defined];
        loop {
            let room = self.decoder.max_utf8_buffer_length_without_replacement(rest.len());
            text.reserve(room.unwrap_or_else(|| rest.len().saturating_mul(3)).max(16));
            let (result, read) = self.decoder.decode_to_string_without_replacement(rest, text, is_last);
            match result {
                DecoderResult::InputEmpty => return defined == bytes.len(),
                DecoderResult::Malformed(..) => return false,
                DecoderResult::OutputFull => rest = &rest[read..],
            }
        }
    }
}

/// Returns `true` if UTF-16 begins with the big-endian mark, or has no mark and more zero bytes in even places than in odd ones. Most
/// characters of headers are ASCII, which has zero as the high half.
fn is_big_endian(start: &[u8]) -> bool {
    match start {
        [0xFE, 0xFF, ..] => true,
        [0xFF, 0xFE, ..] => false,
        _ => {
            let zeros = |from: usize| start.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
            zeros(0) > zeros(1)
        }
    }
}
