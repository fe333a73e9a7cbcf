//! Where the records of a database file end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Length of a root, the record that ends a commit.
const ROOT: u64 = 169;
/// The first byte of a root.
const TAG: u8 = 2;
const MAGIC: &[u8] = b"CTLD";
/// Where a root names the position behind it, from its first byte.
const NEXT: usize = 53;
/// Where the file names the position of its first record.
const FIRST_RECORD: u64 = 84;

/// Returns `true` if a record of a file ends at `at`, so that a writer may continue there: behind a root, or where the records of a file
/// begin that was collected and not written to since.
///
/// # Errors
/// An error if the file cannot be read.
pub fn ends_record(path: &Path, at: u64) -> io::Result<bool> {
    let file = File::open(path)?;
    let Some(start) = at.checked_sub(ROOT) else { return Ok(false) };
    let mut root = [0; ROOT as usize];
    match file.read_exact_at(&mut root, start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let next = root.get(NEXT..NEXT + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    if root[0] == TAG && root.get(1..5) == Some(MAGIC) && next == Some(at) {
        return Ok(true);
    }
    let mut first = [0; 8];
    file.read_exact_at(&mut first, FIRST_RECORD)?;
    Ok(u64::from_le_bytes(first) == at)
}
