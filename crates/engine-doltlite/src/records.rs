//! The records of a database file: where they end, and which commits are among them.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use branchyard_domain::values::{ChunkHash, CommitHash, Timestamp};
use branchyard_remote_protocol::layout;

/// Length of a root, the record that ends a commit.
const ROOT: u64 = 169;
/// The first byte of a root.
const TAG: u8 = 2;
const MAGIC: &[u8] = b"CTLD";
/// Where a root names the position behind it, from its first byte.
const NEXT: usize = 53;
/// Where the file names the position of its first record.
const FIRST_RECORD: u64 = 84;

/// The first byte of a chunk. Its hash and its length follow.
const CHUNK_TAG: u8 = 1;
/// The first byte of a commit's content.
const COMMIT_TAG: u8 = 2;
/// Most bytes of a commit: its parents, and three texts of at most 65,535 bytes.
const COMMIT_MAX: u64 = 200_000;

/// A commit among the records of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommit {
    /// Its hash.
    pub hash: CommitHash,
    /// Its parents.
    pub parents: Vec<CommitHash>,
    /// Its date.
    pub at: Timestamp,
    /// The name of its author.
    pub author: String,
    /// Its message.
    pub message: String,
}

/// Returns the commits whose records begin at `from` or behind it, in the order in which they were written, and where the last whole
/// record ends. A record has to begin at `from`; 0 stands for the first one of the file.
///
/// # Errors
/// An error if the file cannot be read.
pub fn commits_behind(path: &Path, from: u64) -> io::Result<(Vec<RecordedCommit>, u64)> {
    let mut file = File::open(path)?;
    let mut at = match from {
        0 => {
            let mut first = [0; 8];
            file.read_exact_at(&mut first, FIRST_RECORD)?;
            u64::from_le_bytes(first)
        }
        from => from,
    };
    file.seek(SeekFrom::Start(at))?;
    let (mut records, mut commits) = (BufReader::new(file), Vec::new());
    while let Some(length) = next_record(&mut records, &mut commits)? {
        at += length;
    }
    Ok((commits, at))
}

/// Reads a record. Returns its length, or `None` if there is no whole record.
fn next_record(records: &mut BufReader<File>, commits: &mut Vec<RecordedCommit>) -> io::Result<Option<u64>> {
    let mut tag = [0];
    if !fill(records, &mut tag)? {
        return Ok(None);
    }
    if tag[0] == TAG {
        let mut root = [0; ROOT as usize - 1];
        return Ok((fill(records, &mut root)? && root.starts_with(MAGIC)).then_some(ROOT));
    }
    let (mut hash, mut length) = ([0; 20], [0; 4]);
    if tag[0] != CHUNK_TAG || !fill(records, &mut hash)? || !fill(records, &mut length)? {
        return Ok(None);
    }
    let length = u64::from(u32::from_le_bytes(length));
    let mut content = Vec::new();
    let wanted = length.min(COMMIT_MAX);
    if records.by_ref().take(wanted).read_to_end(&mut content)? as u64 != wanted {
        return Ok(None);
    }
    if io::copy(&mut records.by_ref().take(length - wanted), &mut io::sink())? != length - wanted {
        return Ok(None);
    }
    if wanted == length && content.first() == Some(&COMMIT_TAG) {
        commits.extend(commit(hash, &content));
    }
    Ok(Some(1 + 20 + 4 + length))
}

fn commit(hash: [u8; 20], content: &[u8]) -> Option<RecordedCommit> {
    let commit = layout::commit(content).ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(RecordedCommit {
        hash: ChunkHash::from_bytes(hash).as_commit(),
        parents: commit.parents.iter().map(|parent| ChunkHash::from_bytes(*parent).as_commit()).collect(),
        at: Timestamp::from_seconds(commit.seconds),
        author: text(commit.author),
        message: text(commit.message),
    })
}

/// Fills a buffer. Returns `false` if the file ends before.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

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
