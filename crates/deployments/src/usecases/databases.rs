//! Databases of a deployment.

use super::create::{DeploymentSource, resolve, too_small};
use super::{Deployments, here, live, primary, update};
use crate::access::{DeploymentAccess, DeploymentLevel, Manage};
use crate::entities::{Deployment, Instance, RunState};
use crate::errors::DeploymentError;
use crate::ports::{DatabaseSeed, InstanceHandle};
use crate::values::ServedName;
use branchyard_domain::ports::{Durability, WriteKeys};
use branchyard_domain::usecases::IdempotencyRecord;
use branchyard_domain::values::OperationId;

/// Maximum number of databases of a deployment.
const MOST: usize = 32;

/// A database of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedDatabase {
    /// Name of the database.
    pub name: ServedName,
    /// Whether URLs without a database name refer to this database.
    pub is_default: bool,
    /// Size of the file in bytes.
    pub size_bytes: u64,
}

fn position(deployment: &Deployment, name: &str) -> Option<usize> {
    deployment.databases.iter().position(|known| known.as_str().eq_ignore_ascii_case(name))
}

fn running(deployment: &Deployment, instance: &Instance) -> Result<InstanceHandle, DeploymentError> {
    let handle = instance.handle.clone().filter(|_| deployment.state == RunState::Started);
    let locator = &deployment.locator;
    handle.ok_or_else(|| {
        DeploymentError::Conflict(format!(
            "{locator} is not started; databases can be added and deleted only while it runs"
        ))
    })
}

impl Deployments {
    /// Returns the databases with their sizes, the default one first. If the deployment has no data, the sizes are 0.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if a port fails.
    pub fn databases<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
    ) -> Result<Vec<ServedDatabase>, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        let instance = primary(tx.as_mut(), deployment.id)?;
        drop(tx);
        let sizes = match instance.prepared && instance.state != RunState::Stopped {
            true => {
                here(&self.0, &deployment)?;
                self.0.ports.provisioner.sizes(&instance.spec(&deployment))?
            }
            false => Vec::new(),
        };
        let names = deployment.databases.into_iter().enumerate();
        let shown = |(place, name)| ServedDatabase {
            name,
            is_default: place == 0,
            size_bytes: sizes.get(place).copied().unwrap_or(0),
        };
        Ok(names.map(shown).collect())
    }

    /// Adds a database: empty, or a clone of a hub database at a ref.
    ///
    /// # Errors
    /// - [`DeploymentError::NoSuchSource`] if the database to clone is absent or hidden.
    /// - [`DeploymentError::NameTaken`] if the deployment has a database of that name.
    /// - [`DeploymentError::Unprocessable`] if the deployment already has 32 databases.
    /// - [`DeploymentError::Conflict`] unless the deployment is started.
    pub fn add_database(
        &self,
        access: &DeploymentAccess<Manage>,
        name: &ServedName,
        source: Option<&DeploymentSource>,
        once: Option<&IdempotencyRecord<'_, ServedDatabase>>,
    ) -> Result<ServedDatabase, DeploymentError> {
        let source = source.map(|source| resolve(&self.0, access.who(), source)).transpose()?;
        let now = self.0.now();
        let check = |deployment: &Deployment, instance: &Instance| {
            if position(deployment, name.as_str()).is_some() {
                return Err(DeploymentError::NameTaken(name.to_string()));
            }
            let handle = running(deployment, instance)?;
            if deployment.databases.len() >= MOST {
                let text = format!("the deployment has reached the limit of {MOST} databases");
                return Err(DeploymentError::Unprocessable(text));
            }
            match &source {
                Some(source) if !source.fits(instance.size.volume_gb) => Err(too_small()),
                _ => Ok(handle),
            }
        };
        let handle = {
            let mut tx = self.0.ports.store.read_deployments()?;
            let deployment = live(tx.as_mut(), access)?;
            let instance = primary(tx.as_mut(), deployment.id)?;
            let handle = check(&deployment, &instance)?;
            here(&self.0, &deployment)?;
            handle
        };
        let seed = match &source {
            Some(source) => source.seed(),
            None => DatabaseSeed::Empty { author: access.who().signature(now) },
        };
        let operation = OperationId::from_uuid(self.0.ports.ids.uuid(now));
        self.0.ports.provisioner.create_database(&handle, operation, name, &seed)?;
        let size_bytes = self.size_of(access, name)?;
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        let instance = primary(tx.as_mut(), deployment.id)?;
        check(&deployment, &instance)?;
        deployment.databases.push(name.clone());
        update(tx.as_mut(), &mut deployment)?;
        let made = ServedDatabase { name: name.clone(), is_default: false, size_bytes };
        self.0.hub.keep_answer(tx.as_mut(), once, &made, now)?;
        tx.commit(Durability::Synced)?;
        Ok(made)
    }

    /// Returns the size of a newly created database in bytes.
    fn size_of(&self, access: &DeploymentAccess<Manage>, name: &ServedName) -> Result<u64, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        let mut spec = primary(tx.as_mut(), deployment.id)?.spec(&deployment);
        drop(tx);
        spec.databases = vec![name.clone()];
        Ok(self.0.ports.provisioner.sizes(&spec)?.first().copied().unwrap_or(0))
    }

    /// Removes a database with all of its content and returns its last state.
    ///
    /// # Errors
    /// - [`DeploymentError::Absent`] if there is no such database.
    /// - [`DeploymentError::Unprocessable`] if it is the default database.
    /// - [`DeploymentError::Conflict`] unless the deployment is started.
    pub fn drop_database(
        &self,
        access: &DeploymentAccess<Manage>,
        name: &str,
    ) -> Result<ServedDatabase, DeploymentError> {
        let seen =
            self.databases(access)?.into_iter().find(|database| database.name.as_str().eq_ignore_ascii_case(name));
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        let place = position(&deployment, name);
        let (Some(place), Some(seen)) = (place, seen) else {
            return Err(DeploymentError::Absent { what: "database", name: name.to_owned() });
        };
        let instance = primary(tx.as_mut(), deployment.id)?;
        let handle = running(&deployment, &instance)?;
        if place == 0 {
            let text = format!("{} is the default database; it is deleted with the deployment", seen.name);
            return Err(DeploymentError::Unprocessable(text));
        }
        deployment.databases.remove(place);
        update(tx.as_mut(), &mut deployment)?;
        tx.commit(Durability::Synced)?;
        let operation = OperationId::from_uuid(self.0.ports.ids.uuid(self.0.now()));
        self.0.ports.provisioner.drop_database(&handle, operation, &seen.name)?;
        Ok(seen)
    }
}
