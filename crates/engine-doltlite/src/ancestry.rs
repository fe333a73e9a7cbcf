//! A cache of the parents of commits, which never change, and the search for descendants over it.

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use branchyard_domain::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};
use parking_lot::Mutex;

/// Maximum number of cached commits, over all databases. Each takes about 100 bytes.
const MOST: usize = 300_000;

/// The parents of a commit. Most commits have one.
#[derive(Clone, Default)]
struct Parents {
    first: Option<ChunkHash>,
    others: Box<[ChunkHash]>,
}

impl Parents {
    fn all(&self) -> impl Iterator<Item = ChunkHash> + '_ {
        self.first.iter().chain(&self.others).copied()
    }
}

/// A commit of a history.
struct Ancestor {
    parents: Parents,
    /// One more than the greatest of its parents, so that no commit reaches one of a greater generation.
    generation: u32,
}

type History = HashMap<ChunkHash, Ancestor>;

/// Numbers the generations of a history that was read from `head`.
fn number(history: &mut History, head: ChunkHash) {
    // Commits, each with whether its parents were entered.
    let mut path = vec![(head, false)];
    while let Some((at, is_entered)) = path.pop() {
        let Some(ancestor) = history.get(&at) else { continue };
        if ancestor.generation > 0 {
            continue;
        }
        let parents: Vec<ChunkHash> = ancestor.parents.all().collect();
        if !is_entered {
            path.push((at, true));
            path.extend(parents.into_iter().map(|parent| (parent, false)));
            continue;
        }
        let of = |parent| history.get(parent).map_or(0, |parent| parent.generation);
        let generation = parents.iter().map(of).max().unwrap_or(0).saturating_add(1);
        if let Some(ancestor) = history.get_mut(&at) {
            ancestor.generation = generation;
        }
    }
}

/// Counts the commits of a history that none of `shared`, which are commits of it, reaches, up to `at_most` + 1.
fn behind(history: &History, base: ChunkHash, shared: &[ChunkHash], at_most: usize) -> usize {
    let generation = |at: &ChunkHash| history.get(at).map_or(0, |ancestor| ancestor.generation);
    // By generation, greatest first, so that a commit is taken after all commits that reach it.
    let (mut next, mut is_shared) = (BinaryHeap::new(), HashMap::new());
    for (commits, shared) in [(&[base][..], false), (shared, true)] {
        for at in commits {
            if is_shared.insert(*at, shared).is_none() {
                next.push((generation(at), *at));
            }
        }
    }
    let (mut count, mut open) = (0, next.iter().filter(|(_, at)| is_shared.get(at) == Some(&false)).count());
    while open > 0 && count <= at_most {
        let Some((_, at)) = next.pop() else { break };
        let shared = is_shared.get(&at).copied().unwrap_or_default();
        if !shared {
            open -= 1;
            count += 1;
        }
        for parent in history.get(&at).into_iter().flat_map(|ancestor| ancestor.parents.all()) {
            match is_shared.insert(parent, shared || is_shared.get(&parent) == Some(&true)) {
                None => {
                    next.push((generation(&parent), parent));
                    open += usize::from(!shared);
                }
                Some(false) if shared => open -= 1,
                Some(_) => {}
            }
        }
    }
    count
}

/// Returns `true` if the time is over. Looks at the clock from time to time.
fn is_over(until: Instant, steps: usize) -> bool {
    steps.is_multiple_of(64) && Instant::now() >= until
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

    /// Returns the commits that begin with these digits among `heads` and their ancestors, at most `at_most` of them, or `None` if the
    /// time is over; what was looked up until then is remembered.
    ///
    /// # Errors
    /// The error of `parents_of`.
    pub fn with_prefix<E>(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        prefix: &CommitPrefix,
        at_most: usize,
        until: Instant,
        parents_of: &mut ParentsOf<'_, E>,
    ) -> Result<Option<Vec<CommitHash>>, E> {
        let (mut next, mut seen, mut found) = (VecDeque::new(), HashSet::new(), Vec::new());
        next.extend(heads.iter().map(ChunkHash::from));
        while let Some(at) = next.pop_front() {
            if !seen.insert(at) {
                continue;
            }
            if is_over(until, seen.len()) {
                return Ok(None);
            }
            let Some(parents) = self.parents(database, at, parents_of)? else { continue };
            next.extend(parents.all());
            let commit = at.as_commit();
            if prefix.begins(&commit) {
                found.push(commit);
                if found.len() == at_most {
                    break;
                }
            }
        }
        Ok(Some(found))
    }

    /// Returns for each of `heads` how many commits it reaches that `base` does not, and the other way round, each counted up to
    /// `at_most` + 1. Returns `None` for what is not counted when the time is over; what was looked up until then is remembered.
    ///
    /// # Errors
    /// The error of `parents_of`.
    pub fn ahead_behind<E>(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        heads: &[CommitHash],
        at_most: usize,
        until: Instant,
        parents_of: &mut ParentsOf<'_, E>,
    ) -> Result<Vec<Option<(usize, usize)>>, E> {
        let mut counted = vec![None; heads.len()];
        let base = ChunkHash::from(base);
        let Some(history) = self.history(database, base, until, parents_of)? else { return Ok(counted) };
        for (head, counted) in heads.iter().zip(&mut counted) {
            let (mut ahead, mut shared, mut next, mut seen) = (0, Vec::new(), vec![head.into()], HashSet::new());
            while let Some(at) = next.pop() {
                if !seen.insert(at) {
                    continue;
                }
                if history.contains_key(&at) {
                    shared.push(at);
                    continue;
                }
                ahead += 1;
                if is_over(until, ahead) {
                    break;
                }
                if let Some(parents) = self.parents(database, at, parents_of)? {
                    next.extend(parents.all());
                }
            }
            if Instant::now() >= until {
                break;
            }
            *counted = Some((ahead.min(at_most + 1), behind(&history, base, &shared, at_most)));
        }
        Ok(counted)
    }

    /// Returns all ancestors of a commit and the commit itself, or `None` if the time is over.
    fn history<E>(
        &self,
        database: DatabaseId,
        head: ChunkHash,
        until: Instant,
        parents_of: &mut ParentsOf<'_, E>,
    ) -> Result<Option<History>, E> {
        let (mut history, mut next) = (History::new(), vec![head]);
        while let Some(at) = next.pop() {
            if history.contains_key(&at) {
                continue;
            }
            if is_over(until, history.len()) {
                return Ok(None);
            }
            let parents = self.parents(database, at, parents_of)?.unwrap_or_default();
            next.extend(parents.all());
            history.insert(at, Ancestor { parents, generation: 0 });
        }
        number(&mut history, head);
        Ok(Some(history))
    }

    fn parents<E>(
        &self,
        database: DatabaseId,
        at: ChunkHash,
        parents_of: &mut ParentsOf<'_, E>,
    ) -> Result<Option<Parents>, E> {
        match self.kept(database, &at) {
            Some(parents) => Ok(Some(parents)),
            None => Ok(parents_of(&at.as_commit())?.map(|parents| self.keep(database, at, &parents))),
        }
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

    /// Looks for digits in the history of 10,000 commits, which a page waits for.
    #[test]
    fn commits_are_found_by_their_first_digits() {
        let ancestry = Ancestry::default();
        let line = |at: &CommitHash| -> Result<_, Infallible> {
            let n = u32::from_str_radix(&at.as_str()[32..], 16).unwrap();
            Ok(Some(n.checked_sub(1).map(commit).into_iter().collect()))
        };
        let find = |head: u32, digits: &str, until: Instant| {
            let prefix = CommitPrefix::parse(digits).unwrap();
            ancestry.with_prefix(id(), &[commit(head)], &prefix, 10, until, &mut { line }).unwrap()
        };
        let soon = || Instant::now() + std::time::Duration::from_secs(60);
        assert_eq!(find(10_000, &commit(5).as_str()[..8], Instant::now()), None, "the time is over");
        assert_eq!(find(10_000, &commit(5).as_str()[..8], soon()), Some(vec![commit(5)]));
        let began = Instant::now();
        assert_eq!(find(10_000, "fffffff", soon()), Some(vec![]));
        assert!(began.elapsed() < std::time::Duration::from_millis(200), "{:?}", began.elapsed());
        assert_eq!(find(4, &commit(5).as_str()[..8], soon()), Some(vec![]), "not behind this head");
    }

    /// Counts in graphs with merges, and compares with sets of all ancestors.
    #[test]
    fn ahead_and_behind_are_differences_of_histories() {
        let (mut state, size) = (7_u32, 400);
        let mut random = |end: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % end
        };
        let parents: Vec<Vec<u32>> = (0..size)
            .map(|n| match n {
                0 => vec![],
                n if random(4) == 0 => vec![n - 1 - random(n.min(30)), n - 1 - random(n.min(90))],
                n => vec![n - 1 - random(n.min(5))],
            })
            .collect();
        let reach = |head: u32| {
            let (mut all, mut next) = (HashSet::new(), vec![head]);
            while let Some(at) = next.pop() {
                if all.insert(at) {
                    next.extend(&parents[at as usize]);
                }
            }
            all
        };
        let numbers: HashMap<CommitHash, u32> = (0..size).map(|n| (commit(n), n)).collect();
        let mut of = |at: &CommitHash| -> Result<_, Infallible> {
            Ok(numbers.get(at).map(|n| parents[*n as usize].iter().copied().map(commit).collect()))
        };
        let ancestry = Ancestry::default();
        let late = || Instant::now() + std::time::Duration::from_secs(60);
        for base in [size - 1, size / 2, 3] {
            let heads: Vec<u32> = (0..size).step_by(13).collect();
            let hashes: Vec<_> = heads.iter().copied().map(commit).collect();
            for at_most in [1_000, 5] {
                let counted = ancestry.ahead_behind(id(), &commit(base), &hashes, at_most, late(), &mut of).unwrap();
                for (head, counted) in heads.iter().zip(counted) {
                    let (ours, theirs) = (reach(*head), reach(base));
                    let capped = |count: usize| count.min(at_most + 1);
                    let expected = (capped(ours.difference(&theirs).count()), capped(theirs.difference(&ours).count()));
                    assert_eq!(counted, Some(expected), "{head} and {base} of at most {at_most}");
                }
            }
        }
        let none = ancestry.ahead_behind(id(), &commit(9), &[commit(3)], 9, Instant::now(), &mut of).unwrap();
        assert_eq!(none, [None]);
    }
}
