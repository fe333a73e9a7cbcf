//! The begin of a shutdown. The supervisor does the rest.

use super::update;
use crate::entities::{
    Deployment, DeploymentFailure, DeploymentFailureKind, DeploymentProgress, Instance, RunState, Shutdown,
};
use crate::errors::DeploymentError;
use crate::ports::DeploymentTransaction;
use branchyard_domain::errors::PortError;
use branchyard_domain::values::Timestamp;

/// Returns the error for a call that needs a settled state.
pub(super) fn not_settled(deployment: &Deployment) -> DeploymentError {
    let what = match (deployment.state, &deployment.last_error) {
        (RunState::Stopping, Some(error)) => format!("its final backup is not done yet ({error})"),
        (RunState::Stopping, None) => "it is stopping".to_owned(),
        (RunState::Starting, _) => "it is starting".to_owned(),
        (RunState::Started | RunState::Stopped, _) => "its state just changed".to_owned(),
    };
    DeploymentError::Conflict(format!("{} is not settled: {what}; wait and try again", deployment.locator))
}

/// Begins a shutdown: fails the queued operations and moves the instance to [`RunState::Stopping`].
pub(super) fn begin(
    tx: &mut dyn DeploymentTransaction,
    deployment: &mut Deployment,
    instance: &mut Instance,
    shutdown: Shutdown,
    now: Timestamp,
) -> Result<(), PortError> {
    for mut operation in tx.deployment_operations().pending(deployment.id)? {
        if operation.progress == DeploymentProgress::Queued {
            let text = "the deployment was shut down before this operation began";
            let failure = DeploymentFailure::new(DeploymentFailureKind::Failed, "DISABLED", text);
            operation.progress = DeploymentProgress::Failed(failure);
            operation.updated_at = Some(now);
            tx.deployment_operations().update(&operation)?;
        }
    }
    go(deployment, instance, RunState::Stopping)?;
    instance.shutdown = Some(shutdown);
    tx.instances().update(instance)?;
    update(tx, deployment)
}

/// Changes the state of a deployment together with its primary.
pub(super) fn go(deployment: &mut Deployment, instance: &mut Instance, to: RunState) -> Result<(), PortError> {
    let moved = deployment.state.go(to).and_then(|()| instance.state.go(to));
    moved.map_err(|_| PortError::Unsettled("the state of a deployment"))
}
