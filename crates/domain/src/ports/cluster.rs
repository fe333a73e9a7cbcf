//! The cluster port: the nodes that share a metadata store and a store of databases, for administrators.

use super::MetadataError;
use crate::entities::{Node, StoredObjects};

/// Why a change of a node was refused.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no such node.
    #[error("there is no node '{id}'; {}", known_nodes(.known))]
    NoSuchNode {
        /// The id.
        id: String,
        /// The ids of all nodes.
        known: Vec<String>,
    },
    /// All other nodes have ended or are drained.
    #[error("no node but '{0}' is live and not drained, and all writes would wait: start another one first")]
    LastNode(String),
    /// The lease of the node holds.
    #[error("the node '{0}' is live: stop its server first. If it was killed, its lease ends within cluster.lease")]
    StillLive(String),
    /// The metadata store failed.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

fn known_nodes(known: &[String]) -> String {
    if known.is_empty() { "there are none".to_owned() } else { format!("there are: {}", known.join(", ")) }
}

/// The nodes of a cluster, and its store.
pub trait Cluster: Send + Sync {
    /// Returns the id of the node that this process is. `None` if it is none, like a command.
    fn own_node(&self) -> Option<String>;

    /// Returns all nodes, by id.
    ///
    /// # Errors
    /// [`MetadataError`].
    fn nodes(&self) -> Result<Vec<Node>, MetadataError>;

    /// Returns what is known of the objects in the store. Reads all rows of segments.
    ///
    /// # Errors
    /// [`MetadataError`].
    fn stored_objects(&self) -> Result<StoredObjects, MetadataError>;

    /// Drains a node: what it leads and runs goes to other nodes, also after it was started again. Returns the node. Has no effect on
    /// one that is drained.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`]; [`ClusterError::LastNode`]; [`ClusterError::Metadata`].
    fn drain(&self, id: &str) -> Result<Node, ClusterError>;

    /// Ends the drain of a node, if it is drained. Returns the node.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`]; [`ClusterError::Metadata`].
    fn end_drain(&self, id: &str) -> Result<Node, ClusterError>;

    /// Checks that there is a node of this id, and that its lease has ended.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`]; [`ClusterError::StillLive`]; [`ClusterError::Metadata`].
    fn require_ended(&self, id: &str) -> Result<(), ClusterError>;

    /// Removes a node whose lease has ended. If a server runs under this id later, it is a new node, which is not drained.
    ///
    /// What the node ran has to run elsewhere, which is to be seen to before.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`]; [`ClusterError::StillLive`]; [`ClusterError::Metadata`].
    fn remove(&self, id: &str) -> Result<(), ClusterError>;
}
