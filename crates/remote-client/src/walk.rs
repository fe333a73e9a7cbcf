//! The way from commits to everything below them.

use std::collections::HashSet;

use branchyard_remote_protocol::{Hash, MOST_HASHES, Malformed, NO_HASH, layout};

/// Number of chunks that are asked for at once if many wait. Nodes have children, and fewer nodes have fewer.
const FEW: usize = 256;
/// Number of waiting chunks from which on few are asked for at once.
const MANY: usize = 100_000;
/// Maximum number of waiting chunks. Databases stay far below it, because what was found last is asked for first.
const MOST: usize = 2_000_000;

/// What a chunk has to be, by the place that it was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Commit,
    Catalog,
    /// A node of any level.
    Root,
    /// A node of this level.
    Node(u8),
}

/// The chunks that are known by their hashes and were not asked for yet.
pub(crate) struct Walk {
    seen: HashSet<Hash>,
    commits: Vec<Hash>,
    content: Vec<(Hash, Place)>,
}

impl Walk {
    pub(crate) fn from(tips: &[Hash]) -> Self {
        let mut walk = Self { seen: HashSet::new(), commits: Vec::new(), content: Vec::new() };
        tips.iter().for_each(|tip| walk.add(*tip, Place::Commit));
        walk
    }

    /// Returns the number of chunks that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.commits.len() + self.content.len()
    }

    /// Returns the chunks to ask for next, or none if there are no more. Commits come first: a history needs one request after
    /// another, and the trees are fetched along with it.
    pub(crate) fn next(&mut self) -> Vec<(Hash, Place)> {
        let most = if self.waiting() > MANY { FEW } else { MOST_HASHES };
        let commits = self.commits.len().saturating_sub(most);
        let mut next: Vec<_> = self.commits.drain(commits..).map(|hash| (hash, Place::Commit)).collect();
        let content = self.content.len().saturating_sub(most - next.len());
        next.extend(self.content.drain(content..));
        next
    }

    /// Adds what a chunk names.
    pub(crate) fn follow(&mut self, chunk: &[u8], place: Place) -> Result<(), Malformed> {
        match place {
            Place::Commit => {
                let commit = layout::commit(chunk)?;
                commit.parents.iter().for_each(|parent| self.add(*parent, Place::Commit));
                self.add(commit.catalog, Place::Catalog);
            }
            Place::Catalog => layout::catalog(chunk)?.into_iter().for_each(|root| self.add(root, Place::Root)),
            Place::Root | Place::Node(_) => {
                let node = layout::node(chunk)?;
                if matches!(place, Place::Node(level) if level != node.level) {
                    return Err(Malformed("the node has a wrong level"));
                }
                if let Some(below) = node.level.checked_sub(1) {
                    node.children.iter().for_each(|child| self.add(*child, Place::Node(below)));
                }
            }
        }
        if self.waiting() > MOST { Err(Malformed("too many chunks are named")) } else { Ok(()) }
    }

    fn add(&mut self, hash: Hash, place: Place) {
        if hash == NO_HASH || !self.seen.insert(hash) {
            return;
        }
        match place {
            Place::Commit => self.commits.push(hash),
            other => self.content.push((hash, other)),
        }
    }
}
