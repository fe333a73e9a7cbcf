//! A model of the engine's file and of its connections, down to the bytes.
//!
//! The file has a header, and then records at absolute positions: chunks, and roots that end a commit. A chunk holds a commit's id
//! and its parent, and is named by the hash of its body. A root is sealed together with its position. Sizes are smaller than those
//! of the engine; what happens to torn tails, gaps, truncated files and stale connections is the same.

use crate::random::Random;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The hash of a chunk. 0 stands for no commit.
pub(crate) type Hash = u64;

pub(crate) const HEADER: usize = 24;
pub(crate) const ROOT: usize = 21;
const CHUNK_HEAD: usize = 10;
const COMMIT_BODY: usize = 16;
const MAGIC: [u8; 4] = *b"CTLD";

/// What the engine answers when it cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineError {
    /// Error 11: the content contradicts itself.
    Malformed(&'static str),
    /// Error 522: the file is shorter than the connection remembers.
    Shorter,
    /// Error 14: the file has no such commit.
    NoSuchCommit,
    /// A write that failed, for example because of a constraint or a full disk.
    Failed,
}

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ bytes.len() as u64;
    for word in bytes.chunks(8) {
        let mut wide = [0; 8];
        wide[..word.len()].copy_from_slice(word);
        hash = (hash ^ u64::from_le_bytes(wide)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash.max(1)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn header(id: u64, offset: usize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((offset as u32).to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(hash(&bytes).to_le_bytes());
    bytes
}

pub(crate) fn chunk(body: &[u8]) -> (Hash, Vec<u8>) {
    let hash = hash(body);
    let mut bytes = vec![1, body.len() as u8];
    bytes.extend(hash.to_le_bytes());
    bytes.extend(body);
    (hash, bytes)
}

pub(crate) fn commit(id: u32, nonce: u32, parent: Hash) -> (Hash, Vec<u8>) {
    let mut body = id.to_le_bytes().to_vec();
    body.extend(nonce.to_le_bytes());
    body.extend(parent.to_le_bytes());
    chunk(&body)
}

pub(crate) fn root(at: usize, head: Hash) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend(((at + ROOT) as u32).to_le_bytes());
    bytes.extend(head.to_le_bytes());
    bytes.extend(hash(&bytes).to_le_bytes());
    bytes
}

/// Returns the head of the root at this position, if there is a whole one.
fn root_at(bytes: &[u8], at: usize) -> Option<Hash> {
    let root = bytes.get(at..at + ROOT)?;
    let is_root = root[0] == 2 && half_word(root, 1) as usize == at + ROOT && word(root, 13) == hash(&root[..13]);
    is_root.then(|| word(root, 5))
}

/// Returns the hash and body of the chunk at this position, if there is a whole one.
fn chunk_at(bytes: &[u8], at: usize) -> Option<(Hash, &[u8])> {
    let head = bytes.get(at..at + CHUNK_HEAD)?;
    let body = bytes.get(at + CHUNK_HEAD..at + CHUNK_HEAD + usize::from(head[1]))?;
    let is_chunk = head[0] == 1 && word(head, 2) == hash(body);
    is_chunk.then(|| (word(head, 2), body))
}

/// What a connection remembers of a file.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    commits: Vec<(Hash, u32, Hash)>,
    /// Where the last root ends.
    pub(crate) end: usize,
    pub(crate) head: Hash,
}

impl Index {
    /// Reads a file from its start, as a new connection does.
    pub(crate) fn open(bytes: &[u8]) -> Result<Self, EngineError> {
        let offset = record_offset(bytes)?;
        let mut index = Self { commits: Vec::new(), end: offset, head: 0 };
        let mut at = HEADER;
        while at < offset {
            let (hash, body) = chunk_at(&bytes[..offset.min(bytes.len())], at)
                .ok_or(EngineError::Malformed("a chunk of a collected file is damaged"))?;
            index.commits.extend(commit_of(hash, body));
            at += CHUNK_HEAD + body.len();
        }
        index.walk(bytes)?;
        Ok(index)
    }

    /// Reads what follows the last root that is known.
    fn walk(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        let mut at = self.end;
        let mut whole = self.commits.len();
        loop {
            if let Some((hash, body)) = chunk_at(bytes, at) {
                self.commits.extend(commit_of(hash, body));
                at += CHUNK_HEAD + body.len();
            } else if let Some(head) = root_at(bytes, at) {
                if head != 0 && self.find(head).is_none() {
                    return Err(EngineError::Malformed("a root names a chunk that is not there"));
                }
                at += ROOT;
                whole = self.commits.len();
                (self.end, self.head) = (at, head);
            } else {
                break;
            }
        }
        self.commits.truncate(whole);
        // A tail that is not whole yet is skipped. A whole root behind it is not.
        if (at + 1..bytes.len()).any(|at| bytes[at] == 2 && root_at(bytes, at).is_some()) {
            return Err(EngineError::Malformed("a root follows a gap"));
        }
        Ok(())
    }

    fn find(&self, commit: Hash) -> Option<&(Hash, u32, Hash)> {
        self.commits.iter().rev().find(|(hash, ..)| *hash == commit)
    }

    /// Returns the ids of a commit and all before it, the first one first.
    pub(crate) fn list(&self, commit: Hash) -> Result<Vec<u32>, EngineError> {
        let mut ids = Vec::new();
        let mut next = commit;
        while next != 0 {
            match self.find(next) {
                Some((_, id, parent)) => {
                    ids.push(*id);
                    next = *parent;
                }
                None if ids.is_empty() => return Err(EngineError::NoSuchCommit),
                None => return Err(EngineError::Malformed("a commit's parent is not there")),
            }
        }
        ids.reverse();
        Ok(ids)
    }

    /// Appends the chunks of commits that `bytes` lacks, parents first.
    fn copy_reachable(
        &self,
        heads: &[Hash],
        has: impl Fn(Hash) -> bool,
        bytes: &mut Vec<u8>,
        source: &[u8],
    ) -> Result<(), EngineError> {
        let mut wanted = Vec::new();
        for head in heads {
            let mut next = *head;
            while next != 0 && !has(next) && !wanted.contains(&next) {
                wanted.push(next);
                next = self.find(next).ok_or(EngineError::NoSuchCommit)?.2;
            }
        }
        // The file has parents before children.
        let mut at = HEADER;
        while at < self.end {
            if let Some((hash, body)) = chunk_at(source, at) {
                if let Some(place) = wanted.iter().position(|commit| *commit == hash) {
                    wanted.swap_remove(place);
                    bytes.extend(&source[at..at + CHUNK_HEAD + body.len()]);
                }
                at += CHUNK_HEAD + body.len();
            } else if root_at(source, at).is_some() {
                at += ROOT;
            } else {
                return Err(EngineError::Malformed("a record is damaged"));
            }
        }
        if wanted.is_empty() { Ok(()) } else { Err(EngineError::Malformed("a chunk has gone")) }
    }
}

fn commit_of(hash: Hash, body: &[u8]) -> Option<(Hash, u32, Hash)> {
    (body.len() == COMMIT_BODY).then(|| (hash, half_word(body, 0), word(body, 8)))
}

fn record_offset(bytes: &[u8]) -> Result<usize, EngineError> {
    let is_header = bytes.len() >= HEADER && bytes[..4] == MAGIC && word(bytes, 16) == hash(&bytes[..16]);
    if is_header { Ok(half_word(bytes, 4) as usize) } else { Err(EngineError::Malformed("no header")) }
}

/// Returns `true` if a record ends here that a writer can continue behind.
pub(crate) fn ends_record(bytes: &[u8], at: usize) -> bool {
    let is_root_end = at >= ROOT && at <= bytes.len() && root_at(bytes, at - ROOT).is_some();
    is_root_end || at <= bytes.len() && record_offset(bytes) == Ok(at)
}

/// Returns a file with what the heads reach and nothing else.
pub(crate) fn collect(source: &[u8], heads: &[Hash], id: u64) -> Result<Vec<u8>, EngineError> {
    let index = Index::open(source)?;
    let mut bytes = header(id, 0);
    index.copy_reachable(heads, |_| false, &mut bytes, source)?;
    let head = header(id, bytes.len());
    bytes[..HEADER].copy_from_slice(&head);
    Ok(bytes)
}

/// Appends what the heads reach and the file lacks.
pub(crate) fn bring_over(bytes: &mut Vec<u8>, source: &[u8], heads: &[Hash]) -> Result<(), EngineError> {
    let here = Index::open(bytes)?;
    let index = Index::open(source)?;
    let before = bytes.len();
    index.copy_reachable(heads, |hash| here.find(hash).is_some(), bytes, source)?;
    if bytes.len() > before {
        let head = heads.last().copied().unwrap_or(0);
        let root = root(bytes.len(), head);
        bytes.extend(root);
    }
    Ok(())
}

/// A file on a disk.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    pub(crate) bytes: RefCell<Vec<u8>>,
    /// Whether the simulation has damaged it.
    pub(crate) is_damaged: Cell<bool>,
}

impl Inode {
    pub(crate) fn new(bytes: Vec<u8>) -> Rc<Self> {
        Rc::new(Self { bytes: RefCell::new(bytes), is_damaged: Cell::new(false) })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        self.bytes.borrow_mut().extend(bytes);
    }

    /// Writes at an offset. Zeros fill a gap before it.
    pub(crate) fn write(&self, at: usize, new: &[u8]) {
        let mut bytes = self.bytes.borrow_mut();
        let end = at + new.len();
        let length = bytes.len().max(end);
        bytes.resize(length, 0);
        bytes[at..end].copy_from_slice(new);
    }

    /// Changes a bit, unless the file is damaged already: a second change could undo the first.
    pub(crate) fn damage(&self, at: usize, random: &mut Random) {
        if self.is_damaged.get() {
            return;
        }
        self.bytes.borrow_mut()[at] ^= 1 << random.below(8);
        self.is_damaged.set(true);
    }
}

/// A connection that stays open.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) inode: Rc<Inode>,
    seen: usize,
    pub(crate) index: Index,
}

impl Connection {
    pub(crate) fn open(inode: &Rc<Inode>) -> Result<Self, EngineError> {
        let index = Index::open(&inode.bytes.borrow())?;
        Ok(Self { inode: inode.clone(), seen: index.end, index })
    }

    /// Takes up what was appended. As long as the size stays, the connection looks at nothing.
    pub(crate) fn refresh(&mut self) -> Result<(), EngineError> {
        let bytes = self.inode.bytes.borrow();
        if bytes.len() < self.seen {
            return Err(EngineError::Shorter);
        }
        if bytes.len() > self.seen {
            self.index.walk(&bytes)?;
            // A tail that is not whole is looked at again: it may be truncated, and others take its place.
            self.seen = self.index.end;
        }
        Ok(())
    }

    /// Begins a write: takes up what was appended, and removes a torn tail.
    pub(crate) fn begin(&mut self) -> Result<(), EngineError> {
        self.refresh()?;
        let end = self.index.end;
        if !ends_record(&self.inode.bytes.borrow(), end) {
            return Err(EngineError::Malformed("the last root is gone"));
        }
        self.inode.bytes.borrow_mut().truncate(end);
        self.seen = end;
        Ok(())
    }

    /// Takes up what this connection has written.
    pub(crate) fn wrote(&mut self) -> Result<(), EngineError> {
        self.refresh()
    }

    /// Closes a connection that was open for writing: it appends a root, unless the last record is such a one.
    pub(crate) fn close_writer(self) {
        let marker = {
            let bytes = self.inode.bytes.borrow();
            let before = |roots: usize| self.seen.checked_sub(roots * ROOT).and_then(|at| root_at(&bytes, at));
            let has_marker = before(1) == Some(self.index.head) && before(2) == Some(self.index.head);
            (!has_marker).then(|| root(bytes.len(), self.index.head))
        };
        self.inode.append(&marker.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_commits(ids: &[u32]) -> (Rc<Inode>, Hash) {
        let inode = Inode::new(header(7, HEADER));
        let mut head = 0;
        for id in ids {
            head = append(&inode, *id, head);
        }
        (inode, head)
    }

    fn append(inode: &Inode, id: u32, parent: Hash) -> Hash {
        let (hash, bytes) = commit(id, 0, parent);
        inode.append(&bytes);
        let root = root(inode.len(), hash);
        inode.append(&root);
        hash
    }

    #[test]
    fn connections_take_up_what_is_appended_and_skip_torn_tails() {
        let (inode, first) = with_commits(&[1]);
        let mut reader = Connection::open(&inode).unwrap();
        let second = append(&inode, 2, first);
        let whole = inode.len();
        inode.append(&commit(3, 0, second).1[..9]);
        reader.refresh().unwrap();
        assert_eq!(reader.index.list(second), Ok(vec![1, 2]));
        assert_eq!(Index::open(&inode.bytes.borrow()).unwrap().end, whole);
        let mut writer = Connection::open(&inode).unwrap();
        writer.begin().unwrap();
        assert_eq!(inode.len(), whole);
    }

    #[test]
    fn a_root_behind_a_gap_is_malformed() {
        let (inode, head) = with_commits(&[1, 2]);
        let at = inode.len();
        let hash = append(&inode, 3, head);
        append(&inode, 4, hash);
        let gap = at..at + CHUNK_HEAD + COMMIT_BODY + ROOT;
        inode.bytes.borrow_mut()[gap].fill(0);
        assert!(matches!(Index::open(&inode.bytes.borrow()), Err(EngineError::Malformed(_))));
    }

    #[test]
    fn a_writer_on_bytes_that_were_exchanged_damages_the_file() {
        let (inode, first) = with_commits(&[1]);
        let cut = inode.len();
        append(&inode, 2, first);
        let mut writer = Connection::open(&inode).unwrap();
        // Bytes of the same length take the place of the second commit.
        inode.bytes.borrow_mut().truncate(cut);
        append(&inode, 9, first);
        assert_eq!(writer.refresh(), Ok(()), "the size did not change");
        writer.close_writer();
        assert_eq!(
            Index::open(&inode.bytes.borrow()).unwrap_err(),
            EngineError::Malformed("a root names a chunk that is not there")
        );
    }

    #[test]
    fn closing_a_writer_appends_one_root() {
        let (inode, _) = with_commits(&[1]);
        let length = inode.len();
        for _ in 0..3 {
            Connection::open(&inode).unwrap().close_writer();
            assert_eq!(inode.len(), length + ROOT);
        }
    }

    #[test]
    fn a_collected_file_has_what_is_kept() {
        let (inode, first) = with_commits(&[1]);
        let garbage = append(&inode, 5, first);
        let second = append(&inode, 2, first);
        let mut bytes = collect(&inode.bytes.borrow(), &[first], 8).unwrap();
        assert!(ends_record(&bytes, bytes.len()));
        bring_over(&mut bytes, &inode.bytes.borrow(), &[first, second]).unwrap();
        let index = Index::open(&bytes).unwrap();
        assert_eq!(index.list(second), Ok(vec![1, 2]));
        assert_eq!(index.list(garbage), Err(EngineError::NoSuchCommit));
        assert!(ends_record(&bytes, bytes.len()));
    }

    #[test]
    fn only_a_record_end_can_be_continued() {
        let (inode, head) = with_commits(&[1, 2]);
        let bytes = inode.bytes.borrow().clone();
        assert!(ends_record(&bytes, bytes.len()));
        assert!(!ends_record(&bytes, bytes.len() - 1));
        let cut = Index::open(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(cut.list(head), Err(EngineError::NoSuchCommit));
    }
}
