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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const HEADER: usize = 168;

    fn chunk(hash: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&[CHUNK_TAG][..], &[hash; 20], &length, content].concat()
    }

    fn commit_content(parents: &[u8]) -> Vec<u8> {
        let mut content = vec![COMMIT_TAG, u8::try_from(parents.len()).unwrap()];
        parents.iter().for_each(|parent| content.extend([*parent; 20]));
        content.extend([9; 20]);
        content.extend(86_400_i64.to_le_bytes());
        for text in ["Ana", "", "first"] {
            content.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
            content.extend(text.as_bytes());
        }
        content
    }

    fn root() -> Vec<u8> {
        let mut root = vec![0; 169];
        root[0] = TAG;
        root[1..5].copy_from_slice(MAGIC);
        root
    }

    #[test]
    fn commits_are_found_among_other_records_up_to_the_last_whole_one() {
        let mut header = vec![0; HEADER];
        header[84..92].copy_from_slice(&(HEADER as u64).to_le_bytes());
        let first = [chunk(1, &commit_content(&[])), root()].concat();
        let second =
            [chunk(7, &vec![2; 300_000]), chunk(2, &commit_content(&[1])), chunk(8, b"\x02no"), root()].concat();
        let whole = [header, first.clone(), second].concat();
        let found = |bytes: &[u8], from: u64| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(bytes).unwrap();
            let (commits, end) = commits_behind(file.path(), from).unwrap();
            (commits.iter().map(|commit| commit.hash.as_str()[..2].to_owned()).collect::<Vec<_>>(), end)
        };
        let length = whole.len() as u64;
        assert_eq!(found(&whole, 0), (vec!["01".to_owned(), "02".to_owned()], length));
        assert_eq!(found(&whole, (HEADER + first.len()) as u64), (vec!["02".to_owned()], length));
        // Cut within the last root, and within the first commit.
        assert_eq!(found(&whole[..whole.len() - 1], 0), (vec!["01".to_owned(), "02".to_owned()], length - 169));
        assert_eq!(found(&whole[..HEADER + 30], 0), (vec![], HEADER as u64));
        let (commits, _) = {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&whole).unwrap();
            commits_behind(file.path(), 0).unwrap()
        };
        assert_eq!((commits[1].author.as_str(), commits[1].message.as_str()), ("Ana", "first"));
        assert_eq!(
            (&commits[1].parents, commits[1].at),
            (&vec![commits[0].hash.clone()], Timestamp::from_seconds(86_400))
        );
    }
}
