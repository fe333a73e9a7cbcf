//! One interface over the three encoders. The levels keep the time for compression small compared with the time for producing the
//! response.

use std::io::{self, Write as _};

use super::Coding;

const GZIP_LEVEL: u32 = 5;
const BROTLI_QUALITY: u32 = 4;
/// Limits the window to 256 KiB, and so the memory per response.
const BROTLI_WINDOW_BITS: u32 = 18;
const BROTLI_BUFFER: usize = 16 << 10;
const ZSTD_LEVEL: i32 = 3;
const ZSTD_WINDOW_BITS: u32 = 18;

/// A streaming compressor.
pub(super) enum Encoder {
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    /// Creates an encoder; returns `None` for [`Coding::Identity`] or if zstd cannot allocate its state.
    pub(super) fn new(coding: Coding) -> Option<Self> {
        match coding {
            Coding::Identity => None,
            Coding::Gzip => {
                Some(Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL))))
            }
            Coding::Brotli => Some(Self::Brotli(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER,
                BROTLI_QUALITY,
                BROTLI_WINDOW_BITS,
            )))),
            Coding::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).ok()?;
                encoder.window_log(ZSTD_WINDOW_BITS).ok()?;
                Some(Self::Zstd(encoder))
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Brotli(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// Flushes and returns everything written so far, so that the client can decode it.
    pub(super) fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.flush().map(|()| std::mem::take(encoder.get_mut())),
            Self::Brotli(encoder) => encoder.flush().map(|()| std::mem::take(encoder.get_mut())),
            Self::Zstd(encoder) => encoder.flush().map(|()| std::mem::take(encoder.get_mut())),
        }
    }

    /// Finishes the stream and returns the remaining bytes.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}
