//! Metrics of remotes.

use branchyard_api_remotes::{RemoteEndpoint, RemoteObserver};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Labels;

/// Metrics of clones and fetches.
#[derive(Clone)]
pub(crate) struct RemoteMetrics {
    requests: Family<Labels<2>, Counter>,
    sent: Counter,
}

impl RemoteMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let bytes = Family::<Labels<1>, Counter>::default();
        let sent = bytes.get_or_create(&[("direction", "sent".to_owned())]).clone();
        let made = Self { requests: Family::default(), sent };
        // Creates the series, so that counters start at 0 instead of being absent.
        for endpoint in RemoteEndpoint::ALL {
            made.count(endpoint, "ok", 0);
        }
        registry.register("remote_requests", "Requests of clients of the engine", made.requests.clone());
        registry.register("remote_bytes", "Bytes of chunks that clients of the engine received", bytes);
        made
    }

    fn count(&self, endpoint: RemoteEndpoint, outcome: &str, requests: u64) {
        let labels = [("endpoint", endpoint.name().to_owned()), ("outcome", outcome.to_owned())];
        self.requests.get_or_create(&labels).inc_by(requests);
    }
}

impl RemoteObserver for RemoteMetrics {
    fn answered(&self, endpoint: RemoteEndpoint, outcome: &'static str) {
        self.count(endpoint, outcome, 1);
    }

    fn sent(&self, bytes: u64) {
        self.sent.inc_by(bytes);
    }
}
