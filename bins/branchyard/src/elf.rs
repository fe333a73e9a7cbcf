//! Sections of ELF files: 64 bits, little-endian.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::path::Path;

const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";
const HEADER: usize = 64;

/// A section of a file.
#[derive(Debug)]
pub struct Section {
    /// Where it is loaded, relative to the program; 0 if it is not loaded.
    pub address: u64,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// Reads a section. Returns `None` if the file has no section of this name.
///
/// # Errors
/// The file cannot be read, or is not such a file.
pub fn section(path: &Path, name: &str) -> Result<Option<Section>> {
    let mut file = File::open(path)?;
    let head = part(&mut file, 0, HEADER as u64)?;
    if !head.starts_with(&MAGIC) {
        return Err(Error::new(ErrorKind::InvalidData, "not an ELF file of 64 bits, little-endian"));
    }
    let (size, count) = (number(&head, 0x3a, 2)?, number(&head, 0x3c, 2)?);
    let table = part(&mut file, number(&head, 0x28, 8)?, size * count)?;
    let size = usize::try_from(size).unwrap_or(HEADER).max(HEADER);
    let headers: Vec<&[u8]> = table.chunks_exact(size).collect();
    let index = usize::try_from(number(&head, 0x3e, 2)?).unwrap_or(usize::MAX);
    let names = contents(&mut file, headers.get(index).ok_or(ErrorKind::InvalidData)?)?;
    for header in headers {
        let start = usize::try_from(number(header, 0, 4)?).unwrap_or(usize::MAX);
        let rest = names.get(start..).unwrap_or_default();
        if rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)) {
            let (address, bytes) = (number(header, 0x10, 8)?, contents(&mut file, header)?);
            return Ok(Some(Section { address, bytes }));
        }
    }
    Ok(None)
}

/// Reads the contents of the section that the header describes.
fn contents(file: &mut File, header: &[u8]) -> Result<Vec<u8>> {
    part(file, number(header, 0x18, 8)?, number(header, 0x20, 8)?)
}

fn part(file: &mut File, offset: u64, length: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    let read = file.take(length).read_to_end(&mut bytes)?;
    if read as u64 == length { Ok(bytes) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

/// Returns the number of `width` bytes at the offset.
///
/// # Errors
/// The bytes end before.
pub fn number(bytes: &[u8], offset: usize, width: usize) -> Result<u64> {
    let bytes = bytes.get(offset..offset + width).ok_or(ErrorKind::UnexpectedEof)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
