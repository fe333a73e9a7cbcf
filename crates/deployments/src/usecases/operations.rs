//! Operations of deployments: accepting, finding and listing them.

use super::DeploymentsInner;
use super::{Deployments, live, role_of};
use crate::access::{DeploymentAccess, DeploymentLevel, Manage};
use crate::entities::{Deployment, DeploymentOperation, DeploymentProgress, DeploymentRole, DeploymentWork, RunState};
use crate::errors::DeploymentError;
use crate::ports::DeploymentOperationFilter;
use crate::ports::DeploymentTransaction;
use branchyard_domain::entities::User;
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Durability, WriteKeys};
use branchyard_domain::usecases::IdempotencyRecord;
use branchyard_domain::values::{OperationId, Timestamp};

/// Retention of settled operations in seconds.
pub(super) const KEPT_SECONDS: i64 = 30 * 86_400;
/// Maximum number of unsettled operations of a deployment.
const MOST_PENDING: usize = 100;

/// Adds a queued operation.
pub(super) fn accept(
    inner: &DeploymentsInner,
    tx: &mut dyn DeploymentTransaction,
    deployment: &Deployment,
    user: &User,
    work: DeploymentWork,
    now: Timestamp,
) -> Result<DeploymentOperation, DeploymentError> {
    if tx.deployment_operations().pending(deployment.id)?.len() >= MOST_PENDING {
        let text =
            format!("{MOST_PENDING} operations are waiting on this deployment; try again when some have finished");
        return Err(DeploymentError::Conflict(text));
    }
    let operation = DeploymentOperation {
        id: OperationId::from_uuid(inner.ports.ids.uuid(now)),
        deployment_id: deployment.id,
        locator: deployment.locator.clone(),
        work,
        progress: DeploymentProgress::Queued,
        created_by: user.id,
        created_by_name: user.name.clone(),
        created_at: now,
        updated_at: None,
    };
    tx.deployment_operations().add(&operation)?;
    Ok(operation)
}

impl Deployments {
    /// Returns an operation. Its creator and every user with a role on the deployment may read the operation. After the
    /// deployment is removed, only the creator and the administrators of the owner may.
    ///
    /// # Errors
    /// [`DeploymentError::NoSuchOperation`] if the operation does not exist or the caller may not read it.
    pub fn operation(&self, user: &User, id: &str) -> Result<DeploymentOperation, DeploymentError> {
        let id = OperationId::parse(id).map_err(|_| DeploymentError::NoSuchOperation)?;
        let mut tx = self.0.ports.store.read_deployments()?;
        let operation = tx.deployment_operations().get(id)?.ok_or(DeploymentError::NoSuchOperation)?;
        let deployment = tx.deployments().get(operation.deployment_id)?;
        let deployment = deployment.ok_or(PortError::Unsettled("an operation without its deployment"))?;
        let role = role_of(tx.as_mut(), user.id, deployment.owner_id, deployment.id)?;
        let readable = match deployment.removed_at {
            None => role.is_some(),
            Some(_) => role == Some(DeploymentRole::Admin),
        };
        if readable || operation.created_by == user.id { Ok(operation) } else { Err(DeploymentError::NoSuchOperation) }
    }

    /// Returns the operations of a deployment, newest first, starting after `before`.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn operations<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
        filter: DeploymentOperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<DeploymentOperation>, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        Ok(tx.deployment_operations().list(access.deployment().id, filter, before, limit)?)
    }

    /// Accepts the removal of a stopped deployment, and hides the deployment at once.
    ///
    /// # Errors
    /// [`DeploymentError::Conflict`] unless the deployment is stopped.
    pub fn delete(
        &self,
        access: &DeploymentAccess<Manage>,
        once: Option<&IdempotencyRecord<'_, DeploymentOperation>>,
    ) -> Result<DeploymentOperation, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        if deployment.state != RunState::Stopped {
            let text = format!("{} is not stopped; disable it first, and wait until it is", deployment.locator);
            return Err(DeploymentError::Conflict(text));
        }
        deployment.removed_at = Some(now);
        super::update(tx.as_mut(), &mut deployment)?;
        let operation = accept(&self.0, tx.as_mut(), &deployment, access.who(), DeploymentWork::Delete, now)?;
        self.0.hub.keep_answer(tx.as_mut(), once, &operation, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(operation)
    }
}
