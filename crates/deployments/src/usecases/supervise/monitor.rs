//! Monitoring of a serving instance: events, proofs of life and samples.

use branchyard_domain::ports::{Durability, WriteKeys};
use std::time::Duration;

use super::super::config::apply_settings;
use super::{Stepped, Supervisor};
use crate::entities::{Deployment, Instance, Metered};
use crate::ports::{ProvisionError, Resolution, Sample};
use branchyard_domain::errors::PortError;
use branchyard_domain::values::Timestamp;

/// Seconds between two proofs of life.
const PROOF_SECONDS: i64 = 10;

impl Supervisor<'_> {
    pub(super) fn keep_up(
        &self,
        deployment: &Deployment,
        instance: &Instance,
        wait: Duration,
    ) -> Result<Stepped, PortError> {
        let Some(handle) = &instance.handle else {
            self.found_gone(instance)?;
            return Ok(super::Next::Now.into());
        };
        let stepped = self.watch(instance, handle, wait)?;
        match self.tend(deployment, instance) {
            // The next watch returns the end of the process.
            Ok(()) => Ok(stepped),
            Err(PortError::External(fault)) if matches!(fault.cause(), Some(ProvisionError::Gone)) => Ok(stepped),
            Err(fault) => Err(fault),
        }
    }

    fn tend(&self, deployment: &Deployment, instance: &Instance) -> Result<(), PortError> {
        let Some(handle) = &instance.handle else { return Ok(()) };
        let now = self.0.now();
        let open = self.0.ports.store.read_deployments()?.ledger().current(instance.id, Metered::Compute)?;
        let proven = open.map_or(now, |interval| interval.proven_at.unwrap_or(interval.opened_at));
        if proven.plus_seconds(PROOF_SECONDS) <= now {
            // The settings are applied with each proof, in case they could not be applied when they changed.
            apply_settings(self.0, deployment.id, handle)?;
            let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
            tx.ledger().prove(instance.id, now)?;
            tx.commit(Durability::Synced)?;
        }
        let slot = slot(now, Resolution::Fine);
        if self.sample_at(instance, Resolution::Fine, slot)?.is_none() {
            let sample = self.0.ports.provisioner.sample(handle)?;
            let coarse = self.coarse_sample(instance, now)?;
            let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
            tx.samples().put(instance.id, Resolution::Fine, slot, &sample)?;
            if let Some((at, sample)) = coarse {
                tx.samples().put(instance.id, Resolution::Coarse, at, &sample)?;
            }
            tx.commit(Durability::Synced)?;
        }
        Ok(())
    }

    fn sample_at(
        &self,
        instance: &Instance,
        resolution: Resolution,
        at: Timestamp,
    ) -> Result<Option<Sample>, PortError> {
        let found =
            self.0.ports.store.read_deployments()?.samples().list(instance.id, resolution, at, at.plus_seconds(1))?;
        Ok(found.into_iter().next().map(|(_, sample)| sample))
    }

    /// Returns the coarse sample of the previous coarse period. Returns `None` if the sample exists already or nothing
    /// was measured.
    fn coarse_sample(&self, instance: &Instance, now: Timestamp) -> Result<Option<(Timestamp, Sample)>, PortError> {
        let end = slot(now, Resolution::Coarse);
        let begin = end.plus_seconds(-Resolution::Coarse.seconds());
        if self.sample_at(instance, Resolution::Coarse, begin)?.is_some() {
            return Ok(None);
        }
        let fine = self.0.ports.store.read_deployments()?.samples().list(instance.id, Resolution::Fine, begin, end)?;
        let samples: Vec<&Sample> = fine.iter().map(|(_, sample)| sample).collect();
        Ok(Sample::merge(&samples).map(|merged| (begin, merged)))
    }
}

/// Returns the begin of the period that contains a time.
fn slot(time: Timestamp, resolution: Resolution) -> Timestamp {
    let seconds = resolution.seconds();
    Timestamp::from_seconds(time.as_seconds().div_euclid(seconds) * seconds)
}
