//! The contract suite of [`Provisioner`].
//!
//! Each check uses its own instances, so checks may run in any order. They run on a [`Stage`], which an
//! implementation provides.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use branchyard_deployments::ports::{
    BackupFile, BackupFiles, DatabaseSeed, InstanceEvent, InstanceHandle, InstanceSpec, OutputQuery, ProvisionError,
    Provisioner, SupervisorEvent, Towards,
};
use branchyard_deployments::values::{BackupId, DeploymentId, InstanceId, ServedName, Setting, Settings};
use branchyard_domain::entities::Signature;
use branchyard_domain::values::{OperationId, Timestamp};

const LONG: Duration = Duration::from_secs(35);
const DRAIN: Duration = Duration::from_secs(15);

/// The environment in which an implementation is tested.
pub trait Stage {
    /// Returns the provisioner, which is connected to an authorizer.
    fn provisioner(&self) -> Arc<dyn Provisioner>;
    /// Returns the provisioner of a subsequent server over the same data.
    fn successor(&self) -> Arc<dyn Provisioner>;
    /// Returns a free port.
    fn port(&self) -> u16;
    /// Kills a process without the provisioner.
    fn kill(&self, handle: &InstanceHandle);
    /// Returns the store of backup files that the provisioner uses.
    fn backup_files(&self) -> Arc<dyn BackupFiles>;
}

/// A check of one part of the contract.
pub type ProvisionerCheck = fn(&dyn Stage);

/// Every check with its name.
pub const ALL: &[(&str, ProvisionerCheck)] = &[
    ("preparation", preparation),
    ("life", life),
    ("ends", ends),
    ("adoption", adoption),
    ("databases", databases),
    ("backups", backups),
    ("output", output),
    ("records", records),
];

/// Runs every check in sequence.
pub fn run_all(stage: &dyn Stage) {
    for (_, check) in ALL {
        check(stage);
    }
}

fn spec(stage: &dyn Stage, n: u128, databases: &[&str]) -> InstanceSpec {
    InstanceSpec {
        deployment: DeploymentId::from_uuid(Uuid::from_u128(n)),
        instance: InstanceId::from_uuid(Uuid::from_u128(n + 1)),
        label: "ada/suite".to_owned(),
        zone: "local".to_owned(),
        port: stage.port(),
        cpus: 1,
        memory_gb: 1,
        volume_gb: 1,
        databases: databases.iter().map(|name| name_of(name)).collect(),
        settings: Settings::default(),
        settings_revision: 1,
        expose_stats: false,
    }
}

fn name_of(text: &str) -> ServedName {
    ServedName::parse(text).unwrap()
}

fn empty() -> DatabaseSeed {
    let at = Timestamp::from_seconds(1_788_523_200);
    DatabaseSeed::Empty { author: Signature { name: "ada".to_owned(), email: "ada@example.test".to_owned(), at } }
}

fn gone<T: std::fmt::Debug>(result: Result<T, ProvisionError>) {
    assert!(matches!(result, Err(ProvisionError::Gone)), "{result:?}");
}

fn refused<T: std::fmt::Debug>(result: Result<T, ProvisionError>) {
    assert!(matches!(result, Err(ProvisionError::Refused(_))), "{result:?}");
}

fn without_data<T: std::fmt::Debug>(result: Result<T, ProvisionError>) {
    assert!(matches!(result, Err(ProvisionError::NoData { .. })), "{result:?}");
}

/// Waits for the next event.
fn next(provisioner: &dyn Provisioner, handle: &InstanceHandle) -> InstanceEvent {
    let began = Instant::now();
    loop {
        if let Some(event) = provisioner.watch(handle, Duration::from_secs(1)).unwrap() {
            return event;
        }
        assert!(began.elapsed() < LONG, "nothing happened");
    }
}

fn serving(provisioner: &dyn Provisioner, spec: &InstanceSpec) -> InstanceHandle {
    let handle = provisioner.start(spec).unwrap();
    let event = next(provisioner, &handle);
    let InstanceEvent::Ready { host, version } = event else { panic!("{event:?}") };
    assert!(!host.is_empty());
    assert_eq!(provisioner.features(&spec.zone).unwrap().versions.first(), Some(&version));
    handle
}

/// Checks that an instance has to be prepared before it starts, and that repeated preparation changes nothing.
pub fn preparation(stage: &dyn Stage) {
    let provisioner = stage.provisioner();
    let spec = spec(stage, 0x100, &["one", "two"]);
    without_data(provisioner.start(&spec));
    for _ in 0..2 {
        provisioner.prepare(&spec, &[empty(), empty()]).unwrap();
    }
    let sizes = provisioner.sizes(&spec).unwrap();
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size > 0), "{sizes:?}");
    for _ in 0..2 {
        provisioner.remove(spec.instance).unwrap();
    }
    without_data(provisioner.start(&spec));
    without_data(provisioner.sizes(&spec));
    for _ in 0..2 {
        provisioner.forget(spec.deployment).unwrap();
    }
}

/// Checks start, status and stop of an instance. Every step can be repeated.
pub fn life(stage: &dyn Stage) {
    let provisioner = stage.provisioner();
    let spec = spec(stage, 0x200, &["one"]);
    provisioner.prepare(&spec, &[empty()]).unwrap();
    assert!(provisioner.port_is_free(spec.port));
    let handle = serving(&*provisioner, &spec);
    assert_eq!(handle.instance, spec.instance);
    assert!(!provisioner.port_is_free(spec.port));
    assert_eq!(provisioner.start(&spec).unwrap(), handle, "the one that runs");
    assert_eq!(provisioner.watch(&handle, Duration::ZERO).unwrap(), None, "told once");
    assert_eq!(provisioner.address(&handle).unwrap().port(), spec.port);
    provisioner.sample(&handle).unwrap();
    provisioner.forget_callers(&handle).unwrap();
    let mut settings = Settings::default();
    settings.set(Setting::QueryTimeoutMillis, Some("5000".to_owned())).unwrap();
    for _ in 0..2 {
        provisioner.apply(&handle, &settings, 2).unwrap();
    }
    // Older settings that arrive late change nothing, and are no error. `records` shows which ones are in force.
    provisioner.apply(&handle, &Settings::default(), 1).unwrap();
    refused(provisioner.remove(spec.instance));
    refused(provisioner.forget(spec.deployment));

    for _ in 0..2 {
        provisioner.stop(&handle, DRAIN).unwrap();
    }
    assert!(provisioner.port_is_free(spec.port));
    gone(provisioner.watch(&handle, Duration::ZERO));
    gone(provisioner.adopt(&spec, &handle));
    gone(provisioner.address(&handle));
    gone(provisioner.apply(&handle, &settings, 3));
    gone(provisioner.sample(&handle));
    gone(provisioner.forget_callers(&handle));
    gone(provisioner.drop_database(&handle, OperationId::from_uuid(Uuid::from_u128(1)), &name_of("one")));
    provisioner.remove(spec.instance).unwrap();
    provisioner.forget(spec.deployment).unwrap();
}

/// Checks that an unexpected end is reported once, and that the next start creates another process.
pub fn ends(stage: &dyn Stage) {
    let provisioner = stage.provisioner();
    let spec = spec(stage, 0x300, &["one"]);
    provisioner.prepare(&spec, &[empty()]).unwrap();
    let first = serving(&*provisioner, &spec);
    stage.kill(&first);
    let event = next(&*provisioner, &first);
    let InstanceEvent::Ended { cause, .. } = event else { panic!("{event:?}") };
    assert_eq!(cause, "signal 9");
    gone(provisioner.watch(&first, Duration::ZERO));
    let second = serving(&*provisioner, &spec);
    assert_ne!(first, second);
    gone(provisioner.address(&first));
    provisioner.stop(&second, Duration::ZERO).unwrap();
    provisioner.forget(spec.deployment).unwrap();
}

/// Checks that a subsequent server adopts exactly the process that runs.
pub fn adoption(stage: &dyn Stage) {
    let before = stage.provisioner();
    let spec = spec(stage, 0x400, &["one"]);
    before.prepare(&spec, &[empty()]).unwrap();
    let handle = serving(&*before, &spec);
    before.release(&handle);
    let after = stage.successor();
    for wrong in [
        InstanceHandle { process: handle.process.wrapping_add(1), ..handle.clone() },
        InstanceHandle { process_started: "long ago".to_owned(), ..handle.clone() },
    ] {
        gone(after.adopt(&spec, &wrong));
    }
    for _ in 0..2 {
        after.adopt(&spec, &handle).unwrap();
    }
    let event = next(&*after, &handle);
    assert!(matches!(event, InstanceEvent::Ready { .. }), "{event:?}");
    after.sample(&handle).unwrap();
    after.stop(&handle, DRAIN).unwrap();
    gone(after.adopt(&spec, &handle));
    after.forget(spec.deployment).unwrap();
}

/// Checks that databases are created and dropped while the instance runs, once per operation.
pub fn databases(stage: &dyn Stage) {
    let provisioner = stage.provisioner();
    let mut spec = spec(stage, 0x500, &["one"]);
    provisioner.prepare(&spec, &[empty()]).unwrap();
    let handle = serving(&*provisioner, &spec);
    let (made, dropped) = (Uuid::from_u128(0x5001), Uuid::from_u128(0x5002));
    let two = name_of("two");
    for _ in 0..2 {
        provisioner.create_database(&handle, OperationId::from_uuid(made), &two, &empty()).unwrap();
    }
    spec.databases = vec![two.clone(), name_of("one"), name_of("three")];
    let sizes = provisioner.sizes(&spec).unwrap();
    assert!(sizes[0] > 0 && sizes[1] > 0 && sizes[2] == 0, "in the order asked for: {sizes:?}");
    for _ in 0..2 {
        provisioner.drop_database(&handle, OperationId::from_uuid(dropped), &two).unwrap();
    }
    let sizes = provisioner.sizes(&spec).unwrap();
    assert!(sizes[0] == 0 && sizes[1] > 0, "{sizes:?}");
    provisioner.stop(&handle, DRAIN).unwrap();
    provisioner.forget(spec.deployment).unwrap();
}

/// Checks that backups are taken from running and stopped instances, have the reported content, and are rejected as
/// seeds when damaged.
pub fn backups(stage: &dyn Stage) {
    let (provisioner, blobs) = (stage.provisioner(), stage.backup_files());
    let first = spec(stage, 0x600, &["one", "two"]);
    provisioner.prepare(&first, &[empty(), empty()]).unwrap();
    let handle = serving(&*provisioner, &first);
    let running = BackupId::at(Timestamp::from_seconds(1_788_523_200));
    let resting = running.next();
    let copied = provisioner.snapshot(&first, running).unwrap();
    provisioner.stop(&handle, DRAIN).unwrap();
    let again = provisioner.snapshot(&first, resting).unwrap();
    let heads = |copied: &[branchyard_deployments::ports::CopiedDatabase]| {
        copied.iter().map(|one| (one.name.clone(), one.heads.clone())).collect::<Vec<_>>()
    };
    assert_eq!(heads(&copied), heads(&again));
    assert_eq!(copied.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let file = |of: &branchyard_deployments::ports::CopiedDatabase| BackupFile {
        deployment: first.deployment,
        backup: running,
        database: of.name.clone(),
    };
    for one in &copied {
        let mut bytes = Vec::new();
        blobs.open_backup(&file(one)).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(u64::try_from(bytes.len()).unwrap(), one.size_bytes);
        assert_eq!(HEXLOWER.encode(&Sha256::digest(&bytes)), one.sha256);
        assert_eq!(one.heads.len(), 1);
        assert_eq!(one.heads[0].0.as_str(), "main");
    }

    let seeds: Vec<DatabaseSeed> =
        copied.iter().map(|one| DatabaseSeed::Backup { file: file(one), content: one.clone() }).collect();
    let second = spec(stage, 0x700, &["one", "two"]);
    provisioner.prepare(&second, &seeds).unwrap();
    let handle = serving(&*provisioner, &second);
    let back = provisioner.snapshot(&second, resting).unwrap();
    assert_eq!(heads(&back), heads(&copied));
    provisioner.stop(&handle, DRAIN).unwrap();

    let third = spec(stage, 0x800, &["one", "two"]);
    blobs.put_backup(&file(&copied[1]), &mut &b"not what it was"[..]).unwrap();
    refused(provisioner.prepare(&third, &seeds));
    without_data(provisioner.start(&third));
    blobs.remove_backup(first.deployment, running).unwrap();
    refused(provisioner.prepare(&third, &seeds));
    for spec in [first, second, third] {
        provisioner.forget(spec.deployment).unwrap();
    }
}

/// Checks that events of the supervisor are lines of the log, also of an instance that does not run.
pub fn records(stage: &dyn Stage) {
    let provisioner = stage.provisioner();
    let spec = spec(stage, 0xa00, &["one"]);
    let looping = SupervisorEvent::CrashLoop { error: "exit status 1: no\nroom".to_owned() };
    // Without a folder there is no log.
    provisioner.record(spec.instance, &looping).unwrap();
    provisioner.prepare(&spec, &[empty()]).unwrap();
    let events = || {
        let query = OutputQuery { from: None, towards: Towards::Newer, limit: 1_000, since: None, until: None };
        let lines = provisioner.logs(spec.instance, &query).unwrap();
        let event = |text: &str| Some(text.split_once("event=")?.1.split(' ').next()?.to_owned());
        lines.iter().filter_map(|line| event(&line.text)).collect::<Vec<_>>()
    };
    let handle = serving(&*provisioner, &spec);
    provisioner.record(spec.instance, &looping).unwrap();
    provisioner.stop(&handle, DRAIN).unwrap();
    provisioner.record(spec.instance, &looping).unwrap();
    assert_eq!(events(), ["started", "crash_loop", "stopped", "crash_loop"]);
    let handle = serving(&*provisioner, &spec);
    stage.kill(&handle);
    let ended = next(&*provisioner, &handle);
    assert!(matches!(ended, InstanceEvent::Ended { .. }), "{ended:?}");
    assert_eq!(events()[4..], ["started", "killed"]);
    provisioner.forget(spec.deployment).unwrap();
}

/// Checks that the output of an instance is kept in order after it ends, and that other instances have none of it.
pub fn output(stage: &dyn Stage) {
    let provisioner = stage.provisioner();
    let spec = spec(stage, 0x900, &["one"]);
    provisioner.prepare(&spec, &[empty()]).unwrap();
    let handle = serving(&*provisioner, &spec);
    provisioner.stop(&handle, DRAIN).unwrap();
    let query = OutputQuery { from: None, towards: Towards::Newer, limit: 1_000, since: None, until: None };
    let all = provisioner.logs(spec.instance, &query).unwrap();
    assert!(all.len() >= 2, "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0].time <= pair[1].time && pair[0].end <= pair[1].begin), "{all:?}");
    let first = provisioner.logs(spec.instance, &OutputQuery { limit: 1, ..query }).unwrap();
    assert_eq!(first, all[..1]);
    let newest = OutputQuery { towards: Towards::Older, limit: 1, ..query };
    assert_eq!(provisioner.logs(spec.instance, &newest).unwrap(), all[all.len() - 1..]);
    let rest = OutputQuery { from: Some(all[0].end), ..query };
    assert_eq!(provisioner.logs(spec.instance, &rest).unwrap(), all[1..]);
    let nobody = InstanceId::from_uuid(Uuid::from_u128(0x9ff));
    assert!(provisioner.logs(nobody, &query).unwrap().is_empty());
    provisioner.forget(spec.deployment).unwrap();
    assert!(provisioner.logs(spec.instance, &query).unwrap().is_empty());
}
