//! A provisioner without processes.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use branchyard_deployments::ports::{
    Authorizer, BackupFile, BackupFiles, CopiedDatabase, DatabaseSeed, InstanceEvent, InstanceHandle, InstanceSpec,
    OutputLine, OutputPosition, OutputQuery, ProvisionError, Provisioner, Sample, SupervisorEvent, Towards,
    ZoneFeatures,
};
use branchyard_deployments::values::{BackupId, DeploymentId, InstanceId, ServedName, Settings};
use branchyard_domain::values::{CommitHash, OperationId, RefName, Timestamp};

/// A provisioner that only records what runs. A started instance is ready immediately, unless planned otherwise.
pub struct MemoryProvisioner {
    state: Mutex<ProvisionerState>,
    blobs: Arc<dyn BackupFiles>,
}

#[derive(Default)]
struct ProvisionerState {
    instances: BTreeMap<InstanceId, FakeInstance>,
    authorizer: Option<Arc<dyn Authorizer>>,
    busy_ports: Vec<u16>,
    processes: u32,
    never_ready: bool,
    waits: bool,
    refuse_start: Option<String>,
    refuse_snapshot: Option<String>,
    is_unmounted: bool,
    before_apply: Option<Interruption>,
    before_snapshot: Option<Interruption>,
}

/// A function that runs once, in the middle of a call.
type Interruption = Box<dyn FnOnce() + Send>;

struct FakeInstance {
    spec: InstanceSpec,
    databases: Option<Vec<(ServedName, DatabaseSeed)>>,
    handle: Option<InstanceHandle>,
    events: VecDeque<InstanceEvent>,
    settings: Settings,
    settings_revision: i64,
    /// All settings that were in force, in order.
    applied: Vec<Settings>,
    lines: Vec<OutputLine>,
    sample: Sample,
    forgotten: u32,
}

impl FakeInstance {
    fn say(&mut self, text: &str) {
        let segment = u64::try_from(self.lines.len()).unwrap_or(u64::MAX);
        let begin = OutputPosition { segment, offset: 0 };
        let end = OutputPosition { segment: segment + 1, offset: 0 };
        let time = Timestamp::from_seconds(i64::try_from(segment).unwrap_or(i64::MAX));
        self.lines.push(OutputLine { time, text: text.to_owned(), begin, end });
    }
}

impl MemoryProvisioner {
    /// Creates a provisioner that stores backup files in `blobs`.
    pub fn new(blobs: Arc<dyn BackupFiles>) -> Self {
        Self { state: Mutex::default(), blobs }
    }

    /// Ends the process of an instance, as if by a signal.
    pub fn crash(&self, instance: InstanceId) {
        if let Some(instance) = self.state.lock().instances.get_mut(&instance) {
            instance.handle = None;
            instance.say("WARN the process was killed event=killed");
            let ended = InstanceEvent::Ended { cause: "signal 9".to_owned(), stderr: "crashed".to_owned() };
            instance.events.push_back(ended);
        }
    }

    /// Ends the process of an instance without an event, as if the server had not been running.
    pub fn vanish(&self, instance: InstanceId) {
        if let Some(instance) = self.state.lock().instances.get_mut(&instance) {
            instance.handle = None;
            instance.events.clear();
        }
    }

    /// Adds an event of an instance.
    pub fn tell(&self, instance: InstanceId, event: InstanceEvent) {
        if let Some(instance) = self.state.lock().instances.get_mut(&instance) {
            instance.events.push_back(event);
        }
    }

    /// Sets whether started processes end before they become ready.
    pub fn never_ready(&self, never: bool) {
        self.state.lock().never_ready = never;
    }

    /// Sets whether watching an idle instance takes the full wait time, as with real processes. Off by default.
    pub fn waits(&self, waits: bool) {
        self.state.lock().waits = waits;
    }

    /// Makes starts fail with this reason, or lets them succeed with `None`.
    pub fn refuse_start(&self, why: Option<&str>) {
        self.state.lock().refuse_start = why.map(str::to_owned);
    }

    /// Sets whether the data of all instances is missing, as if its file system were not mounted. Nothing is lost.
    pub fn unmount(&self, is_unmounted: bool) {
        self.state.lock().is_unmounted = is_unmounted;
    }

    /// Runs `act` once, before the next settings are applied: between the caller's decision and its effect.
    pub fn before_apply(&self, act: impl FnOnce() + Send + 'static) {
        self.state.lock().before_apply = Some(Box::new(act));
    }

    /// Runs `act` once, in the next snapshot.
    pub fn before_snapshot(&self, act: impl FnOnce() + Send + 'static) {
        self.state.lock().before_snapshot = Some(Box::new(act));
    }

    /// Makes snapshots fail with this reason, or lets them succeed with `None`.
    pub fn refuse_snapshot(&self, why: Option<&str>) {
        self.state.lock().refuse_snapshot = why.map(str::to_owned);
    }

    /// Marks a port as used by another program.
    pub fn occupy(&self, port: u16) {
        self.state.lock().busy_ports.push(port);
    }

    /// Sets the sample that an instance returns from now on.
    pub fn measure(&self, instance: InstanceId, sample: Sample) {
        if let Some(instance) = self.state.lock().instances.get_mut(&instance) {
            instance.sample = sample;
        }
    }

    /// Adds a line to the log of an instance.
    pub fn log(&self, instance: InstanceId, text: &str) {
        if let Some(instance) = self.state.lock().instances.get_mut(&instance) {
            instance.say(text);
        }
    }

    /// Returns the running instances with their current settings.
    pub fn running(&self) -> Vec<(InstanceId, Settings)> {
        let state = self.state.lock();
        let running = state.instances.iter().filter(|(_, instance)| instance.handle.is_some());
        running.map(|(id, instance)| (*id, instance.settings.clone())).collect()
    }

    /// Returns the settings that were applied to the processes of an instance, in order.
    pub fn applied(&self, instance: InstanceId) -> Vec<Settings> {
        self.state.lock().instances.get(&instance).map(|instance| instance.applied.clone()).unwrap_or_default()
    }

    /// Returns the databases of an instance with their seeds, or `None` if the instance has no data.
    pub fn data(&self, instance: InstanceId) -> Option<Vec<(ServedName, DatabaseSeed)>> {
        self.state.lock().instances.get(&instance)?.databases.clone()
    }

    /// Returns the authorizer that the provisioner was connected to.
    pub fn authorizer(&self) -> Option<Arc<dyn Authorizer>> {
        self.state.lock().authorizer.clone()
    }

    /// Checks that a backup exists and has the content it had when it was made.
    fn check_seed(&self, seed: &DatabaseSeed) -> Result<(), ProvisionError> {
        let DatabaseSeed::Backup { file, content } = seed else { return Ok(()) };
        let mut bytes = Vec::new();
        let read = self.blobs.open_backup(file).map(|mut source| source.read_to_end(&mut bytes));
        match read {
            Ok(Ok(_)) if digest(&bytes) == content.sha256 => Ok(()),
            Ok(Ok(_)) => Err(refused("the backup is damaged")),
            Ok(Err(_)) | Err(_) => Err(refused("the backup is missing")),
        }
    }

    /// Returns how often the processes of an instance were asked to forget their callers.
    pub fn forgotten(&self, instance: InstanceId) -> u32 {
        self.state.lock().instances.get(&instance).map_or(0, |instance| instance.forgotten)
    }

    fn stored(&self, instance: InstanceId) -> Result<Vec<(ServedName, DatabaseSeed)>, ProvisionError> {
        let data = if self.state.lock().is_unmounted { None } else { self.data(instance) };
        data.ok_or_else(|| ProvisionError::NoData { path: instance.to_string() })
    }

    fn live<T>(&self, handle: &InstanceHandle, act: impl FnOnce(&mut FakeInstance) -> T) -> Result<T, ProvisionError> {
        let mut state = self.state.lock();
        match state.instances.get_mut(&handle.instance) {
            Some(instance) if instance.handle.as_ref() == Some(handle) => Ok(act(instance)),
            _ => Err(ProvisionError::Gone),
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn refused(why: &str) -> ProvisionError {
    ProvisionError::Refused(why.to_owned())
}

fn ready() -> InstanceEvent {
    InstanceEvent::Ready { host: "127.0.0.1".to_owned(), version: "1.0.0".to_owned() }
}

impl Provisioner for MemoryProvisioner {
    fn connect(&self, authorizer: Arc<dyn Authorizer>) {
        self.state.lock().authorizer = Some(authorizer);
    }

    fn features(&self, _zone: &str) -> Result<ZoneFeatures, ProvisionError> {
        Ok(ZoneFeatures {
            replicas: false,
            public_tls: false,
            remotesapi: false,
            mcp: false,
            credentials: false,
            versions: vec!["1.0.0".to_owned()],
            memory_bytes: Some(64 << 30),
            disk_bytes: Some(2_000 << 30),
        })
    }

    fn port_is_free(&self, port: u16) -> bool {
        let state = self.state.lock();
        let listens = |instance: &FakeInstance| instance.handle.is_some() && instance.spec.port == port;
        !state.busy_ports.contains(&port) && !state.instances.values().any(listens)
    }

    fn prepare(&self, spec: &InstanceSpec, seeds: &[DatabaseSeed]) -> Result<(), ProvisionError> {
        for seed in seeds {
            self.check_seed(seed)?;
        }
        let mut state = self.state.lock();
        let instance = state.instances.entry(spec.instance).or_insert_with(|| FakeInstance {
            spec: spec.clone(),
            databases: None,
            handle: None,
            events: VecDeque::new(),
            settings: spec.settings.clone(),
            settings_revision: spec.settings_revision,
            applied: Vec::new(),
            lines: Vec::new(),
            sample: Sample::default(),
            forgotten: 0,
        });
        if instance.databases.is_none() {
            instance.databases = Some(spec.databases.iter().cloned().zip(seeds.iter().cloned()).collect());
        }
        Ok(())
    }

    fn remove(&self, instance: InstanceId) -> Result<(), ProvisionError> {
        match self.state.lock().instances.get_mut(&instance) {
            Some(instance) if instance.handle.is_some() => Err(refused("the instance runs")),
            Some(instance) => {
                instance.databases = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn forget(&self, deployment: DeploymentId) -> Result<(), ProvisionError> {
        let mut state = self.state.lock();
        let runs = |i: &FakeInstance| i.spec.deployment == deployment && i.handle.is_some();
        if state.instances.values().any(runs) {
            return Err(refused("an instance runs"));
        }
        state.instances.retain(|_, instance| instance.spec.deployment != deployment);
        Ok(())
    }

    fn start(&self, spec: &InstanceSpec) -> Result<InstanceHandle, ProvisionError> {
        let mut state = self.state.lock();
        if let Some(why) = &state.refuse_start {
            return Err(refused(why));
        }
        let path = spec.instance.to_string();
        if state.is_unmounted {
            return Err(ProvisionError::NoData { path });
        }
        state.processes += 1;
        let (process, never_ready) = (state.processes, state.never_ready);
        let instance = state.instances.get_mut(&spec.instance).filter(|instance| instance.databases.is_some());
        let instance = instance.ok_or(ProvisionError::NoData { path })?;
        if let Some(handle) = &instance.handle {
            return Ok(handle.clone());
        }
        let handle = InstanceHandle { instance: spec.instance, process, process_started: process.to_string() };
        instance.spec = spec.clone();
        instance.settings = spec.settings.clone();
        instance.settings_revision = spec.settings_revision;
        instance.events.clear();
        if never_ready {
            instance.say("ERROR cannot start");
            let ended = InstanceEvent::Ended { cause: "exit status 1".to_owned(), stderr: "cannot start".to_owned() };
            instance.events.push_back(ended);
        } else {
            instance.say("INFO ready event=started");
            instance.events.push_back(ready());
        }
        instance.handle = Some(handle.clone());
        Ok(handle)
    }

    fn adopt(&self, _spec: &InstanceSpec, handle: &InstanceHandle) -> Result<(), ProvisionError> {
        self.live(handle, |instance| {
            instance.events.clear();
            instance.events.push_back(ready());
        })
    }

    fn watch(&self, handle: &InstanceHandle, wait: Duration) -> Result<Option<InstanceEvent>, ProvisionError> {
        let mut state = self.state.lock();
        let idle = state.instances.get(&handle.instance).is_some_and(|i| i.events.is_empty() && i.handle.is_some());
        if state.waits && idle {
            drop(state);
            std::thread::sleep(wait);
            state = self.state.lock();
        }
        let instance = state.instances.get_mut(&handle.instance).ok_or(ProvisionError::Gone)?;
        let event = instance.events.pop_front();
        if matches!(event, Some(InstanceEvent::Ended { .. })) {
            instance.handle = None;
        } else if event.is_none() && instance.handle.as_ref() != Some(handle) {
            return Err(ProvisionError::Gone);
        }
        Ok(event)
    }

    fn stop(&self, handle: &InstanceHandle, _deadline: Duration) -> Result<(), ProvisionError> {
        let stopped = self.live(handle, |instance| {
            instance.say("INFO drained event=stopped");
            instance.handle = None;
            instance.events.clear();
        });
        match stopped {
            Err(ProvisionError::Gone) => Ok(()),
            other => other,
        }
    }

    fn release(&self, _handle: &InstanceHandle) {}

    fn apply(&self, handle: &InstanceHandle, settings: &Settings, revision: i64) -> Result<(), ProvisionError> {
        let act = self.state.lock().before_apply.take();
        if let Some(act) = act {
            act();
        }
        self.live(handle, |instance| {
            if revision >= instance.settings_revision {
                instance.settings = settings.clone();
                instance.settings_revision = revision;
                instance.applied.push(settings.clone());
            }
        })
    }

    fn forget_callers(&self, handle: &InstanceHandle) -> Result<(), ProvisionError> {
        self.live(handle, |instance| instance.forgotten += 1)
    }

    fn address(&self, handle: &InstanceHandle) -> Result<SocketAddr, ProvisionError> {
        self.live(handle, |instance| SocketAddr::from((Ipv4Addr::LOCALHOST, instance.spec.port)))
    }

    fn sample(&self, handle: &InstanceHandle) -> Result<Sample, ProvisionError> {
        self.live(handle, |instance| instance.sample.clone())
    }

    fn logs(&self, instance: InstanceId, query: &OutputQuery) -> Result<Vec<OutputLine>, ProvisionError> {
        let state = self.state.lock();
        let Some(instance) = state.instances.get(&instance) else { return Ok(Vec::new()) };
        let inside = |line: &&OutputLine| {
            let after = query.since.is_none_or(|since| line.time >= since);
            let before = query.until.is_none_or(|until| line.time <= until);
            after
                && before
                && match query.towards {
                    Towards::Older => query.from.is_none_or(|from| line.end <= from),
                    Towards::Newer => query.from.is_none_or(|from| line.begin >= from),
                }
        };
        let found: Vec<OutputLine> = instance.lines.iter().filter(inside).cloned().collect();
        let skipped = match query.towards {
            Towards::Older => found.len().saturating_sub(query.limit),
            Towards::Newer => 0,
        };
        Ok(found.into_iter().skip(skipped).take(query.limit).collect())
    }

    fn record(&self, instance: InstanceId, event: &SupervisorEvent) -> Result<(), ProvisionError> {
        if let Some(instance) = self.state.lock().instances.get_mut(&instance) {
            match event {
                SupervisorEvent::CrashLoop { error } => {
                    instance.say(&format!("ERROR crash loop event=crash_loop error={error}"));
                }
                SupervisorEvent::DataDiscarded { by } => {
                    instance.say(&format!("WARN discarded event=data_discarded by={by}"));
                }
            }
        }
        Ok(())
    }

    fn sizes(&self, spec: &InstanceSpec) -> Result<Vec<u64>, ProvisionError> {
        let data = self.stored(spec.instance)?;
        let size = |name: &ServedName| data.iter().find(|(known, _)| known.key() == name.key()).map(|_| 4_096);
        Ok(spec.databases.iter().map(|name| size(name).unwrap_or(0)).collect())
    }

    fn snapshot(&self, spec: &InstanceSpec, backup: BackupId) -> Result<Vec<CopiedDatabase>, ProvisionError> {
        let act = self.state.lock().before_snapshot.take();
        if let Some(act) = act {
            act();
        }
        if let Some(why) = &self.state.lock().refuse_snapshot {
            return Err(refused(why));
        }
        let data = self.stored(spec.instance)?;
        let mut copied = Vec::new();
        for (name, seed) in data {
            let content = format!("the bytes of {name}");
            let file = BackupFile { deployment: spec.deployment, backup, database: name.clone() };
            let kept = self.blobs.put_backup(&file, &mut content.as_bytes());
            let size_bytes = kept.map_err(|error| refused(&error.to_string()))?;
            let sha256 = digest(content.as_bytes());
            copied.push(CopiedDatabase { name, size_bytes, sha256, heads: heads(&seed) });
        }
        Ok(copied)
    }

    fn create_database(
        &self,
        handle: &InstanceHandle,
        _operation: OperationId,
        name: &ServedName,
        seed: &DatabaseSeed,
    ) -> Result<(), ProvisionError> {
        self.live(handle, |instance| {
            let databases = instance.databases.get_or_insert_default();
            if !databases.iter().any(|(known, _)| known.key() == name.key()) {
                databases.push((name.clone(), seed.clone()));
            }
        })
    }

    fn drop_database(
        &self,
        handle: &InstanceHandle,
        _operation: OperationId,
        name: &ServedName,
    ) -> Result<(), ProvisionError> {
        self.live(handle, |instance| {
            instance.databases.get_or_insert_default().retain(|(known, _)| known.key() != name.key());
        })
    }
}

/// Returns the heads of a database right after its creation.
fn heads(seed: &DatabaseSeed) -> Vec<(RefName, CommitHash)> {
    match seed {
        DatabaseSeed::Empty { .. } => {
            let first = CommitHash::parse(&"0".repeat(40)).ok();
            RefName::parse("main").ok().zip(first).into_iter().collect()
        }
        DatabaseSeed::Hub { commit, branch, .. } => vec![(branch.clone(), commit.clone())],
        DatabaseSeed::Backup { content, .. } => content.heads.clone(),
    }
}
