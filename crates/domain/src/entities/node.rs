//! The nodes of a cluster, and the objects of its store, as administrators see them.

use crate::values::Timestamp;

/// A server of a cluster. Times are those of the metadata store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node's id.
    pub id: String,
    /// The version of the program that it runs, or ran last.
    pub version: String,
    /// The address at which other nodes reach it, if it is known.
    pub address: Option<String>,
    /// When its last run began.
    pub started_at: Timestamp,
    /// When the lease of that run ends, or ended.
    pub lease_until: Timestamp,
    /// Whether that lease holds.
    pub is_live: bool,
    /// When the node was drained. `None` if it is not.
    pub drained_at: Option<Timestamp>,
    /// Number of databases whose leases it has.
    pub databases: u64,
    /// Its copies, as it measured them last. `None` until its present run has done so.
    pub copies: Option<NodeCopies>,
}

/// The copies of databases that a node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCopies {
    /// Number of copies.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that the copies may have; 0 means no limit.
    pub limit_bytes: u64,
    /// Copies that lack durable bytes of their database. The next read brings these.
    pub behind: u64,
    /// The bytes that they lack.
    pub behind_bytes: u64,
}

/// The state of a node. What has ended may be drained too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It may write databases.
    Live,
    /// It serves requests, and other nodes write its databases.
    Drained,
    /// Its lease has ended.
    Ended,
}

impl Node {
    /// Returns the state, and since when the node has it.
    pub fn state(&self) -> (NodeState, Timestamp) {
        match self.drained_at {
            _ if !self.is_live => (NodeState::Ended, self.lease_until),
            Some(at) => (NodeState::Drained, at),
            None => (NodeState::Live, self.started_at),
        }
    }
}

/// The objects of databases in the store of a cluster, as far as the metadata store knows of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredObjects {
    /// Segments of all databases.
    pub segments: u64,
    /// Durable bytes of all databases.
    pub bytes: u64,
    /// Segments of the database that has most of them. Compaction keeps the number low.
    pub most_segments: u64,
    /// Objects that wait to be deleted.
    pub doomed: u64,
    /// Those of them that the next collections delete.
    pub due: u64,
    /// Since when the first of them waits.
    pub doomed_since: Option<Timestamp>,
    /// When a collection ended last. `None` before the first one.
    pub collected_at: Option<Timestamp>,
}
