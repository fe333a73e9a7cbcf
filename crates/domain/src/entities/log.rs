//! Histories, a page at a time.

use std::collections::HashSet;

use super::Commit;
use crate::values::CommitHash;

/// A place in the history of a commit: everything reachable from `from`, children before parents, after `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// Where the history begins.
    pub from: CommitHash,
    /// The last commit that is not wanted; `None` = from the start.
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
    /// Where the history goes on after it, as near as it can be begun.
    pub next: LogPosition,
}

/// Follows a history commit by commit and knows where to begin again.
///
/// Where all that is left is reachable from one commit, the history goes on at that commit, and what was passed need not be passed again: on a
/// line without side branches, that is everywhere. In between, it can be begun at the last such commit only.
#[derive(Debug)]
pub struct LogWalk {
    /// Parents of passed commits that were not passed themselves.
    waiting: HashSet<CommitHash>,
    from: CommitHash,
}

impl LogWalk {
    /// Begins at `from`.
    pub fn new(from: &CommitHash) -> Self {
        Self { waiting: HashSet::from([from.clone()]), from: from.clone() }
    }

    /// Passes the next commit, children before parents; gives where the history goes on after it.
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
