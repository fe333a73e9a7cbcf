//! The supervisor, which keeps instances in their desired state.
//!
//! The supervisor has no threads and no state of its own. The server calls [`Supervisor::step`] for each busy
//! deployment, one call at a time per deployment, and [`Supervisor::operate`] beside it.

mod attempts;
mod monitor;
mod operate;
mod start;
mod stop;

use branchyard_domain::ports::{Durability, WriteKeys};
use std::time::Duration;

use super::DeploymentsInner;
use super::{here, metering, primary, update};
use crate::entities::{Deployment, Instance, Metered, RunState};
use crate::ports::DeploymentTransaction;
use crate::ports::{ProvisionError, Resolution};
use crate::values::DeploymentId;
use branchyard_domain::errors::PortError;

/// Time that a process has to finish its running requests.
const DRAIN: Duration = Duration::from_secs(20);

/// The last error of a deployment that a restore stopped.
const LEFT_BEHIND: &str = "the server was restored from a backup, which contains no volumes; start the deployment again from one of its own backups";

/// The time of the next step of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// After this time, or earlier if a request for the deployment arrives.
    In(Duration),
    /// Only when a request for the deployment arrives.
    Never,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stepped {
    /// Time of the next step.
    pub next: Next,
    /// A warning for the operator's log.
    pub warning: Option<String>,
}

impl From<Next> for Stepped {
    fn from(next: Next) -> Self {
        Self { next, warning: None }
    }
}

/// The fate of the processes that an earlier run of the server left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Number of processes taken over.
    pub adopted: u64,
    /// Number of processes that are gone. They will be started again.
    pub gone: u64,
}

/// The supervisor of the deployments of this server.
pub struct Supervisor<'a>(&'a DeploymentsInner);

impl<'a> Supervisor<'a> {
    pub(super) fn new(inner: &'a DeploymentsInner) -> Self {
        Self(inner)
    }

    /// Takes over the processes that an earlier run of this server left, and records which of them are gone. Called
    /// before any step.
    ///
    /// # Errors
    /// [`PortError`] if a port fails.
    pub fn recover(&self) -> Result<Recovered, PortError> {
        let mut recovered = Recovered::default();
        let active = self.0.ports.store.read_deployments()?.instances().active()?;
        for (instance, ..) in active {
            let Some(handle) = &instance.handle else { continue };
            let deployment = self.0.ports.store.read_deployments()?.deployments().get(instance.deployment_id)?;
            let Some(deployment) = deployment.filter(|deployment| here(self.0, deployment).is_ok()) else { continue };
            match self.0.ports.provisioner.adopt(&instance.spec(&deployment), handle) {
                Ok(()) => recovered.adopted += 1,
                Err(ProvisionError::Gone | ProvisionError::Refused(_)) => {
                    self.found_gone(&instance)?;
                    recovered.gone += 1;
                }
                Err(unavailable) => return Err(unavailable.into()),
            }
        }
        Ok(recovered)
    }

    /// Returns the deployments of this server that need steps.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn busy(&self) -> Result<Vec<DeploymentId>, PortError> {
        Ok(self.0.ports.store.read_deployments()?.deployments().busy(&self.0.settings.node)?)
    }

    /// Returns the number of requests for deployments on this server so far. A caller that reads the number before it
    /// looks for work misses no request in [`Supervisor::wait`].
    pub fn signals(&self) -> u64 {
        self.0.wake.count()
    }

    /// Waits until the number of requests exceeds `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.wake.wait(seen, at_most);
    }

    /// Wakes the callers of [`Supervisor::wait`].
    pub fn wake(&self) {
        self.0.wake.all();
    }

    /// Does what is due for a deployment: starts, watches or stops its instance. Waits for the process for at most
    /// `wait`; draining a process and creating or copying data may take longer.
    ///
    /// # Errors
    /// [`PortError`] if a port fails. A later call continues.
    pub fn step(&self, id: DeploymentId, wait: Duration) -> Result<Stepped, PortError> {
        let Some((deployment, instance)) = self.load(id)? else { return Ok(Next::Never.into()) };
        match instance.state {
            RunState::Starting => self.bring_up(&deployment, &instance, wait),
            RunState::Started => self.keep_up(&deployment, &instance, wait),
            RunState::Stopping => self.bring_down(&deployment, &instance),
            RunState::Stopped => Ok(Next::Never.into()),
        }
    }

    /// Drains the process of a deployment because the server stops. The next run of the server starts the process
    /// again. With `in_haste` the process is killed, which loses nothing that was acknowledged.
    ///
    /// # Errors
    /// [`PortError`] if a port fails.
    pub fn rest(&self, id: DeploymentId, in_haste: bool) -> Result<(), PortError> {
        let Some((_, instance)) = self.load(id)? else { return Ok(()) };
        let Some(handle) = &instance.handle else { return Ok(()) };
        self.0.ports.provisioner.stop(handle, if in_haste { Duration::ZERO } else { DRAIN })?;
        self.change(&instance, |tx, deployment, instance| {
            metering::close(tx, instance, Metered::Compute, self.0.now())?;
            if instance.state == RunState::Started {
                super::shutdown::go(deployment, instance, RunState::Starting)?;
            }
            instance.handle = None;
            instance.draining = false;
            instance.attempts.not_before = None;
            Ok(())
        })?;
        Ok(())
    }

    /// Kills the processes of this server, so that callers that drain a process stop waiting.
    ///
    /// # Errors
    /// [`PortError`] if a port fails.
    pub fn cut_short(&self) -> Result<(), PortError> {
        for id in self.busy()? {
            if let Some((_, Instance { handle: Some(handle), .. })) = self.load(id)? {
                self.0.ports.provisioner.stop(&handle, Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// Stops the deployments that a restored metadata store lists as active, because a backup of the server contains no
    /// volumes and no processes. Metering ends at the last proof of life in the restored ledger. Returns the number of
    /// deployments stopped.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn restored(&self) -> Result<u64, PortError> {
        let active = self.0.ports.store.read_deployments()?.instances().active()?;
        let mut stopped = 0;
        for (instance, ..) in &active {
            let done = self.change(instance, |tx, deployment, instance| {
                let proof = tx.ledger().current(instance.id, Metered::Compute)?.and_then(|open| open.proven_at);
                metering::close_at_proof(tx, instance)?;
                let last = tx.ledger().last_end(instance.id, Metered::Compute)?;
                let storage = tx.ledger().current(instance.id, Metered::Storage)?;
                if let Some(end) = proof.or(last).or(storage.map(|open| open.opened_at)) {
                    metering::close(tx, instance, Metered::Storage, end)?;
                }
                if instance.state != RunState::Stopping {
                    super::shutdown::go(deployment, instance, RunState::Stopping)?;
                }
                super::shutdown::go(deployment, instance, RunState::Stopped)?;
                instance.handle = None;
                instance.host = None;
                instance.prepared = false;
                instance.draining = false;
                instance.shutdown = None;
                instance.seeds.clear();
                deployment.last_error = Some(LEFT_BEHIND.to_owned());
                Ok(())
            })?;
            stopped += u64::from(done.is_some());
        }
        Ok(stopped)
    }

    /// Detaches from the process of a deployment because the server stops. The next run of the server takes the process
    /// over.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn leave(&self, id: DeploymentId) -> Result<(), PortError> {
        if let Some((_, Instance { handle: Some(handle), .. })) = self.load(id)? {
            self.0.ports.provisioner.release(&handle);
        }
        Ok(())
    }

    /// Removes samples and settled operations that are past their retention.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn tidy(&self) -> Result<(), PortError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        for resolution in [Resolution::Fine, Resolution::Coarse] {
            tx.samples().purge(resolution, now.plus_seconds(-resolution.kept_seconds()))?;
        }
        tx.deployment_operations().purge(now.plus_seconds(-super::operations::KEPT_SECONDS))?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    fn load(&self, id: DeploymentId) -> Result<Option<(Deployment, Instance)>, PortError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let Some(deployment) = tx.deployments().get(id)? else { return Ok(None) };
        let instance = primary(tx.as_mut(), id)?;
        Ok(Some((deployment, instance)))
    }

    /// Changes an instance and its deployment in one transaction. Returns `None` and changes nothing if the state or
    /// the process of the instance differs from `seen`.
    fn change<T>(
        &self,
        seen: &Instance,
        act: impl FnOnce(&mut dyn DeploymentTransaction, &mut Deployment, &mut Instance) -> Result<T, PortError>,
    ) -> Result<Option<T>, PortError> {
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let Some(mut instance) = tx.instances().get(seen.id)? else { return Ok(None) };
        let Some(mut deployment) = tx.deployments().get(seen.deployment_id)? else { return Ok(None) };
        if instance.state != seen.state || instance.handle != seen.handle {
            return Ok(None);
        }
        let before = deployment.clone();
        let result = act(tx.as_mut(), &mut deployment, &mut instance)?;
        tx.instances().update(&instance)?;
        if deployment != before {
            update(tx.as_mut(), &mut deployment)?;
        }
        tx.commit(Durability::Synced)?;
        Ok(Some(result))
    }

    /// Records that the process of an instance ended while it was not watched. Compute is charged up to the last proof
    /// of life.
    fn found_gone(&self, instance: &Instance) -> Result<(), PortError> {
        self.change(instance, |tx, deployment, instance| {
            metering::close_at_proof(tx, instance)?;
            if instance.state == RunState::Started {
                super::shutdown::go(deployment, instance, RunState::Starting)?;
            }
            instance.handle = None;
            instance.draining = false;
            instance.restarts = instance.restarts.saturating_add(1);
            instance.attempts.not_before = None;
            Ok(())
        })?;
        Ok(())
    }
}
