//! Metrics of operations.

use branchyard_domain::entities::OperationKind;
use branchyard_domain::usecases::Ended;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::{Histograms, Labels, seconds};

const KINDS: [OperationKind; 9] = [
    OperationKind::SqlWrite,
    OperationKind::Merge,
    OperationKind::Fork,
    OperationKind::Import,
    OperationKind::Purge,
    OperationKind::Push,
    OperationKind::MirrorSync,
    OperationKind::Restore,
    OperationKind::Edit,
];
const ENDS: [Ended; 3] = [Ended::Succeeded, Ended::Failed, Ended::Unsettled];

/// Metrics of operation runs.
pub(crate) struct OperationMetrics {
    runs: Family<Labels<2>, Counter>,
    duration: Histograms<1>,
}

impl OperationMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self { runs: Family::default(), duration: Family::new_with_constructor(seconds) };
        for kind in KINDS {
            drop(made.duration.get_or_create(&[labelled(kind)]));
            for ended in ENDS {
                drop(made.runs.get_or_create(&[labelled(kind), ("outcome", outcome_word(ended).to_owned())]));
            }
        }
        registry.register("operation_runs", "Runs of operations that ended", made.runs.clone());
        registry.register_with_unit(
            "operation_run_duration",
            "Duration of runs of operations",
            Unit::Seconds,
            made.duration.clone(),
        );
        made
    }

    pub(crate) fn ran(&self, kind: OperationKind, ended: Ended, seconds: f64) {
        self.runs.get_or_create(&[labelled(kind), ("outcome", outcome_word(ended).to_owned())]).inc();
        self.duration.get_or_create(&[labelled(kind)]).observe(seconds);
    }
}

fn labelled(kind: OperationKind) -> (&'static str, String) {
    ("kind", kind_word(kind).to_owned())
}

/// Returns the word for a kind of operations, in metrics and in the log.
pub(crate) fn kind_word(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::SqlWrite => "sql_write",
        OperationKind::Merge => "merge",
        OperationKind::Fork => "fork",
        OperationKind::Import => "import",
        OperationKind::Purge => "purge",
        OperationKind::Push => "push",
        OperationKind::MirrorSync => "mirror_sync",
        OperationKind::Restore => "restore",
        OperationKind::Edit => "edit",
    }
}

/// Returns the word for the outcome of a run, in metrics and in the log.
pub(crate) fn outcome_word(ended: Ended) -> &'static str {
    match ended {
        Ended::Succeeded => "succeeded",
        Ended::Failed => "failed",
        Ended::Unsettled => "unsettled",
    }
}
