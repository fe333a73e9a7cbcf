//! Finds the merges by which commits came to a branch.

use std::collections::HashMap;

use branchyard_domain::values::ChunkHash;

/// Follows the first parents from where a history begins, while all its commits pass, children before parents.
pub(super) struct Merges {
    /// The next of the first parents.
    main: Option<ChunkHash>,
    /// For commits that are still to pass: the oldest merge that reaches them, and its number, counted from the newest.
    brought: HashMap<ChunkHash, (usize, ChunkHash)>,
    passed: usize,
}

impl Merges {
    pub(super) fn new(from: ChunkHash) -> Self {
        Self { main: Some(from), brought: HashMap::new(), passed: 0 }
    }

    /// Passes the next commit. Returns the merge that brought it, or `None` if it is one of the first parents.
    pub(super) fn pass(&mut self, commit: ChunkHash, parents: &[ChunkHash]) -> Option<ChunkHash> {
        let brought = self.brought.remove(&commit);
        if self.main != Some(commit) {
            parents.iter().for_each(|parent| self.note(*parent, brought));
            return brought.map(|(_, merge)| merge);
        }
        self.passed += 1;
        let (main, others) = parents.split_first().map_or((None, parents), |(main, others)| (Some(*main), others));
        self.main = main;
        others.iter().for_each(|parent| self.note(*parent, Some((self.passed, commit))));
        None
    }

    fn note(&mut self, commit: ChunkHash, brought: Option<(usize, ChunkHash)>) {
        let Some(brought) = brought else { return };
        let known = self.brought.entry(commit).or_insert(brought);
        *known = brought.max(*known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u8) -> ChunkHash {
        ChunkHash::from_bytes([number; 20])
    }

    #[test]
    fn a_commit_is_brought_by_the_oldest_merge_that_reaches_it() {
        // 9 and 7 are merges on the branch 9, 7, 4, 1. 7 brought 5 and 3; 9 brought 8 and 6, which are on top of 5.
        let commits: [(u8, &[u8], Option<u8>); 8] = [
            (9, &[7, 8], None),
            (8, &[6], Some(9)),
            (7, &[4, 5], None),
            (6, &[5], Some(9)),
            (5, &[3], Some(7)),
            (4, &[1], None),
            (3, &[1], Some(7)),
            (1, &[], None),
        ];
        let mut merges = Merges::new(hash(9));
        for (commit, parents, brought) in commits {
            let parents: Vec<_> = parents.iter().copied().map(hash).collect();
            assert_eq!(merges.pass(hash(commit), &parents), brought.map(hash), "{commit}");
        }
    }
}
