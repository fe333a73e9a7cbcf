use branchyard_deployments::entities::{
    DeploymentFailure, DeploymentFailureKind, DeploymentOperation, DeploymentProgress, DeploymentWork,
};
use branchyard_http_common::rfc3339;

use crate::Settings;
use crate::wire;

fn error(failure: &DeploymentFailure) -> wire::OperationError {
    let code = match failure.kind {
        DeploymentFailureKind::Expired => "EXPIRED",
        DeploymentFailureKind::Failed => "FAILED",
        DeploymentFailureKind::Internal => "INTERNAL",
    };
    wire::OperationError { code, reason: failure.reason.clone(), detail: failure.detail.clone() }
}

pub(crate) fn operation(operation: &DeploymentOperation) -> wire::Operation {
    let kind = match operation.work {
        DeploymentWork::RebootInstance(_) => "reboot_instance",
        DeploymentWork::CreateBackup => "create_backup",
        DeploymentWork::Delete => "delete_deployment",
    };
    let (status, failure, backup) = match &operation.progress {
        DeploymentProgress::Queued => ("queued", None, None),
        DeploymentProgress::Running => ("running", None, None),
        DeploymentProgress::Succeeded(backup) => ("succeeded", None, *backup),
        DeploymentProgress::Failed(failure) => ("failed", Some(failure), None),
    };
    wire::Operation {
        id: operation.id.to_string(),
        kind,
        status,
        cancelable: false,
        error: failure.map(error),
        created_at: rfc3339(operation.created_at),
        updated_at: operation.updated_at.map(rfc3339),
        deployment: wire::OperationDeployment {
            owner: operation.locator.owner.to_string(),
            name: operation.locator.name.to_string(),
        },
        created_by: operation.created_by_name.to_string(),
        result: backup.map(|backup| wire::OperationResult { backup_id: backup.to_string() }),
    }
}

pub(crate) fn operation_ref(operation: &DeploymentOperation, settings: &Settings) -> wire::OperationRef {
    let id = operation.id.to_string();
    wire::OperationRef { href: settings.operation(&id), id }
}
