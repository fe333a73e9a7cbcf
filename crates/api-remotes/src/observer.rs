//! What the endpoints report to the metrics of the server.

use std::sync::Arc;

use crate::endpoint::RemoteEndpoint;

/// Receives what happens at the endpoints. A server puts one into the application's data.
pub trait RemoteObserver: Send + Sync {
    /// A request was answered with `outcome`: `ok`, or the code of its error.
    fn answered(&self, endpoint: RemoteEndpoint, outcome: &'static str);

    /// So many bytes of chunks are sent.
    fn sent(&self, bytes: u64);

    /// So many bytes of chunks were received.
    fn received(&self, bytes: u64);
}

/// The observer of a server, as it is found in the application's data.
pub(crate) type SharedObserver = Arc<dyn RemoteObserver>;
