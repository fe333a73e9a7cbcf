//! Pages of commit histories.

use std::collections::HashSet;

use super::Commit;
use crate::values::CommitHash;

/// A position in a commit history: the commits reachable from `from`, children before parents, that come after
/// `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The first commit of the history.
    pub from: CommitHash,
    /// The last commit to skip. `None` starts at `from`.
    pub after: Option<CommitHash>,
}

impl From<CommitHash> for LogPosition {
    fn from(from: CommitHash) -> Self {
        Self { from, after: None }
    }
}

/// A commit of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The commit.
    pub commit: Commit,
    /// A position from which the history can be continued after this commit, as near to the commit as possible.
    pub next: LogPosition,
}

/// A walk along a history that finds cheap positions to continue from.
///
/// If all remaining commits are reachable from a single commit, the history can be continued from that commit without
/// passing earlier commits again. In a linear history, every commit is such a commit. In between, the history can
/// only be continued from the last such commit.
#[derive(Debug)]
pub struct LogWalk {
    /// Commits that have not been passed and are parents of passed commits.
    waiting: HashSet<CommitHash>,
    from: CommitHash,
}

impl LogWalk {
    /// Starts a walk at `from`.
    pub fn new(from: &CommitHash) -> Self {
        Self { waiting: HashSet::from([from.clone()]), from: from.clone() }
    }

    /// Passes the next commit, children before parents. Returns the position after that commit.
    pub fn pass(&mut self, commit: &CommitHash, parents: &[CommitHash]) -> LogPosition {
        self.waiting.remove(commit);
        self.waiting.extend(parents.iter().cloned());
        match self.waiting.iter().next() {
            Some(only) if self.waiting.len() == 1 => {
                self.from = only.clone();
                LogPosition { from: only.clone(), after: None }
            }
            _ => LogPosition { from: self.from.clone(), after: Some(commit.clone()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogPosition, LogWalk};
    use crate::values::CommitHash;

    fn hash(digit: char) -> CommitHash {
        CommitHash::parse(&digit.to_string().repeat(40)).unwrap()
    }

    #[test]
    fn a_line_goes_on_at_the_parent_and_a_merge_at_its_last_waist() {
        let mut walk = LogWalk::new(&hash('f'));
        let mut pass = |commit, parents: &[char]| {
            let parents: Vec<CommitHash> = parents.iter().copied().map(hash).collect();
            walk.pass(&hash(commit), &parents)
        };
        let at = |from, after: Option<char>| LogPosition { from: hash(from), after: after.map(hash) };
        assert_eq!(pass('f', &['e']), at('e', None));
        assert_eq!(pass('e', &['c', 'd']), at('e', Some('e')));
        assert_eq!(pass('d', &['b']), at('e', Some('d')));
        assert_eq!(pass('c', &['b']), at('b', None));
        assert_eq!(pass('b', &['a']), at('a', None));
        assert_eq!(pass('a', &[]), at('a', Some('a')), "the end");
    }
}
