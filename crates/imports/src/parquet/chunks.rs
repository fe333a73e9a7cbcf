//! Access to a file in the form that the `parquet` crate requires: from any position, and by several readers in turn.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use parking_lot::Mutex;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::FileError;
use crate::failure::{FirstFailure, WatchedReader};
use crate::format::ReadSeek;

/// Bytes that the crate reads ahead in its search for a page header.
const BUFFER_BYTES: usize = 4 * 1024;
/// Maximum size in bytes of the footer, which is read whole.
const MOST_FOOTER_BYTES: u32 = 64 << 20;

/// One open file that all readers share.
#[derive(Clone)]
pub(super) struct Chunks {
    file: Arc<Mutex<WatchedReader>>,
    length: u64,
}

impl Chunks {
    pub(super) fn open(file: Box<dyn ReadSeek>, failure: &FirstFailure) -> std::result::Result<Self, FileError> {
        let mut file = WatchedReader::new(file, failure);
        let mut end = [0; 8];
        let length = file.seek(SeekFrom::End(0)).map_err(|error| failure.or_file(error))?;
        if length >= 8 {
            let read = file.seek(SeekFrom::End(-8)).and_then(|_| file.read_exact(&mut end));
            read.map_err(|error| failure.or_file(error))?;
        }
        match end {
            [a, b, c, d, b'P', b'A', b'R', b'1'] => {
                if u32::from_le_bytes([a, b, c, d]) > MOST_FOOTER_BYTES {
                    let detail = format!("the description of the file is longer than {MOST_FOOTER_BYTES} bytes");
                    return Err(FileError::whole(detail));
                }
            }
            [.., b'P', b'A', b'R', b'E'] => return Err(FileError::whole("the file is encrypted")),
            _ => return Err(FileError::whole("not a Parquet file")),
        }
        Ok(Self { file: Arc::new(Mutex::new(file)), length })
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<PositionedReader>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(BUFFER_BYTES, PositionedReader { file: Arc::clone(&self.file), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        let end = u64::try_from(length).ok().and_then(|length| start.checked_add(length));
        if end.is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end")));
        }
        let mut bytes = vec![0; length];
        PositionedReader { file: Arc::clone(&self.file), position: start }.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A reader with its own position.
pub(super) struct PositionedReader {
    file: Arc<Mutex<WatchedReader>>,
    position: u64,
}

impl Read for PositionedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file.lock();
        file.seek(SeekFrom::Start(self.position))?;
        let read = file.read(buffer)?;
        self.position += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}
