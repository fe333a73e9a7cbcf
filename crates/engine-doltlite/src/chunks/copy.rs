//! Copies what commits reach from one file into another.

use std::collections::{BTreeMap, HashMap, HashSet};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{ChunkHash, CommitHash};

use super::file::ChunkFile;
use crate::sql::errors;
use branchyard_remote_protocol::layout::{self, Node};
use branchyard_remote_protocol::{Hash, Malformed};

/// Number of chunks that are looked up at once.
pub(super) const LOOKED_UP: usize = 4096;
/// Number of chunks that are in memory at once. Most have 4 KB; one with a large value is longer than that value.
pub(super) const READ: usize = 32;

/// Copies the commit `tip` with its history and all its content, unless `into` holds it: the chunks that `into` lacks, all or
/// none of them, in one commit of the file.
///
/// # Errors
/// [`EngineError::NoSuchCommit`] if `from` does not hold the commit, [`EngineError::Damaged`] if it lacks a part of it.
pub(crate) fn copy_history(from: &ChunkFile, into: &ChunkFile, tip: &CommitHash) -> Result<(), EngineError> {
    let root = ChunkHash::from(tip);
    if is_held(into, root)? {
        return Ok(());
    }
    if !is_held(from, root)? {
        return Err(EngineError::NoSuchCommit(tip.clone()));
    }
    let mut walk = Walk { from, into, seen: HashSet::new() };
    let (commits, catalogs) = walk.commits(root)?;
    let (catalogs, roots) = walk.catalogs(catalogs)?;
    let nodes = walk.nodes(roots)?;
    // Children first.
    for (level, nodes) in nodes {
        walk.read(&nodes, |hash, bytes| {
            node_of(hash, bytes, level)?;
            walk.put(hash, bytes)
        })?;
    }
    for chunks in [catalogs, commits] {
        walk.read(&chunks, |hash, bytes| walk.put(hash, bytes))?;
    }
    into.commit().map_err(|error| errors::fault("add chunks to a file", error))
}

fn is_held(file: &ChunkFile, hash: ChunkHash) -> Result<bool, EngineError> {
    let held = file.has(&[hash]).map_err(|error| errors::fault("look for a chunk", error))?;
    Ok(held == [true])
}

/// A walk through the chunks that one file lacks. It ends at chunks that the file holds.
struct Walk<'a> {
    from: &'a ChunkFile,
    into: &'a ChunkFile,
    seen: HashSet<ChunkHash>,
}

impl Walk<'_> {
    /// Returns the commits of the history of `tip`, parents first, and their catalogs.
    fn commits(&mut self, tip: ChunkHash) -> Result<(Vec<ChunkHash>, Vec<ChunkHash>), EngineError> {
        let (mut parents, mut catalogs, mut next) = (HashMap::new(), Vec::new(), vec![tip]);
        while !next.is_empty() {
            let lacking = self.lacking(&next)?;
            next.clear();
            self.read(&lacking, |hash, bytes| {
                let commit = layout::commit(bytes).map_err(|malformed| damaged(hash, malformed))?;
                let of_commit = as_chunks(commit.parents);
                next.extend(&of_commit);
                catalogs.push(ChunkHash::from_bytes(commit.catalog));
                parents.insert(hash, of_commit);
                Ok(())
            })?;
        }
        Ok((parents_first(&parents, &[tip]), catalogs))
    }

    /// Returns the catalogs that are lacking, and the roots of the trees that they name.
    fn catalogs(&mut self, catalogs: Vec<ChunkHash>) -> Result<(Vec<ChunkHash>, Vec<ChunkHash>), EngineError> {
        let (lacking, mut roots) = (self.lacking(&catalogs)?, Vec::new());
        self.read(&lacking, |hash, bytes| {
            roots.extend(as_chunks(layout::catalog(bytes).map_err(|malformed| damaged(hash, malformed))?));
            Ok(())
        })?;
        Ok((lacking, roots))
    }

    /// Returns the nodes of the trees with these roots, by their level. Leaves below other nodes are not read yet.
    fn nodes(&mut self, roots: Vec<ChunkHash>) -> Result<BTreeMap<u8, Vec<ChunkHash>>, EngineError> {
        let (mut nodes, mut below) = (BTreeMap::<u8, Vec<_>>::new(), BTreeMap::<u8, Vec<_>>::new());
        let lacking = self.lacking(&roots)?;
        self.read(&lacking, |hash, bytes| {
            let node = layout::node(bytes).map_err(|malformed| damaged(hash, malformed))?;
            nodes.entry(node.level).or_default().push(hash);
            if let Some(level) = node.level.checked_sub(1) {
                below.entry(level).or_default().extend(as_chunks(node.children));
            }
            Ok(())
        })?;
        while let Some((level, children)) = below.pop_last() {
            let lacking = self.lacking(&children)?;
            drop(children);
            if let Some(level_below) = level.checked_sub(1) {
                let children = below.entry(level_below).or_default();
                self.read(&lacking, |hash, bytes| {
                    children.extend(as_chunks(node_of(hash, bytes, level)?.children));
                    Ok(())
                })?;
            }
            nodes.entry(level).or_default().extend(lacking);
        }
        Ok(nodes)
    }

    /// Returns those of the chunks that the file lacks and that were not returned before.
    fn lacking(&mut self, hashes: &[ChunkHash]) -> Result<Vec<ChunkHash>, EngineError> {
        let mut lacking = Vec::new();
        let unseen: Vec<_> =
            hashes.iter().copied().filter(|hash| *hash != ChunkHash::NONE && self.seen.insert(*hash)).collect();
        for hashes in unseen.chunks(LOOKED_UP) {
            let held = self.into.has(hashes).map_err(|error| errors::fault("look for chunks", error))?;
            lacking.extend(hashes.iter().zip(held).filter(|(_, held)| !held).map(|(hash, _)| *hash));
        }
        Ok(lacking)
    }

    /// Passes the content of each chunk to `each`.
    fn read(
        &self,
        hashes: &[ChunkHash],
        mut each: impl FnMut(ChunkHash, &[u8]) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        for hashes in hashes.chunks(READ) {
            let chunks = self.from.get(hashes).map_err(|error| errors::fault("read chunks", error))?;
            for (hash, chunk) in hashes.iter().zip(chunks) {
                let chunk = chunk.ok_or_else(|| damaged(*hash, Malformed("it is missing")))?;
                each(*hash, &chunk)?;
            }
        }
        Ok(())
    }

    fn put(&self, hash: ChunkHash, bytes: &[u8]) -> Result<(), EngineError> {
        self.into.put(&hash, bytes).map_err(|error| errors::fault("add a chunk to a file", error))
    }
}

pub(super) fn as_chunks(hashes: Vec<Hash>) -> Vec<ChunkHash> {
    hashes.into_iter().map(ChunkHash::from_bytes).collect()
}

/// Parses a node that is expected to have a level.
fn node_of(hash: ChunkHash, bytes: &[u8], level: u8) -> Result<Node, EngineError> {
    let node = layout::node(bytes).map_err(|malformed| damaged(hash, malformed))?;
    if node.level == level { Ok(node) } else { Err(damaged(hash, Malformed("the node has a wrong level"))) }
}

/// Returns the error for a chunk that is not what the layout demands.
pub(crate) fn damaged(hash: ChunkHash, Malformed(reason): Malformed) -> EngineError {
    EngineError::Damaged(format!("chunk {hash}: {reason}"))
}

/// Returns those of the commits `tips` and of their ancestors that `parents` has, each after its parents.
pub(super) fn parents_first(parents: &HashMap<ChunkHash, Vec<ChunkHash>>, tips: &[ChunkHash]) -> Vec<ChunkHash> {
    let (mut sorted, mut entered) = (Vec::with_capacity(parents.len()), HashSet::new());
    for tip in tips {
        if parents.contains_key(tip) && entered.insert(*tip) {
            enter(parents, *tip, &mut entered, &mut sorted);
        }
    }
    sorted
}

/// Adds a commit and those of its ancestors that were not entered before, each after its parents.
fn enter(
    parents: &HashMap<ChunkHash, Vec<ChunkHash>>,
    tip: ChunkHash,
    entered: &mut HashSet<ChunkHash>,
    sorted: &mut Vec<ChunkHash>,
) {
    // Commits with the number of their parents that were entered.
    let mut path = vec![(tip, 0)];
    while let Some((commit, number)) = path.last_mut() {
        let next = parents.get(commit).and_then(|parents| parents.get(*number));
        *number += 1;
        match next {
            Some(parent) if parents.contains_key(parent) && entered.insert(*parent) => path.push((*parent, 0)),
            Some(_) => {}
            None => {
                sorted.push(*commit);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_comes_after_its_parents() {
        let hash = |number| ChunkHash::from_bytes([number; 20]);
        // 1 is held, and 2 to 6 are not. 5 and 6 are merges.
        let edges: [(u8, &[u8]); 5] = [(2, &[1]), (3, &[2]), (4, &[2]), (5, &[3, 4]), (6, &[2, 5, 3])];
        let parents = edges
            .iter()
            .map(|(commit, parents)| (hash(*commit), parents.iter().map(|parent| hash(*parent)).collect::<Vec<_>>()));
        let parents: HashMap<_, _> = parents.collect();
        assert_eq!(parents_first(&parents, &[hash(6)]), [2, 3, 4, 5, 6].map(hash));
        assert_eq!(parents_first(&parents, &[4, 1, 3, 4].map(hash)), [2, 4, 3].map(hash));
    }
}
