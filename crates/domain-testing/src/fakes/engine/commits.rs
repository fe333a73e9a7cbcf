//! The commit graph of one database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::Result;
use super::table::Snapshot;
use branchyard_domain::entities::{Commit, Signature};
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, Timestamp};

/// Size of a file without content, in bytes.
const EMPTY_FILE: u64 = 4_096;

/// A marker in commit messages. Commits that have it get hashes with the same first eight digits, so that tests can use ambiguous prefixes.
pub const SAME_DIGITS: &str = "[same digits]";

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) commit: Commit,
    pub(super) tables: Arc<Snapshot>,
    size: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct CommitGraph {
    commits: BTreeMap<CommitHash, Arc<Stored>>,
    /// Bytes that no commit needs.
    padding: u64,
}

impl CommitGraph {
    pub(super) fn get(&self, hash: &CommitHash) -> Result<&Stored> {
        self.commits.get(hash).map(Arc::as_ref).ok_or_else(|| EngineError::NoSuchCommit(hash.clone()))
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.commits.values().map(|stored| stored.size).sum::<u64>() + EMPTY_FILE + self.padding
    }

    pub(super) fn pad(&mut self, bytes: u64) {
        self.padding += bytes;
    }

    /// Adds a commit. The hash is derived from its whole content. The first digits of those whose message says so are the same.
    pub(super) fn add(
        &mut self,
        parents: Vec<CommitHash>,
        message: &str,
        author: &Signature,
        tables: Arc<Snapshot>,
    ) -> CommitHash {
        let at = Timestamp::from_seconds(author.at.as_seconds());
        let mut hash = Sha256::new();
        for text in parents.iter().map(CommitHash::as_str).chain([message, &author.name, &author.email]) {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        hash.update(at.as_seconds().to_be_bytes());
        let size = tables.digest(&mut hash);
        let mut digest = hash.finalize();
        if message.contains(SAME_DIGITS) {
            digest[..4].fill(0x5a);
        }
        let hash = named(&digest);
        let author = Signature { at, ..author.clone() };
        let commit = Commit { hash: hash.clone(), parents, message: message.to_owned(), author };
        self.commits.insert(hash.clone(), Arc::new(Stored { commit, tables, size }));
        hash
    }

    fn ancestors(&self, from: &CommitHash) -> Result<BTreeSet<&CommitHash>> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![&self.get(from)?.commit];
        while let Some(commit) = waiting.pop() {
            if found.insert(&commit.hash) {
                for parent in &commit.parents {
                    waiting.push(&self.get(parent)?.commit);
                }
            }
        }
        Ok(found)
    }

    pub(super) fn is_ancestor(&self, ancestor: &CommitHash, descendant: &CommitHash) -> Result<bool> {
        Ok(self.ancestors(descendant)?.contains(ancestor))
    }

    /// Returns a best common ancestor: no other common ancestor descends from it.
    pub(super) fn merge_base(&self, a: &CommitHash, b: &CommitHash) -> Result<Option<CommitHash>> {
        let of_b = self.ancestors(b)?;
        Ok(self.log(a)?.into_iter().map(|commit| &commit.hash).find(|hash| of_b.contains(hash)).cloned())
    }

    /// Lists the history: children before parents, then newest first.
    pub(super) fn log(&self, from: &CommitHash) -> Result<Vec<&Commit>> {
        let mut children: BTreeMap<&CommitHash, usize> = BTreeMap::new();
        for hash in self.ancestors(from)? {
            for parent in &self.get(hash)?.commit.parents {
                *children.entry(parent).or_default() += 1;
            }
        }
        let mut ready = BTreeSet::from([(self.get(from)?.commit.author.at, from)]);
        let mut log = Vec::new();
        while let Some((_, hash)) = ready.pop_last() {
            let commit = &self.get(hash)?.commit;
            log.push(commit);
            for parent in &commit.parents {
                let left = children.entry(parent).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    ready.insert((self.get(parent)?.commit.author.at, parent));
                }
            }
        }
        Ok(log)
    }

    /// Returns a commit with its history, to be added to another file.
    pub(super) fn reachable(&self, from: &CommitHash) -> Result<Self> {
        let wanted = self.ancestors(from)?;
        let commits = self.commits.iter().filter(|(hash, _)| wanted.contains(hash));
        let commits = commits.map(|(hash, stored)| (hash.clone(), Arc::clone(stored))).collect();
        Ok(Self { commits, padding: 0 })
    }

    /// Returns those of `heads` that exist, with their history.
    pub(super) fn only(&self, heads: &[CommitHash]) -> Self {
        let mut kept = Self::default();
        for reached in heads.iter().filter_map(|head| self.reachable(head).ok()) {
            kept.take_in(reached);
        }
        kept
    }

    pub(super) fn take_in(&mut self, other: Self) {
        self.commits.extend(other.commits);
    }
}

/// Creates a hash from the first 20 bytes of a digest.
fn named(digest: &[u8]) -> CommitHash {
    match CommitHash::parse(&HEXLOWER.encode(&digest[..20])) {
        Ok(hash) => hash,
        Err(error) => unreachable!("{error}"),
    }
}
