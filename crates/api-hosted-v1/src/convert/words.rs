use branchyard_deployments::entities::{BackupKind, DeploymentRole, Health, Metered, RunState};
use branchyard_http_common::Words;

pub(crate) const STATES: &[(&str, RunState)] = &[
    ("starting", RunState::Starting),
    ("started", RunState::Started),
    ("stopping", RunState::Stopping),
    ("stopped", RunState::Stopped),
];

pub(crate) const ROLES: Words<DeploymentRole> = Words::inline(&[
    ("reader", DeploymentRole::Reader),
    ("reader_and_pulls", DeploymentRole::ReaderAndPulls),
    ("writer", DeploymentRole::Writer),
    ("admin", DeploymentRole::Admin),
]);

pub(crate) fn run_state(state: RunState) -> &'static str {
    match state {
        RunState::Starting => "starting",
        RunState::Started => "started",
        RunState::Stopping => "stopping",
        RunState::Stopped => "stopped",
    }
}

pub(super) fn role(role: DeploymentRole) -> &'static str {
    match role {
        DeploymentRole::Reader => "reader",
        DeploymentRole::ReaderAndPulls => "reader_and_pulls",
        DeploymentRole::Writer => "writer",
        DeploymentRole::Admin => "admin",
    }
}

pub(super) fn health(health: Health) -> &'static str {
    match health {
        Health::Ok => "ok",
        Health::Starting => "starting",
        Health::CrashLoop => "crash_loop",
        Health::DiskFull => "disk_full",
        Health::Stopping => "stopping",
        Health::Stopped => "stopped",
    }
}

pub(super) fn backup_kind(kind: BackupKind) -> &'static str {
    match kind {
        BackupKind::Nightly => "nightly",
        BackupKind::Manual => "manual",
        BackupKind::Final => "final",
    }
}

pub(super) fn metered(kind: Metered) -> &'static str {
    match kind {
        Metered::Compute => "compute",
        Metered::Storage => "storage",
    }
}
