//! The decompressed size of the pages of a file.

use std::io::{self, Read};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::page::{Page, PageReader as _};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::chunks::Chunks;
use crate::error::FileError;

/// Maximum size in bytes of one page of each column of a row group together with their dictionaries, which are all in memory
/// at once.
pub(super) const MOST_BYTES: u64 = 1 << 30;

/// Decompresses every page and counts the bytes, which are discarded.
pub(super) fn check(metadata: &ParquetMetaData, chunks: &Arc<Chunks>, limit: u64) -> Result<(), FileError> {
    let mut left = limit;
    for group in metadata.row_groups() {
        let rows = usize::try_from(group.num_rows()).unwrap_or(usize::MAX);
        let mut together = 0_u64;
        for column in group.columns() {
            let largest = check_column(column, rows, chunks, &mut left, limit)?;
            together = together.saturating_add(largest);
            if together > MOST_BYTES {
                let detail = format!("the pages of a row group take more than {MOST_BYTES} bytes; write smaller pages");
                return Err(FileError::whole(detail));
            }
        }
    }
    Ok(())
}

/// Returns the size in bytes of a column's largest page and its dictionary together.
fn check_column(
    column: &ColumnChunkMetaData,
    rows: usize,
    chunks: &Arc<Chunks>,
    left: &mut u64,
    limit: u64,
) -> Result<u64, FileError> {
    let wrong = |error: ParquetError| FileError::whole(format!("not a Parquet file that can be read: {error}"));
    let codec = column.compression();
    if codec == Compression::LZO {
        return Err(FileError::whole("the file is compressed by LZO; write it with another codec"));
    }
    // The reader returns pages unchanged if they are declared to be uncompressed.
    let raw = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build().map_err(wrong)?;
    let mut pages = SerializedPageReader::new(Arc::clone(chunks), &raw, rows, None).map_err(wrong)?;
    let (mut dictionary, mut largest) = (0, 0);
    while let Some(page) = next(&mut pages).map_err(wrong)? {
        let (bytes, plain) = match &page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => (buf, 0),
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
                let levels = usize::try_from(u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len));
                (buf, if *is_compressed { levels.unwrap_or(usize::MAX).min(buf.len()) } else { buf.len() })
            }
        };
        let most = (*left).min(MOST_BYTES);
        let compressed = &bytes[plain..];
        let size = expanded(codec, compressed, most)
            .map_err(|error| wrong(ParquetError::External(Box::new(error))))?
            .saturating_add(u64::try_from(plain).unwrap_or(u64::MAX));
        if size > *left {
            return Err(FileError::whole(format!("the file expands to more than {limit} bytes")));
        }
        *left -= size;
        match page {
            Page::DictionaryPage { .. } => dictionary = size,
            _ => largest = size.max(largest),
        }
    }
    Ok(dictionary + largest)
}

fn next(pages: &mut SerializedPageReader<Chunks>) -> ParquetResult<Option<Page>> {
    pages.get_next_page()
}

/// Returns the decompressed size of `bytes`, or a value above `most` as soon as that is exceeded.
fn expanded(codec: Compression, bytes: &[u8], most: u64) -> io::Result<u64> {
    if bytes.is_empty() {
        return Ok(0);
    }
    let count = |reader: &mut dyn Read| io::copy(&mut reader.take(most.saturating_add(1)), &mut io::sink());
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    match codec {
        Compression::GZIP(_) => count(&mut flate2::bufread::MultiGzDecoder::new(bytes)),
        Compression::BROTLI(_) => count(&mut brotli::Decompressor::new(bytes, 4_096)),
        Compression::ZSTD(_) => count(&mut zstd::stream::read::Decoder::with_buffer(bytes)?),
        Compression::SNAPPY => {
            let length = snap::raw::decompress_len(bytes)?;
            Ok(u64::try_from(length).unwrap_or(u64::MAX))
        }
        // The data is either frames, or blocks whose length is limited by the page header.
        Compression::LZ4 => {
            Ok(count(&mut lz4_flex::frame::FrameDecoder::new(bytes)).unwrap_or(length.saturating_mul(255)))
        }
        // The compression ratio of a block cannot exceed 255.
        Compression::LZ4_RAW => Ok(length.saturating_mul(255).min(most)),
        Compression::UNCOMPRESSED | Compression::LZO => Ok(length),
    }
}
