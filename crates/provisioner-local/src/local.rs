//! The provisioner on the local machine. Each instance is a process of the same program, with a folder and a port of
//! its own.

mod data;
mod event_log;
mod lines;
mod link;
mod process;
mod running;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use branchyard_confinement::KernelSupport;
use branchyard_deployments::ports::{
    Authorizer, BackupFiles, CopiedDatabase, DatabaseSeed, InstanceEvent, InstanceHandle, InstanceSpec, OutputLine,
    OutputQuery, ProvisionError, Provisioner, Sample, Series, SupervisorEvent, ZoneFeatures,
};
use branchyard_deployments::values::{BackupId, DeploymentId, InstanceId, ServedName, Settings};
use branchyard_domain::ports::{Clock, EngineError, Ids};
use branchyard_domain::values::{DatabaseId, OperationId};
use parking_lot::Mutex;

use crate::child::databases::LIST;
use crate::confined_dir::ConfinedDir;
use crate::control::{ControlReply, ControlRequest};
use crate::folder::{self, InstanceFolder};
use crate::spec::{Secret, Spec, settings_map};
use crate::staging_engine::StagingEngine;
use event_log::EventLog;
use link::ProcessLink;
use running::RunningProcess;
use staging::Staging;

/// Time limit for control requests that need no work.
const PROMPT: Duration = Duration::from_secs(5);
/// Time limit for creating or dropping a database.
const PATIENT: Duration = Duration::from_secs(300);

/// The error of a start on a system that cannot confine processes. It becomes the last error of the deployment.
const UNCONFINED: &str = "this system cannot confine the process of an instance, and hosted.allow_unconfined is false";

/// Access to the hub's databases that a deployment may be cloned from.
pub trait HubFiles: Send + Sync {
    /// Copies the file of a database to `to` and returns its size in bytes.
    ///
    /// # Errors
    /// [`EngineError`] if the copy fails.
    fn export(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError>;

    /// Returns the path of a database's file, relative to the folder of its engine.
    fn place(&self, database: DatabaseId) -> PathBuf;
}

/// The settings of the local provisioner.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// Root folder of all deployments.
    pub root: PathBuf,
    /// Path of the program that serves instances, which is this program.
    pub program: PathBuf,
    /// Address that instances listen on.
    pub bind: IpAddr,
    /// Host name that clients connect to.
    pub advertise_host: String,
    /// Time for which an instance goes on serving while the server is away.
    pub orphan_grace: Duration,
    /// Whether instances start on a system that cannot confine their processes.
    pub allow_unconfined: bool,
}

/// The provisioner that runs each instance as a local process.
pub struct LocalProcess {
    settings: LocalSettings,
    staging_engine: Box<dyn StagingEngine>,
    hub: Arc<dyn HubFiles>,
    blobs: Arc<dyn BackupFiles>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    version: String,
    authorizer: OnceLock<Arc<dyn Authorizer>>,
    /// The means of confinement that processes of instances find.
    support: KernelSupport,
    running: Mutex<HashMap<InstanceId, Arc<RunningProcess>>>,
}

impl std::fmt::Debug for LocalProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalProcess").field("settings", &self.settings).finish_non_exhaustive()
    }
}

pub(crate) fn unavailable(
    context: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ProvisionError {
    ProvisionError::Unavailable { context: context.to_owned(), source: source.into() }
}

impl LocalProcess {
    /// Opens a provisioner on a folder, which is created if it does not exist. `version` is the version of the
    /// engine, without a leading `v`.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be used.
    pub fn open(
        settings: LocalSettings,
        staging_engine: Box<dyn StagingEngine>,
        hub: Arc<dyn HubFiles>,
        blobs: Arc<dyn BackupFiles>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        version: String,
    ) -> io::Result<Self> {
        folder::make(&settings.root)?;
        let settings = LocalSettings { root: settings.root.canonicalize()?, ..settings };
        Ok(Self {
            settings,
            staging_engine,
            hub,
            blobs,
            clock,
            ids,
            version,
            authorizer: OnceLock::new(),
            support: branchyard_confinement::kernel_support(),
            running: Mutex::default(),
        })
    }

    fn folder(&self, spec: &InstanceSpec) -> InstanceFolder {
        InstanceFolder::of(&self.settings.root, spec.deployment, spec.instance)
    }

    /// Finds the folder of an instance whose deployment is unknown.
    fn find_folder(&self, instance: InstanceId) -> io::Result<Option<(DeploymentId, InstanceFolder)>> {
        for name in ConfinedDir::open(&self.settings.root)?.names(usize::MAX)? {
            let Some(id) = name.to_str().and_then(|name| DeploymentId::parse(name).ok()) else { continue };
            let folder = InstanceFolder::of(&self.settings.root, id, instance);
            match folder.open() {
                Ok(_) => return Ok(Some((id, folder))),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn staging(&self, deployment: DeploymentId, instance: InstanceId, name: &'static str) -> io::Result<Staging> {
        Staging::open(&self.settings.root, deployment, instance, name)
    }

    /// Returns the process with exactly this handle.
    fn process(&self, handle: &InstanceHandle) -> Result<Arc<RunningProcess>, ProvisionError> {
        let found = self.running.lock().get(&handle.instance).cloned();
        found.filter(|running| running.handle == *handle).ok_or(ProvisionError::Gone)
    }

    fn is_running(&self, instance: InstanceId) -> bool {
        self.running.lock().get(&instance).is_some_and(|running| !running.has_ended())
    }

    fn link(
        &self,
        instance: InstanceId,
        folder: &InstanceFolder,
        secret: Secret,
    ) -> Result<ProcessLink, ProvisionError> {
        let authorizer =
            self.authorizer.get().ok_or_else(|| unavailable("run an instance", "nobody checks callers"))?;
        Ok(ProcessLink {
            instance,
            folder: folder.clone(),
            secret,
            authorizer: Arc::clone(authorizer),
            host: self.settings.advertise_host.clone(),
            health: self.reached_at(),
            log: EventLog::new(folder.clone(), Arc::clone(&self.clock)),
        })
    }

    /// Returns the address at which the server reaches a process that listens on the bind address.
    fn reached_at(&self) -> IpAddr {
        match self.settings.bind {
            IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            address => address,
        }
    }

    fn ask(
        &self,
        handle: &InstanceHandle,
        ask: ControlRequest,
        patience: Duration,
    ) -> Result<ControlReply, ProvisionError> {
        match self.process(handle)?.channel().ok_or(ProvisionError::Gone)?.ask(ask, patience)? {
            ControlReply::Refused { why } => Err(ProvisionError::Refused(why)),
            answer => Ok(answer),
        }
    }
}

fn read_spec(folder: &InstanceFolder) -> Option<Spec> {
    let run = folder.open().and_then(|home| home.sub(folder::RUN)).ok()?;
    serde_json::from_slice(&run.read(folder::SPEC, folder::MOST_BYTES).ok()?).ok()
}

fn write_spec(folder: &InstanceFolder, spec: &Spec) -> io::Result<()> {
    let mut bytes = Vec::new();
    crate::hrana::values::append(&mut bytes, spec);
    folder.open()?.make(folder::RUN)?.write(folder::SPEC, &bytes)
}

impl Provisioner for LocalProcess {
    fn connect(&self, authorizer: Arc<dyn Authorizer>) {
        // The port calls this once. A second authorizer is ignored.
        let _ = self.authorizer.set(authorizer);
    }

    fn features(&self, _zone: &str) -> Result<ZoneFeatures, ProvisionError> {
        Ok(ZoneFeatures {
            replicas: false,
            public_tls: false,
            remotesapi: false,
            mcp: false,
            credentials: false,
            versions: vec![self.version.clone()],
            memory_bytes: process::memory_bytes(),
            disk_bytes: process::disk_bytes(&self.settings.root),
        })
    }

    fn port_is_free(&self, port: u16) -> bool {
        TcpListener::bind((self.settings.bind, port)).is_ok()
    }

    fn prepare(&self, spec: &InstanceSpec, seeds: &[DatabaseSeed]) -> Result<(), ProvisionError> {
        data::prepare(self, spec, seeds)
    }

    fn remove(&self, instance: InstanceId) -> Result<(), ProvisionError> {
        if self.is_running(instance) {
            return Err(ProvisionError::Refused("the instance runs".into()));
        }
        self.running.lock().remove(&instance);
        let removed = self.find_folder(instance).and_then(|found| {
            let Some((deployment, found)) = found else { return Ok(()) };
            let home = found.open()?;
            // Earlier versions created `db.new` and `staging`.
            for part in [folder::DB, folder::RUN, folder::INCOMING, "db.new", "staging"] {
                home.remove(part)?;
            }
            staging::remove(&self.settings.root, &deployment.to_string(), Some(instance))
        });
        removed.map_err(|error| unavailable("remove the data of an instance", error))
    }

    fn forget(&self, deployment: DeploymentId) -> Result<(), ProvisionError> {
        let fault = |error: io::Error| unavailable("remove a deployment", error);
        let name = deployment.to_string();
        let root = ConfinedDir::open(&self.settings.root).map_err(fault)?;
        let inside = match root.sub(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            folder => folder.and_then(|folder| folder.names(usize::MAX)).map_err(fault)?,
        };
        for entry in inside {
            let instance = entry.to_str().and_then(|name| InstanceId::parse(name).ok());
            if instance.is_some_and(|instance| self.is_running(instance)) {
                return Err(ProvisionError::Refused("an instance of the deployment runs".into()));
            }
        }
        root.remove(&name).and_then(|()| staging::remove(&self.settings.root, &name, None)).map_err(fault)
    }

    fn start(&self, spec: &InstanceSpec) -> Result<InstanceHandle, ProvisionError> {
        if !self.support.is_complete() && !self.settings.allow_unconfined {
            return Err(unavailable(UNCONFINED, format!("the kernel offers {:?}", self.support)));
        }
        let folder = self.folder(spec);
        match folder.open().and_then(|home| home.sub(folder::DB)?.has(LIST)) {
            Ok(true) => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unavailable("look for the data of an instance", error));
            }
            Ok(false) | Err(_) => return Err(data::missing(&folder)),
        }
        let mut all = self.running.lock();
        if let Some(there) = all.get(&spec.instance).filter(|running| !running.has_ended()) {
            return Ok(there.handle.clone());
        }
        let kept = read_spec(&folder).map(|before| (before.secret, before.baton_key));
        let keys = kept.unwrap_or_else(|| (Secret::fresh(), Secret::fresh()));
        let link = self.link(spec.instance, &folder, keys.0.clone())?;
        let spec_file = Spec::new(spec, &self.settings, keys);
        write_spec(&folder, &spec_file).map_err(|error| unavailable("write the spec of an instance", error))?;
        let running = running::start(&self.settings.program, &folder, spec.port, link)
            .map_err(|error| unavailable("start a process", error))?;
        let handle = running.handle.clone();
        all.insert(spec.instance, running);
        Ok(handle)
    }

    fn adopt(&self, spec: &InstanceSpec, handle: &InstanceHandle) -> Result<(), ProvisionError> {
        if self.process(handle).is_ok_and(|running| !running.has_ended()) {
            return Ok(());
        }
        let folder = self.folder(spec);
        let secret = read_spec(&folder).filter(|file| file.instance() == Some(spec.instance)).map(|file| file.secret);
        let link = self.link(spec.instance, &folder, secret.ok_or(ProvisionError::Gone)?)?;
        let running = running::adopt(&folder, handle, spec.port, link)?;
        self.running.lock().insert(spec.instance, running);
        Ok(())
    }

    fn watch(&self, handle: &InstanceHandle, wait: Duration) -> Result<Option<InstanceEvent>, ProvisionError> {
        let event = self.process(handle)?.next_event(wait)?;
        if matches!(event, Some(InstanceEvent::Ended { .. })) {
            self.running.lock().remove(&handle.instance);
        }
        Ok(event)
    }

    fn stop(&self, handle: &InstanceHandle, deadline: Duration) -> Result<(), ProvisionError> {
        let Ok(running) = self.process(handle) else { return Ok(()) };
        running.stop(deadline)?;
        self.running.lock().remove(&handle.instance);
        Ok(())
    }

    fn release(&self, handle: &InstanceHandle) {
        if let Ok(running) = self.process(handle) {
            running.release();
            self.running.lock().remove(&handle.instance);
        }
    }

    fn apply(&self, handle: &InstanceHandle, settings: &Settings, revision: i64) -> Result<(), ProvisionError> {
        let running = self.process(handle)?;
        let settings = settings_map(settings);
        {
            let _one_at_a_time = running.spec.lock();
            if let Some(mut spec) = read_spec(&running.folder) {
                if spec.settings_revision > revision {
                    return Ok(());
                }
                if spec.settings != settings || spec.settings_revision != revision {
                    spec.settings.clone_from(&settings);
                    spec.settings_revision = revision;
                    let written = write_spec(&running.folder, &spec);
                    written.map_err(|error| unavailable("write the spec of an instance", error))?;
                }
            }
        }
        // The process compares revisions too, because requests of several threads arrive in any order.
        self.ask(handle, ControlRequest::Apply { settings, revision: Some(revision) }, PROMPT).map(drop)
    }

    fn forget_callers(&self, handle: &InstanceHandle) -> Result<(), ProvisionError> {
        self.ask(handle, ControlRequest::ForgetCallers, PROMPT).map(drop)
    }

    fn address(&self, handle: &InstanceHandle) -> Result<SocketAddr, ProvisionError> {
        let running = self.process(handle)?;
        Ok(SocketAddr::new(self.reached_at(), running.port))
    }

    fn sample(&self, handle: &InstanceHandle) -> Result<Sample, ProvisionError> {
        let ControlReply::Sample { sample } = self.ask(handle, ControlRequest::Sample, PROMPT)? else {
            return Err(ProvisionError::Gone);
        };
        let mut taken = Sample::default();
        for series in Series::ALL {
            if let Some(value) = sample.get(&format!("{series:?}")) {
                taken.set(*series, *value);
            }
        }
        Ok(taken)
    }

    fn logs(&self, instance: InstanceId, query: &OutputQuery) -> Result<Vec<OutputLine>, ProvisionError> {
        let read = self.find_folder(instance).and_then(|found| match found {
            Some((_, found)) => match found.open()?.sub(folder::LOG) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                folder => lines::read(&folder?, query),
            },
            None => Ok(Vec::new()),
        });
        read.map_err(|error| unavailable("read the log of an instance", error))
    }

    fn record(&self, instance: InstanceId, event: &SupervisorEvent) -> Result<(), ProvisionError> {
        let text = match event {
            SupervisorEvent::CrashLoop { error } => {
                format!("ERROR the process ends again and again event=crash_loop error={error:?}")
            }
            SupervisorEvent::DataDiscarded { by } => {
                format!("WARN the data is removed without a backup event=data_discarded by={by}")
            }
        };
        let written = self.find_folder(instance).and_then(|found| match found {
            Some((_, folder)) => EventLog::new(folder, Arc::clone(&self.clock)).append(&text),
            None => Ok(()),
        });
        written.map_err(|error| unavailable("write to the log of an instance", error))
    }

    fn sizes(&self, spec: &InstanceSpec) -> Result<Vec<u64>, ProvisionError> {
        data::sizes(self, spec)
    }

    fn snapshot(&self, spec: &InstanceSpec, backup: BackupId) -> Result<Vec<CopiedDatabase>, ProvisionError> {
        data::snapshot(self, spec, backup)
    }

    fn create_database(
        &self,
        handle: &InstanceHandle,
        operation: OperationId,
        name: &ServedName,
        seed: &DatabaseSeed,
    ) -> Result<(), ProvisionError> {
        let running = self.process(handle)?;
        // The database id is derived from the operation id, which makes the call idempotent.
        let id = DatabaseId::from_uuid(operation.as_uuid());
        let fault = |error: io::Error| unavailable("prepare a database", error);
        let staging = self
            .find_folder(handle.instance)
            .and_then(|found| {
                found.map_or(Err(io::ErrorKind::NotFound.into()), |(deployment, _)| {
                    self.staging(deployment, handle.instance, "create")
                })
            })
            .map_err(fault)?;
        let home = running.folder.open().map_err(fault)?;
        home.remove(folder::INCOMING).map_err(fault)?;
        let given = data::stage(self, &staging, id, seed).and_then(|()| {
            let file = id.to_string();
            let incoming = home.make(folder::INCOMING);
            incoming.and_then(|incoming| staging.dir().give(&file, &incoming, &file)).map_err(fault)
        });
        let taken = given.and_then(|()| {
            let ask = ControlRequest::CreateDatabase {
                operation: operation.to_string(),
                name: name.to_string(),
                database: id.to_string(),
                file: id.to_string(),
            };
            self.ask(handle, ask, PATIENT).map(drop)
        });
        // The folder is moved out of the reach of the process, which still runs, before it is removed.
        let tidied = match home.give(folder::INCOMING, staging.dir(), "taken") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(unavailable("tidy up after a database", error))
            }
            _ => Ok(()),
        };
        taken.and(tidied)
    }

    fn drop_database(
        &self,
        handle: &InstanceHandle,
        operation: OperationId,
        name: &ServedName,
    ) -> Result<(), ProvisionError> {
        let ask = ControlRequest::DropDatabase { operation: operation.to_string(), name: name.to_string() };
        self.ask(handle, ask, PATIENT).map(drop)
    }
}
