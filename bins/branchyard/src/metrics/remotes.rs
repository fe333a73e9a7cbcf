//! Metrics of remotes.

use std::time::Duration;

use branchyard_api_remotes::{RemoteEndpoint, RemoteObserver};
use branchyard_domain::usecases::PushPhase;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Histograms, Labels, seconds};

/// Metrics of clones, fetches and pushes.
#[derive(Clone)]
pub(crate) struct RemoteMetrics {
    requests: Family<Labels<2>, Counter>,
    sent: Counter,
    received: Counter,
    pushes: Histograms<1>,
}

const PHASES: [PushPhase; 4] = [PushPhase::Walk, PushPhase::Put, PushPhase::Check, PushPhase::Save];

fn labelled(phase: PushPhase) -> (&'static str, String) {
    let word = match phase {
        PushPhase::Walk => "walk",
        PushPhase::Put => "put",
        PushPhase::Check => "check",
        PushPhase::Save => "save",
    };
    ("phase", word.to_owned())
}

impl RemoteMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let bytes = Family::<Labels<1>, Counter>::default();
        let sent = bytes.get_or_create(&[("direction", "sent".to_owned())]).clone();
        let received = bytes.get_or_create(&[("direction", "received".to_owned())]).clone();
        let pushes = Family::new_with_constructor(seconds as fn() -> Histogram);
        let made = Self { requests: Family::default(), sent, received, pushes };
        for phase in PHASES {
            drop(made.pushes.get_or_create(&[labelled(phase)]));
        }
        // Creates the series, so that counters start at 0 instead of being absent.
        for endpoint in RemoteEndpoint::ALL {
            made.count(endpoint, "ok", 0);
        }
        registry.register("remote_requests", "Requests of clients of the engine", made.requests.clone());
        registry.register("remote_bytes", "Bytes of chunks, to and from clients of the engine", bytes);
        registry.register_with_unit(
            "remote_push",
            "Duration of the parts of pushes",
            Unit::Seconds,
            made.pushes.clone(),
        );
        made
    }

    /// A part of a push has ended.
    pub(crate) fn pushed(&self, phase: PushPhase, took: Duration) {
        self.pushes.get_or_create(&[labelled(phase)]).observe(took.as_secs_f64());
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

    fn received(&self, bytes: u64) {
        self.received.inc_by(bytes);
    }

    fn sent(&self, bytes: u64) {
        self.sent.inc_by(bytes);
    }
}
