//! A cache of the parents of commits, which never change, and the search for descendants over it.

use std::collections::{HashMap, HashSet, VecDeque};

use branchyard_domain::values::{CommitHash, DatabaseId};
use parking_lot::Mutex;

/// Maximum number of cached commits, over all databases. Each takes about 100 bytes.
const MOST: usize = 300_000;

/// A commit hash in 20 bytes.
type RawHash = [u8; 20];

/// The parents of a commit. Most commits have one.
#[derive(Clone, Default)]
struct Parents {
    first: Option<RawHash>,
    others: Box<[RawHash]>,
}

#[derive(Default)]
struct KnownAncestors {
    databases: HashMap<DatabaseId, HashMap<RawHash, Parents>>,
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
    /// Returns `true` if one of `heads` is `commit` or descends from it. The search starts at all heads at once, so a
    /// recent ancestor of any head is found after few steps.
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
        let wanted = node(commit);
        let mut next: VecDeque<RawHash> = heads.iter().map(node).collect();
        let mut seen: HashSet<RawHash> = next.iter().copied().collect();
        while !seen.contains(&wanted) {
            let Some(at) = next.pop_front() else { return Ok(false) };
            let parents = match self.kept(database, &at) {
                Some(parents) => parents,
                None => match parents_of(&hash(&at))? {
                    Some(parents) => self.keep(database, at, &parents),
                    None => continue,
                },
            };
            for parent in parents.first.iter().chain(&parents.others) {
                if seen.insert(*parent) {
                    next.push_back(*parent);
                }
            }
        }
        Ok(true)
    }

    /// Records the parents of a commit that was just created.
    pub fn note(&self, database: DatabaseId, commit: &CommitHash, parents: &[CommitHash]) {
        self.keep(database, node(commit), parents);
    }

    /// Removes all entries of a database, because its file is replaced.
    pub fn forget(&self, database: DatabaseId) {
        let mut known = self.0.lock();
        if let Some(commits) = known.databases.remove(&database) {
            known.commits = known.commits.saturating_sub(commits.len());
        }
    }

    fn kept(&self, database: DatabaseId, at: &RawHash) -> Option<Parents> {
        self.0.lock().databases.get(&database)?.get(at).cloned()
    }

    fn keep(&self, database: DatabaseId, at: RawHash, parents: &[CommitHash]) -> Parents {
        let mut nodes = parents.iter().map(node);
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

fn node(commit: &CommitHash) -> RawHash {
    let mut node = RawHash::default();
    for (byte, pair) in node.iter_mut().zip(commit.as_str().as_bytes().chunks_exact(2)) {
        *byte = pair.iter().fold(0, |number, digit| number << 4 | digit_value(*digit));
    }
    node
}

/// Returns the value of a lower-case hex digit; a [`CommitHash`] holds nothing else.
fn digit_value(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit.wrapping_sub(b'a').wrapping_add(10) & 0xf }
}

fn hash(node: &RawHash) -> CommitHash {
    let mut text = String::with_capacity(40);
    for byte in node {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    CommitHash::parse(&text).unwrap_or_else(|_| unreachable!("20 bytes are 40 hex digits"))
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

    #[test]
    fn a_hash_survives_its_packing() {
        for n in [0, 1, 0xff, 0xdead_beef] {
            assert_eq!(hash(&node(&commit(n))), commit(n));
        }
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
        ancestry.forget(id());
        assert_eq!(ask(&[3], 0), (true, 10_006));
    }
}
