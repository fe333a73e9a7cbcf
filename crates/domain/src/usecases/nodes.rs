//! Administration of the nodes of a cluster.

use std::sync::Arc;

use super::{Collections, Dispatch, Inner, Operations};
use crate::access::ServerAdmin;
use crate::entities::{Node, StoredObjects};
use crate::errors::{NodeError, PortError};
use crate::ports::Cluster;

/// A cluster as administrators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// All nodes, by id.
    pub nodes: Vec<Node>,
    /// The id of the node that answers. `None` if this process is no node.
    pub own_node: Option<String>,
    /// The objects of all databases.
    pub objects: StoredObjects,
    /// Whether the metadata were found to be older than the objects. Nothing can be changed then.
    pub is_read_only: bool,
}

/// Use cases on the nodes of a cluster, for administrators of the server.
pub struct Nodes<'a>(&'a Inner);

impl<'a> Nodes<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the nodes and their store, or `None` if there is no cluster.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn view(&self, _proof: &ServerAdmin) -> Result<Option<ClusterView>, PortError> {
        let Some(cluster) = &self.0.ports.cluster else { return Ok(None) };
        Ok(Some(ClusterView {
            nodes: cluster.nodes()?,
            own_node: cluster.own_node(),
            objects: cluster.stored_objects()?,
            is_read_only: self.0.is_read_only.load(std::sync::atomic::Ordering::Relaxed),
        }))
    }

    /// Returns all nodes, by id. There are none without a cluster.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn list(&self, _proof: &ServerAdmin) -> Result<Vec<Node>, PortError> {
        Ok(self.0.ports.cluster.as_ref().map_or(Ok(Vec::new()), |cluster| cluster.nodes())?)
    }

    /// Drains a node: other nodes write its databases and run its operations, also after it was started again. Returns the node. Has
    /// no effect on one that is drained.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn drain(&self, _proof: &ServerAdmin, id: &str) -> Result<Node, NodeError> {
        Ok(self.cluster()?.drain(id)?)
    }

    /// Ends the drain of a node, if it is drained. Returns the node.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn end_drain(&self, _proof: &ServerAdmin, id: &str) -> Result<Node, NodeError> {
        Ok(self.cluster()?.end_drain(id)?)
    }

    /// Removes a node whose server has ended for good. What it ran runs elsewhere. Returns the number of these operations.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn remove(&self, _proof: &ServerAdmin, id: &str) -> Result<u64, NodeError> {
        let cluster = self.cluster()?;
        cluster.require_ended(id)?;
        // Other nodes do this too, if there is one.
        let operations = self.recover_leases(id)?;
        cluster.remove(id)?;
        self.0.wake.all();
        Ok(operations)
    }

    /// Ends the leases of a process that has ended: what it ran may run elsewhere. Returns the number of operations. A process that
    /// goes on nevertheless learns at the end of each operation that it does not count.
    ///
    /// # Errors
    /// [`PortError`] if a store failed.
    pub fn recover_leases(&self, node: &str) -> Result<u64, PortError> {
        let operations = Operations::new(self.0).recover(node)?;
        Collections::new(self.0).recover(node)?;
        Dispatch::new(self.0).recover(node)?;
        Ok(operations)
    }

    fn cluster(&self) -> Result<&Arc<dyn Cluster>, NodeError> {
        self.0.ports.cluster.as_ref().ok_or(NodeError::NoCluster)
    }
}
