//! Collaborators of a deployment.

use super::account_of;
use super::{Deployments, forget_callers, live};
use crate::access::{DeploymentAccess, DeploymentLevel, Manage, Observe};
use crate::entities::{DeploymentCollaborator, DeploymentRole};
use crate::errors::DeploymentError;
use branchyard_domain::entities::User;
use branchyard_domain::ports::{Durability, WriteKeys};
use branchyard_domain::values::AccountId;

/// Maximum number of collaborators of a deployment.
const MOST: usize = 200;

fn absent(name: &str) -> DeploymentError {
    DeploymentError::Absent { what: "collaborator", name: name.to_owned() }
}

impl Deployments {
    /// Returns the collaborators, sorted by name.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn collaborators(
        &self,
        access: &DeploymentAccess<Manage>,
    ) -> Result<Vec<DeploymentCollaborator>, DeploymentError> {
        Ok(self.0.ports.store.read_deployments()?.deployment_collaborators().list(access.deployment().id)?)
    }

    /// Adds a collaborator or changes its role, effective from the next request. Returns the collaborator, and `true`
    /// if it was added.
    ///
    /// # Errors
    /// [`DeploymentError::Unprocessable`] if the user owns the deployment, or if the deployment already has 200
    /// collaborators.
    pub fn put_collaborator(
        &self,
        access: &DeploymentAccess<Manage>,
        user: &User,
        role: DeploymentRole,
    ) -> Result<(DeploymentCollaborator, bool), DeploymentError> {
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let deployment = live(tx.as_mut(), access)?;
        if deployment.owner_id == user.id {
            let text = format!("{} owns the deployment and already has full access", user.name);
            return Err(DeploymentError::Unprocessable(text));
        }
        let added = tx.deployment_collaborators().put(deployment.id, user.id, role, self.0.now())?;
        if added && tx.deployment_collaborators().list(deployment.id)?.len() > MOST {
            let text = format!("the deployment has reached the limit of {MOST} collaborators");
            return Err(DeploymentError::Unprocessable(text));
        }
        let found = tx.deployment_collaborators().get(deployment.id, user.id)?;
        let collaborator = found.ok_or_else(|| absent(user.name.as_str()))?;
        tx.commit(Durability::Synced)?;
        forget_callers(&self.0);
        Ok((collaborator, added))
    }

    /// Removes a collaborator by name, ignoring case, and returns its last state.
    ///
    /// # Errors
    /// [`DeploymentError::Absent`] if there is no such collaborator.
    pub fn remove_collaborator(
        &self,
        access: &DeploymentAccess<Manage>,
        name: &str,
    ) -> Result<DeploymentCollaborator, DeploymentError> {
        let account = account_of(self.0.ports.store.read_deployments()?.as_mut(), name)?.ok_or_else(|| absent(name))?;
        self.end(access, account.id, name)
    }

    /// Removes the caller from the collaborators and returns the last state.
    ///
    /// # Errors
    /// [`DeploymentError::Absent`] if the caller's role does not come from a collaboration.
    pub fn leave(&self, access: &DeploymentAccess<Observe>) -> Result<DeploymentCollaborator, DeploymentError> {
        self.end(access, access.who().id, access.who().name.as_str())
    }

    fn end<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
        user: AccountId,
        name: &str,
    ) -> Result<DeploymentCollaborator, DeploymentError> {
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let deployment = live(tx.as_mut(), access)?;
        let removed = tx.deployment_collaborators().remove(deployment.id, user)?.ok_or_else(|| absent(name))?;
        tx.commit(Durability::Synced)?;
        forget_callers(&self.0);
        Ok(removed)
    }
}
