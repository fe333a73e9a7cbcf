//! What a database lost when its metadata were restored to an earlier time, as far as the store still has it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use branchyard_domain::ports::{DatabaseFiles, DatabaseStore, StoreError};
use branchyard_domain::values::{CommitHash, DatabaseId, ObjectKey as StoreKey};
use branchyard_engine_doltlite::{RecordedCommit, commits_behind};
use branchyard_segments::{AcceptedLoss, LostFile, ObjectKey, SEGMENTS, lost_files};
use branchyard_storage::{losses_of, objects_of};

/// Most bytes that are read from an object at once.
const READ: u64 = 8 << 20;

/// A place at which lost bytes cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The generation of the file.
    pub(crate) generation: u64,
    /// The offset in the file.
    pub(crate) at: u64,
}

/// A lost commit, and the file that holds it.
#[derive(Debug, Clone)]
pub(crate) struct LostCommit {
    /// The commit.
    pub(crate) commit: RecordedCommit,
    /// The file, which is in no store.
    pub(crate) file: DatabaseId,
}

/// The lost commits of a database, and the files that hold them.
#[derive(Debug, Default)]
pub(crate) struct LostChanges {
    /// How often an administrator accepted a loss.
    pub(crate) losses: usize,
    /// Number of files with lost bytes.
    pub(crate) files: usize,
    /// Where lost bytes cannot be had, or are no records of the engine.
    pub(crate) gaps: Vec<Gap>,
    commits: HashMap<CommitHash, LostCommit>,
}

impl LostChanges {
    /// Brings what the store has of the lost bytes of a database into files of their own. `named` are the objects that its row names, and
    /// `fresh` returns ids for the files.
    ///
    /// # Errors
    /// Fails if the store fails, or if a file cannot be written.
    pub(crate) fn find(
        store: &dyn DatabaseStore,
        files: &dyn DatabaseFiles,
        database: DatabaseId,
        named: &[ObjectKey],
        mut fresh: impl FnMut() -> DatabaseId,
    ) -> anyhow::Result<Self> {
        let losses = losses_of(store, database)?;
        let mut found = Self { losses: losses.len(), ..Self::default() };
        if losses.is_empty() {
            return Ok(found);
        }
        let objects = objects_of(store, database)?;
        for lost in losses.iter().flat_map(|loss: &AcceptedLoss| lost_files(loss, &objects, named)) {
            let id = fresh();
            found.add(store, files, id, &lost)?;
        }
        Ok(found)
    }

    fn add(
        &mut self,
        store: &dyn DatabaseStore,
        files: &dyn DatabaseFiles,
        id: DatabaseId,
        lost: &LostFile,
    ) -> anyhow::Result<()> {
        let gap = |at| Gap { generation: lost.generation.0, at };
        let path = files.new_path();
        let length = assemble(store, &path, lost)?;
        self.gaps.extend((length < end(lost)).then_some(length).or(lost.gap).map(gap));
        // Without what precedes it, a commit cannot be read.
        if length <= lost.from {
            std::fs::remove_file(&path).context("cannot remove a file without lost commits")?;
            return Ok(());
        }
        let (commits, read_to) = commits_behind(&path, lost.from).context("cannot read lost bytes")?;
        // The end of a write that failed, or bytes that do not belong together.
        self.gaps.extend((read_to < length).then_some(read_to).map(gap));
        self.files += 1;
        files.install(id, &path)?;
        for commit in commits {
            self.commits.entry(commit.hash.clone()).or_insert(LostCommit { commit, file: id });
        }
        Ok(())
    }

    /// Returns the number of lost commits.
    pub(crate) fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Returns the commits that are no parent of another one, the newest first.
    pub(crate) fn tips(&self) -> Vec<&LostCommit> {
        let parents: HashSet<&CommitHash> = self.commits.values().flat_map(|lost| &lost.commit.parents).collect();
        let mut tips: Vec<_> = self.commits.values().filter(|lost| !parents.contains(&lost.commit.hash)).collect();
        tips.sort_by(|a, b| (b.commit.at, &b.commit.hash).cmp(&(a.commit.at, &a.commit.hash)));
        tips
    }
}

fn end(lost: &LostFile) -> u64 {
    lost.pieces.last().map_or(0, |(_, range)| range.end)
}

/// Writes a lost file. Returns its length, which is less than that of the pieces if the store lacks one of them.
fn assemble(store: &dyn DatabaseStore, path: &Path, lost: &LostFile) -> anyhow::Result<u64> {
    let mut file = File::create_new(path).context("cannot create a file for lost bytes")?;
    let mut length = 0;
    for (object, range) in &lost.pieces {
        let key = StoreKey::parse(&format!("{SEGMENTS}/{object}"))?;
        while length < range.end {
            let next = range.end.min(length + READ);
            match store.read(&key, length - object.start..next - object.start) {
                // It was deleted since it was listed, or it is damaged.
                Err(StoreError::NotFound(_) | StoreError::Damaged { .. }) => return Ok(length),
                read => file.write_all(&read?).context("cannot write lost bytes")?,
            }
            length = next;
        }
    }
    Ok(length)
}
