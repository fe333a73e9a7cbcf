//! Metrics of fetches for pull requests, and of merge previews computed in the background.

use std::time::Duration;

use branchyard_domain::usecases::Refreshed;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::{Histograms, Labels, seconds};

const KINDS: [&str; 2] = ["fetch", "trial_merge"];

/// Metrics of the threads that work for pull requests.
pub(crate) struct PullMetrics {
    jobs: Family<Labels<1>, Counter>,
    duration: Histograms<1>,
}

impl PullMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self { jobs: Family::default(), duration: Family::new_with_constructor(seconds) };
        for outcome in ["fetched", "fetch_failed", "prepared", "prepare_failed", "dropped"] {
            drop(made.jobs.get_or_create(&[("outcome", outcome.to_owned())]));
        }
        for kind in KINDS {
            drop(made.duration.get_or_create(&[("kind", kind.to_owned())]));
        }
        registry.register("pull_jobs", "Jobs for pull requests that ended", made.jobs.clone());
        let (name, help) = ("pull_job_duration", "Duration of jobs for pull requests");
        registry.register_with_unit(name, help, Unit::Seconds, made.duration.clone());
        made
    }

    pub(crate) fn refreshed(&self, ended: &Refreshed, took: Duration) {
        let [fetch, trial] = KINDS;
        let (outcome, kind) = match ended {
            Refreshed::Fetched => ("fetched", Some(fetch)),
            Refreshed::Failed(_) => ("fetch_failed", Some(fetch)),
            Refreshed::Prepared => ("prepared", Some(trial)),
            Refreshed::PrepareFailed(_) => ("prepare_failed", Some(trial)),
            Refreshed::Dropped => ("dropped", None),
        };
        self.jobs.get_or_create(&[("outcome", outcome.to_owned())]).inc();
        if let Some(kind) = kind {
            self.duration.get_or_create(&[("kind", kind.to_owned())]).observe(took.as_secs_f64());
        }
    }
}
