use branchyard_deployments::entities::{Backup, Deployment, DeploymentCollaborator, Instance, RunState};
use branchyard_deployments::values::Usd;
use branchyard_deployments::{DeploymentView, ServedDatabase, SettingView};
use branchyard_http_common::rfc3339;

use super::number;
use super::words::{backup_kind, health, role, run_state};
use crate::Settings;
use crate::wire;

pub(crate) fn summary(view: &DeploymentView) -> wire::DeploymentSummary {
    let DeploymentView { deployment, primary, last_backup, .. } = view;
    wire::DeploymentSummary {
        owner: deployment.locator.owner.to_string(),
        name: deployment.locator.name.to_string(),
        state: run_state(deployment.state),
        cloud: deployment.cloud.clone(),
        zone: deployment.zone.clone(),
        cluster_type: "dolt",
        instance_type_name: primary.size.type_name.clone(),
        volume_type_name: primary.size.volume_type_name.clone(),
        volume_size_gb: primary.size.volume_gb,
        replicas: 0,
        database_version: deployment.database_version.clone(),
        hourly_cost_usd: number(view.hourly_cost),
        webpki_cert: deployment.public_tls,
        last_backup_size_bytes: last_backup.as_ref().map(Backup::size_bytes),
        last_backup_time: last_backup.as_ref().map(|backup| rfc3339(backup.id.time())),
        health: health(view.health()),
    }
}

pub(crate) fn deployment(view: &DeploymentView, settings: &Settings) -> wire::Deployment {
    let DeploymentView { deployment, primary, .. } = view;
    let origin = deployment.origin.as_ref().map(|origin| wire::DeploymentOrigin {
        owner: origin.database.owner.to_string(),
        name: origin.database.name.to_string(),
        reference: origin.reference.clone(),
        commit_sha: origin.commit.to_string(),
    });
    wire::Deployment {
        owner: deployment.locator.owner.to_string(),
        name: deployment.locator.name.to_string(),
        state: run_state(deployment.state),
        cloud: deployment.cloud.clone(),
        zone: deployment.zone.clone(),
        cluster_type: "dolt",
        instance_type_name: primary.size.type_name.clone(),
        volume_type_name: primary.size.volume_type_name.clone(),
        volume_size_gb: primary.size.volume_gb,
        replicas: 0,
        database_version: deployment.database_version.clone(),
        hourly_cost_usd: number(view.hourly_cost),
        webpki_cert: deployment.public_tls,
        host: primary.host.clone().unwrap_or_default(),
        port: primary.port,
        expose_remotesapi_endpoint: false,
        expose_mcp: false,
        expose_stats: deployment.expose_stats,
        disable_automatic_dolt_updates: deployment.keeps_version,
        caller_role: role(view.role),
        created_by: deployment.created_by.to_string(),
        created_at: rfc3339(deployment.created_at),
        disabled_at: deployment.disabled.as_ref().map(|(at, _)| rfc3339(*at)),
        disabled_by: deployment.disabled.as_ref().map(|(_, by)| by.to_string()),
        id: deployment.id.to_string(),
        url: settings.of_instance(&deployment.locator, primary).unwrap_or_default(),
        direct_url: Settings::direct(primary).unwrap_or_default(),
        protocol: "hrana-http",
        databases: deployment.databases.iter().map(ToString::to_string).collect(),
        origin,
        health: health(view.health()),
        last_error: deployment.last_error.clone(),
    }
}

pub(crate) fn state_of(deployment: &Deployment) -> wire::DeploymentState {
    wire::DeploymentState {
        owner: deployment.locator.owner.to_string(),
        name: deployment.locator.name.to_string(),
        state: run_state(deployment.state),
    }
}

pub(crate) fn instance(instance: &Instance) -> wire::DeploymentInstance {
    let cost = match instance.state {
        RunState::Stopped => Usd::ZERO,
        _ => instance.size.rate(),
    };
    wire::DeploymentInstance {
        id: instance.id.to_string(),
        index: instance.index,
        is_primary: instance.index == 0,
        state: run_state(instance.state),
        host: instance.host.clone(),
        instance_type_name: instance.size.type_name.clone(),
        volume_type_name: instance.size.volume_type_name.clone(),
        volume_size_gb: instance.size.volume_gb,
        hourly_cost_usd: number(cost),
        port: instance.port,
        url: Settings::direct(instance),
        restarts: instance.restarts,
        started_at: instance.started_at.map(rfc3339),
    }
}

pub(crate) fn backup(backup: &Backup) -> wire::Backup {
    let heads = backup.databases.iter().flat_map(|database| {
        database.heads.iter().map(|(branch, commit)| wire::BackupHead {
            database: database.name.to_string(),
            branch: branch.to_string(),
            commit_sha: commit.to_string(),
        })
    });
    wire::Backup {
        id: backup.id.to_string(),
        databases: backup.databases.iter().map(|database| database.name.to_string()).collect(),
        size_bytes: backup.size_bytes(),
        instance_index: 0,
        created_at: rfc3339(backup.id.time()),
        kind: backup_kind(backup.kind),
        expires_at: Some(rfc3339(backup.expires_at)),
        heads: heads.collect(),
    }
}

pub(crate) fn config(views: &[SettingView]) -> wire::DeploymentConfig {
    let settings = views.iter().map(|view| wire::DeploymentSetting {
        key: view.setting.key(),
        value: view.value.clone(),
        default: view.setting.default_value(),
        is_overridden: view.is_overridden,
        pending_restart: view.pending_restart,
        description: view.setting.description(),
    });
    wire::DeploymentConfig { settings: settings.collect() }
}

pub(crate) fn collaborator(collaborator: &DeploymentCollaborator) -> wire::Collaborator {
    wire::Collaborator {
        username: collaborator.username.to_string(),
        role: role(collaborator.role),
        added_at: rfc3339(collaborator.added_at),
    }
}

pub(crate) fn database(
    served: &ServedDatabase,
    view: &DeploymentView,
    settings: &Settings,
) -> wire::DeploymentDatabase {
    let url = settings.of_instance(&view.deployment.locator, &view.primary).unwrap_or_default();
    wire::DeploymentDatabase {
        name: served.name.to_string(),
        is_default: served.is_default,
        size_bytes: served.size_bytes,
        url: if url.is_empty() { url } else { format!("{url}db/{}/", served.name) },
    }
}
