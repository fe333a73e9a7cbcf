//! A cache of the parents of commits, which never change, and the search for descendants over it.

use std::collections::{HashMap, HashSet, VecDeque};

use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId};
use parking_lot::Mutex;

/// Maximum number of cached commits, over all databases. Each takes about 100 bytes.
const MOST: usize = 300_000;

/// The parents of a commit. Most commits have one.
#[derive(Clone, Default)]
struct Parents {
    first: Option<ChunkHash>,
    others: Box<[ChunkHash]>,
}

#[derive(Default)]
struct KnownAncestors {
    databases: HashMap<DatabaseId, HashMap<ChunkHash, Parents>>,
    commits: usize,
}

/// The cached parents of the commits that were looked up.
#[derive(Default)]
pub struct Ancestry(Mutex<KnownAncestors>);

impl std::fmt::Debug for Ancestry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ancestry").field("commits", &self.0.lock().commits).finish_non_exhaustive()
    }
}

/// Looks up the parents of a commit that is not cached yet. Returns `None` if the file has no such commit.
pub type ParentsOf<'a, E> = dyn FnMut(&CommitHash) -> Result<Option<Vec<CommitHash>>, E> + 'a;

impl Ancestry {
    /// Returns for each of `commits` whether one of `heads` is it or descends from it. There is one search for all. It starts at
    /// all heads at once, so recent ancestors of any head are found after few steps.
    ///
    /// # Errors
    /// The error of `parents_of`.
    pub fn reached<E>(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commits: &[CommitHash],
        parents_of: &mut ParentsOf<'_, E>,
    ) -> Result<Vec<bool>, E> {
        let mut next: VecDeque<ChunkHash> = heads.iter().map(ChunkHash::from).collect();
        let mut seen: HashSet<ChunkHash> = next.iter().copied().collect();
        let mut wanted: HashSet<ChunkHash> = commits.iter().map(ChunkHash::from).collect();
        wanted.retain(|commit| !seen.contains(commit));
        while !wanted.is_empty() {
            let Some(at) = next.pop_front() else { break };
            let parents = match self.kept(database, &at) {
                Some(parents) => parents,
                None => match parents_of(&at.as_commit())? {
                    Some(parents) => self.keep(database, at, &parents),
                    None => continue,
                },
            };
            for parent in parents.first.iter().chain(&parents.others) {
                if seen.insert(*parent) {
                    wanted.remove(parent);
                    next.push_back(*parent);
                }
            }
        }
        Ok(commits.iter().map(|commit| !wanted.contains(&ChunkHash::from(commit))).collect())
    }

    /// Returns `true` if one of `heads` is `commit` or descends from it; see [`Self::reached`].
    ///
    /// # Errors
    /// The error of `parents_of`.
    pub fn descends<E>(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commit: &CommitHash,
        parents_of: &mut ParentsOf<'_, E>,
    ) -> Result<bool, E> {
        Ok(self.reached(database, heads, std::slice::from_ref(commit), parents_of)? == [true])
    }

    /// Records the parents of a commit that was just created.
    pub fn note(&self, database: DatabaseId, commit: &CommitHash, parents: &[CommitHash]) {
        self.keep(database, ChunkHash::from(commit), parents);
    }

    /// Removes all entries of a database, because its file is replaced.
    pub fn forget(&self, database: DatabaseId) {
        let mut known = self.0.lock();
        if let Some(commits) = known.databases.remove(&database) {
            known.commits = known.commits.saturating_sub(commits.len());
        }
    }

    fn kept(&self, database: DatabaseId, at: &ChunkHash) -> Option<Parents> {
        self.0.lock().databases.get(&database)?.get(at).cloned()
    }

    fn keep(&self, database: DatabaseId, at: ChunkHash, parents: &[CommitHash]) -> Parents {
        let mut nodes = parents.iter().map(ChunkHash::from);
        let parents = Parents { first: nodes.next(), others: nodes.collect() };
        let mut known = self.0.lock();
        if known.commits >= MOST {
            *known = KnownAncestors::default();
        }
        if known.databases.entry(database).or_default().insert(at, parents.clone()).is_none() {
            known.commits += 1;
        }
        parents
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn commit(n: u32) -> CommitHash {
        CommitHash::parse(&format!("{:08x}{n:032x}", n.wrapping_mul(0x9e37_79b9))).unwrap()
    }

    fn id() -> DatabaseId {
        DatabaseId::parse("0199c3a7-1111-7222-8333-444455556601").unwrap()
    }

    /// Searches a history of 10,000 commits with a merge at every tenth commit. Parents are looked up once only.
    #[test]
    fn ancestors_are_found_and_remembered() {
        let ancestry = Ancestry::default();
        let mut looked_up = 0;
        let mut ask = |heads: &[u32], wanted: u32| {
            let heads: Vec<CommitHash> = heads.iter().copied().map(commit).collect();
            let mut parents = |at: &CommitHash| -> Result<_, Infallible> {
                looked_up += 1;
                let n = u32::from_str_radix(&at.as_str()[32..], 16).unwrap();
                Ok(match n {
                    0 => Some(vec![]),
                    20_000.. => None,
                    n if n % 10 == 0 => Some(vec![commit(n - 1), commit(n - 5)]),
                    n => Some(vec![commit(n - 1)]),
                })
            };
            let found = ancestry.descends(id(), &heads, &commit(wanted), &mut parents).unwrap();
            (found, looked_up)
        };
        assert_eq!(ask(&[10_000], 10_000), (true, 0));
        assert!(ask(&[10_000], 9_990).1 < 20, "a recent commit is found at once");
        assert_eq!(ask(&[10_000], 0), (true, 10_000));
        assert_eq!(
            ask(&[10_000], 10_001),
            (false, 10_001),
            "the first commit has no parents, which is remembered, too"
        );
        assert_eq!(ask(&[10_000, 3], 77), (true, 10_001));
        assert_eq!(ask(&[3], 77), (false, 10_001));
        assert_eq!(ask(&[30_000], 3), (false, 10_002), "a head that is not in the file");
        assert_eq!(ask(&[30_000], 3), (false, 10_003), "may come later");
        assert_eq!(ask(&[], 3), (false, 10_003));
        // Many commits are one search.
        let commits: Vec<CommitHash> = (0..10_000).step_by(7).chain([20_000]).map(commit).collect();
        let mut cached = |_: &CommitHash| Err(());
        let reached = ancestry.reached(id(), &[commit(9_000)], &commits, &mut cached).unwrap();
        assert_eq!(reached.iter().filter(|reached| **reached).count(), 9_000 / 7 + 1);
        assert!(reached[..=9_000 / 7].iter().all(|reached| *reached));
        ancestry.forget(id());
        assert_eq!(ask(&[3], 0), (true, 10_006));
    }
}
