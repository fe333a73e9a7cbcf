//! The supervisor: what keeps instances as they should be. It has no threads and no memory of its own; whoever runs it calls
//! [`Supervisor::step`] for each busy deployment, one at a time for each, and [`Supervisor::operate`] beside it.

mod attempts;
mod monitor;
mod operate;
mod start;
mod stop;

use branchyard_domain::ports::Durability;
use std::time::Duration;

use super::Inner;
use super::{here, metering, primary, update};
use crate::entities::{Deployment, Instance, Metered, RunState};
use crate::ports::DeploymentTransaction;
use crate::ports::{ProvisionError, Resolution};
use crate::values::DeploymentId;
use branchyard_domain::errors::Fault;

/// How long a process may take to finish what it does.
const DRAIN: Duration = Duration::from_secs(20);

/// Why a deployment is stopped after a restore.
const LEFT_BEHIND: &str =
    "the server was restored from a backup, which holds no volumes; start it again from a backup of its own";

/// When a deployment wants the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// After so long, or when something is asked of it.
    In(Duration),
    /// Not before something is asked of it.
    Never,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stepped {
    /// When to call again.
    pub next: Next,
    /// Something the operator should read.
    pub warning: Option<String>,
}

impl From<Next> for Stepped {
    fn from(next: Next) -> Self {
        Self { next, warning: None }
    }
}

/// What became of the processes that an earlier server left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Taken over.
    pub adopted: u64,
    /// Gone; they will be started anew.
    pub gone: u64,
}

/// The supervisor.
pub struct Supervisor<'a>(&'a Inner);

impl<'a> Supervisor<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Takes over the processes that an earlier start of this server left, or notes that they are gone. Before anything else is done.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn recover(&self) -> Result<Recovered, Fault> {
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

    /// Deployments of this server that want steps.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn busy(&self) -> Result<Vec<DeploymentId>, Fault> {
        Ok(self.0.ports.store.read_deployments()?.deployments().busy(&self.0.settings.node)?)
    }

    /// How often something was asked of a deployment here so far. Taken before looking, it makes [`Supervisor::wait`] miss
    /// nothing.
    pub fn signals(&self) -> u64 {
        self.0.wake.count()
    }

    /// Waits until something was asked of a deployment since `seen`, at most so long.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.wake.wait(seen, at_most);
    }

    /// Ends the waits of others.
    pub fn wake(&self) {
        self.0.wake.one();
    }

    /// Does what is due for a deployment: starts, watches, shuts down. Waits for its process at most `wait`; draining one and
    /// making or copying data may take longer.
    ///
    /// # Errors
    /// [`Fault`] when a port failed; calling again later goes on.
    pub fn step(&self, id: DeploymentId, wait: Duration) -> Result<Stepped, Fault> {
        let Some((deployment, instance)) = self.load(id)? else { return Ok(Next::Never.into()) };
        match instance.state {
            RunState::Starting => self.bring_up(&deployment, &instance, wait),
            RunState::Started => self.keep_up(&deployment, &instance, wait),
            RunState::Stopping => self.bring_down(&deployment, &instance),
            RunState::Stopped => Ok(Next::Never.into()),
        }
    }

    /// Drains the process of a deployment because the server stops; the next start starts it again. In haste it is killed, which
    /// loses nothing that was acknowledged.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn rest(&self, id: DeploymentId, in_haste: bool) -> Result<(), Fault> {
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

    /// Kills the processes of this server, so that whoever drains one waits no longer.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn cut_short(&self) -> Result<(), Fault> {
        for id in self.busy()? {
            if let Some((_, Instance { handle: Some(handle), .. })) = self.load(id)? {
                self.0.ports.provisioner.stop(&handle, Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// Notes after a restore that no volume and no process came with it: what ran is stopped, metered up to the last proof of life
    /// that the backup knows of. Gives how many deployments that were.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn restored(&self) -> Result<u64, Fault> {
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

    /// Leaves the process of a deployment to itself because the server stops; the next start takes it over.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn leave(&self, id: DeploymentId) -> Result<(), Fault> {
        if let Some((_, Instance { handle: Some(handle), .. })) = self.load(id)? {
            self.0.ports.provisioner.release(&handle);
        }
        Ok(())
    }

    /// Removes what is past its retention: samples and settled operations.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn tidy(&self) -> Result<(), Fault> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments()?;
        for resolution in [Resolution::Fine, Resolution::Coarse] {
            tx.samples().purge(resolution, now.plus_seconds(-resolution.kept_seconds()))?;
        }
        tx.deployment_operations().purge(now.plus_seconds(-super::operations::KEPT_SECONDS))?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    fn load(&self, id: DeploymentId) -> Result<Option<(Deployment, Instance)>, Fault> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let Some(deployment) = tx.deployments().get(id)? else { return Ok(None) };
        let instance = primary(tx.as_mut(), id)?;
        Ok(Some((deployment, instance)))
    }

    /// Changes an instance with its deployment in one transaction, unless it is not in the state or does not have the process
    /// that was seen.
    fn change<T>(
        &self,
        seen: &Instance,
        act: impl FnOnce(&mut dyn DeploymentTransaction, &mut Deployment, &mut Instance) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let mut tx = self.0.ports.store.write_deployments()?;
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

    /// The process of an instance ended while nobody watched: it is paid for up to its last proof of life.
    fn found_gone(&self, instance: &Instance) -> Result<(), Fault> {
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
