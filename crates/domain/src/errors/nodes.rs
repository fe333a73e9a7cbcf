//! Errors of the administration of nodes.

use super::PortError;
use crate::ports::{ClusterError, MetadataError};

/// Errors of changes of nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The server is no node of a cluster.
    #[error(
        "this server is no node of a cluster: its databases are in its data folder. Nodes need a metadata_url on Postgres and a store_url"
    )]
    NoCluster,
    /// The node is not in a state that allows the change, or there is no such node.
    #[error(transparent)]
    Refused(ClusterError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl From<ClusterError> for NodeError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Metadata(error) => Self::Port(error.into()),
            refused => Self::Refused(refused),
        }
    }
}

impl From<MetadataError> for NodeError {
    fn from(error: MetadataError) -> Self {
        Self::Port(error.into())
    }
}
