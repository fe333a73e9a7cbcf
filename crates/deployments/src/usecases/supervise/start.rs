//! Starting an instance, and handling its end.

use std::time::Duration;

use super::super::capacity::free_port;
use super::super::config::apply_settings;
use super::super::{metering, shutdown};
use super::attempts::{is_loop, note};
use super::{DRAIN, Next, Stepped, Supervisor};
use crate::entities::{Deployment, Instance, Metered, RunState, Shutdown};
use crate::ports::{InstanceEvent, InstanceHandle, ProvisionError, SupervisorEvent};
use branchyard_domain::errors::PortError;
use branchyard_domain::values::Timestamp;

/// The last error of a deployment whose data is missing.
const NO_DATA: &str =
    "the data of the instance is missing; nothing was removed, and it starts by itself once the data is back";
/// Interval at which missing data is looked for.
const LOOK_FOR_DATA: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    pub(super) fn bring_up(
        &self,
        deployment: &Deployment,
        instance: &Instance,
        wait: Duration,
    ) -> Result<Stepped, PortError> {
        if let (Some(handle), true) = (&instance.handle, instance.draining) {
            return self.drain(instance, handle);
        }
        let now = self.0.now();
        let seconds = self.0.settings.start_deadline_seconds;
        if !instance.was_ready && now >= instance.accepted_at.plus_seconds(seconds) {
            let last = deployment.last_error.as_deref().unwrap_or("nothing was reported");
            return self.give_up(instance, format!("it did not become ready within {seconds} s: {last}"));
        }
        match &instance.handle {
            Some(handle) => self.watch(instance, handle, wait),
            None => self.launch(deployment, instance, now, wait),
        }
    }

    /// Stops the process for a planned restart.
    fn drain(&self, instance: &Instance, handle: &InstanceHandle) -> Result<Stepped, PortError> {
        self.0.ports.provisioner.stop(handle, DRAIN)?;
        self.change(instance, |tx, _, instance| {
            metering::close(tx, instance, Metered::Compute, self.0.now())?;
            instance.handle = None;
            instance.draining = false;
            instance.restarts = instance.restarts.saturating_add(1);
            instance.attempts.not_before = None;
            Ok(())
        })?;
        Ok(Next::Now.into())
    }

    /// Waits for an event of a process and handles it.
    pub(super) fn watch(
        &self,
        instance: &Instance,
        handle: &InstanceHandle,
        wait: Duration,
    ) -> Result<Stepped, PortError> {
        match self.0.ports.provisioner.watch(handle, wait) {
            Ok(None) => return Ok(Next::Now.into()),
            Ok(Some(InstanceEvent::Ready { host, version })) => self.became_ready(instance, handle, &host, &version)?,
            Ok(Some(InstanceEvent::VolumeFull(full))) => {
                self.change(instance, |_, _, instance| {
                    instance.volume_full = full;
                    Ok(())
                })?;
            }
            Ok(Some(InstanceEvent::Ended { cause, stderr })) => return self.ended(instance, &cause, &stderr),
            Ok(Some(InstanceEvent::Unresponsive)) => {
                self.0.ports.provisioner.stop(handle, Duration::ZERO)?;
                return self.ended(instance, "it stopped answering and was killed", "");
            }
            Err(ProvisionError::Gone) => {
                self.found_gone(instance)?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Now.into())
    }

    fn became_ready(
        &self,
        instance: &Instance,
        handle: &InstanceHandle,
        host: &str,
        version: &str,
    ) -> Result<(), PortError> {
        let now = self.0.now();
        let started = self.change(instance, |tx, deployment, instance| {
            // An adopted process also reports that it is ready; its instance was started long ago.
            if instance.state == RunState::Starting {
                shutdown::go(deployment, instance, RunState::Started)?;
                instance.started_at = Some(now);
            }
            metering::open(tx, deployment, instance, Metered::Compute, now)?;
            instance.was_ready = true;
            instance.host = Some(host.to_owned());
            instance.attempts.failed = 0;
            instance.crash_loop = is_loop(&instance.attempts);
            deployment.database_version = Some(version.to_owned());
            if !instance.crash_loop {
                deployment.last_error = None;
            }
            Ok(())
        })?;
        if started.is_none() {
            return Ok(());
        }
        match apply_settings(self.0, instance.deployment_id, handle) {
            // The next watch returns the end of the process.
            Err(PortError::External(fault)) if matches!(fault.cause(), Some(ProvisionError::Gone)) => Ok(()),
            applied => applied,
        }
    }

    /// Records that a process ended by itself.
    fn ended(&self, instance: &Instance, cause: &str, stderr: &str) -> Result<Stepped, PortError> {
        let now = self.0.now();
        let mut jitter = [0];
        self.0.ports.ids.fill(&mut jitter);
        let said = if stderr.trim().is_empty() { cause.to_owned() } else { format!("{cause}: {}", stderr.trim()) };
        let is_loop = self.change(instance, |tx, deployment, instance| {
            let was_ready = instance.state == RunState::Started;
            metering::close(tx, instance, Metered::Compute, now)?;
            if was_ready {
                shutdown::go(deployment, instance, RunState::Starting)?;
            }
            self.failed(deployment, instance, &said, now, was_ready, jitter[0]);
            Ok(instance.crash_loop)
        })?;
        let is_new = self.note_loop(instance, is_loop, &said);
        let warning = is_new.then(|| format!("instance {} ends again and again: {said}", instance.id));
        Ok(Stepped { next: Next::Now, warning })
    }

    /// Records in the log of the instance that a crash loop began. Returns `true` if one began. `before` is the instance
    /// before the failure.
    fn note_loop(&self, before: &Instance, is_loop: Option<bool>, said: &str) -> bool {
        let is_new = is_loop == Some(true) && !before.crash_loop;
        if is_new {
            // Best effort: `health` and `last_error` show the loop too, and the folder of the log may be what is broken.
            let _ = self.0.ports.provisioner.record(before.id, &SupervisorEvent::CrashLoop { error: said.to_owned() });
        }
        is_new
    }

    fn failed(
        &self,
        deployment: &mut Deployment,
        instance: &mut Instance,
        said: &str,
        now: Timestamp,
        was_ready: bool,
        jitter: u8,
    ) {
        instance.handle = None;
        instance.draining = false;
        instance.restarts = instance.restarts.saturating_add(1);
        note(&mut instance.attempts, now, was_ready, jitter);
        instance.crash_loop = is_loop(&instance.attempts);
        deployment.last_error = Some(said.to_owned());
    }

    /// Creates the data if necessary, changes the port if another process has taken it, and starts a process.
    fn launch(
        &self,
        deployment: &Deployment,
        instance: &Instance,
        now: Timestamp,
        wait: Duration,
    ) -> Result<Stepped, PortError> {
        if let Some(at) = instance.attempts.not_before.filter(|at| *at > now) {
            let micros = u64::try_from(at.as_micros() - now.as_micros()).unwrap_or(0);
            return Ok(Next::In(wait.min(Duration::from_micros(micros))).into());
        }
        let provisioner = &self.0.ports.provisioner;
        let spec = instance.spec(deployment);
        if !instance.prepared {
            if let Err(error) = provisioner.prepare(&spec, &instance.seeds) {
                return self.refused(instance, error);
            }
            self.change(instance, |_, _, instance| {
                instance.prepared = true;
                instance.seeds.clear();
                Ok(())
            })?;
            return Ok(Next::Now.into());
        }
        if !provisioner.port_is_free(instance.port) {
            return self.change_port(instance);
        }
        match provisioner.start(&spec) {
            Err(ProvisionError::NoData { path }) => self.wait_for_data(deployment, instance, &path),
            Err(error) => self.refused(instance, error),
            Ok(handle) => {
                let noted = self.change(instance, |_, deployment, instance| {
                    instance.handle = Some(handle.clone());
                    instance.started_with = deployment.settings.clone();
                    // The new process reports it if the volume is full.
                    instance.volume_full = false;
                    Ok(())
                });
                // The instance was shut down in the meantime, or the process was not recorded: an unrecorded process
                // must not stay.
                if !matches!(noted, Ok(Some(()))) {
                    provisioner.stop(&handle, Duration::ZERO)?;
                }
                noted?;
                Ok(Next::Now.into())
            }
        }
    }

    /// Waits until the data of a prepared instance is back. The wait is no failed attempt: the file system of the data may
    /// only be mounted late.
    fn wait_for_data(&self, deployment: &Deployment, instance: &Instance, path: &str) -> Result<Stepped, PortError> {
        let next = Next::In(LOOK_FOR_DATA);
        if deployment.last_error.as_deref() == Some(NO_DATA) {
            return Ok(next.into());
        }
        self.change(instance, |_, deployment, _| {
            deployment.last_error = Some(NO_DATA.to_owned());
            Ok(())
        })?;
        let warning = format!("instance {} waits for its data: {path} does not exist", instance.id);
        Ok(Stepped { next, warning: Some(warning) })
    }

    fn change_port(&self, instance: &Instance) -> Result<Stepped, PortError> {
        let held: Vec<u16> =
            self.0.ports.store.read_deployments()?.instances().active()?.iter().map(|(other, ..)| other.port).collect();
        let Some(port) = free_port(self.0, &held) else {
            let none = ProvisionError::Unavailable { context: "find a port".to_owned(), source: "none is free".into() };
            return self.refused(instance, none);
        };
        self.change(instance, |_, _, instance| {
            instance.port = port;
            Ok(())
        })?;
        let warning = format!("port {} of instance {} is taken; it gets {port}", instance.port, instance.id);
        Ok(Stepped { next: Next::Now, warning: Some(warning) })
    }

    /// Handles an error of the provisioner. [`ProvisionError::Refused`] shuts the instance down; any other error is
    /// retried later.
    fn refused(&self, instance: &Instance, error: ProvisionError) -> Result<Stepped, PortError> {
        if let ProvisionError::Refused(why) = error {
            return self.give_up(instance, why);
        }
        let now = self.0.now();
        let mut jitter = [0];
        self.0.ports.ids.fill(&mut jitter);
        let said = error.to_string();
        let is_loop = self.change(instance, |_, deployment, instance| {
            self.failed(deployment, instance, &said, now, false, jitter[0]);
            Ok(instance.crash_loop)
        })?;
        self.note_loop(instance, is_loop, &said);
        Err(error.into())
    }

    /// Shuts the deployment down because its start cannot succeed. If the instance was ever ready, its data becomes a
    /// final backup.
    fn give_up(&self, instance: &Instance, why: String) -> Result<Stepped, PortError> {
        let warning = format!("instance {} is given up: {why}", instance.id);
        self.change(instance, |_, deployment, instance| {
            shutdown::go(deployment, instance, RunState::Stopping)?;
            instance.shutdown = Some(Shutdown { final_backup: instance.was_ready, not_before: None });
            deployment.last_error = Some(why);
            Ok(())
        })?;
        Ok(Stepped { next: Next::Now, warning: Some(warning) })
    }
}
