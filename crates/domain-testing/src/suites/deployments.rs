//! Deployments: their rows, the ledger, backups, samples, operations.

use super::metadata::{account_id, at, hash, id, operation_id, organization, owner, reference, user};
use branchyard_deployments::entities::{
    Attempts, Backup, BackupKind, Deployment, DeploymentFailure, DeploymentFailureKind, DeploymentLocator,
    DeploymentOperation, DeploymentOrigin, DeploymentProgress, DeploymentRole, DeploymentWork, Instance, InstanceSize,
    Interval, Metered, RunState, Shutdown,
};
use branchyard_deployments::ports::{
    BackupFile, CopiedDatabase, DatabaseSeed, DeploymentOperationFilter, DeploymentOperationKind, DeploymentStore,
    DeploymentUnit, InstanceHandle, Resolution, Sample, Series,
};
use branchyard_deployments::values::{
    BackupId, DeploymentId, DeploymentName, InstanceId, ServedName, Setting, Settings, Usd,
};
use branchyard_domain::entities::{DatabaseLocator, Signature, User};
use branchyard_domain::ports::{MetadataError, OperationState};
use branchyard_domain::values::{DatabaseId, DatabaseName, Timestamp};

/// A check of one property; each needs an empty store.
pub type Check = fn(&dyn DeploymentStore);

/// All checks by name, for runners that make a store for each.
pub const ALL: &[(&str, Check)] = &[
    ("deployments", deployments),
    ("instances", instances),
    ("ledger", ledger),
    ("backups_and_samples", backups_and_samples),
    ("deployment_operations", deployment_operations),
    ("one_transaction", one_transaction),
];

/// Runs all checks, each on a store of its own.
pub fn run_all(make: &dyn Fn() -> Box<dyn DeploymentStore>) {
    for (_, check) in ALL {
        check(&*make());
    }
}

fn write<T>(store: &dyn DeploymentStore, work: impl FnOnce(&mut dyn DeploymentUnit) -> T) -> T {
    let mut unit = store.write_deployments().unwrap();
    let done = work(unit.as_mut());
    unit.save().unwrap();
    done
}

fn read<T>(store: &dyn DeploymentStore, work: impl FnOnce(&mut dyn DeploymentUnit) -> T) -> T {
    work(store.read_deployments().unwrap().as_mut())
}

fn deployment_id(n: u128) -> DeploymentId {
    DeploymentId::from_uuid(id(n))
}

fn instance_id(n: u128) -> InstanceId {
    InstanceId::from_uuid(id(n))
}

fn served(text: &str) -> ServedName {
    ServedName::parse(text).unwrap()
}

fn deployment(n: u128, by: &User, name: &str) -> Deployment {
    let mut settings = Settings::default();
    settings.set(Setting::QueryThreads, Some("4".to_owned())).unwrap();
    Deployment {
        id: deployment_id(n),
        owner_id: by.id,
        locator: DeploymentLocator { owner: by.name.clone(), name: DeploymentName::parse(name).unwrap() },
        state: RunState::Starting,
        cloud: "local".to_owned(),
        zone: "local".to_owned(),
        node: "here".to_owned(),
        created_by: by.name.clone(),
        created_at: at(1),
        databases: vec![served("rivers"), served("-x-")],
        origin: Some(DeploymentOrigin {
            database: DatabaseLocator { owner: owner("ann"), name: DatabaseName::parse("rivers").unwrap() },
            reference: "main".to_owned(),
            commit: hash(7),
        }),
        settings,
        expose_stats: true,
        public_tls: false,
        keeps_version: true,
        database_version: Some("1.2.3".to_owned()),
        disabled: Some((at(2), owner("bob"))),
        last_error: Some("ünï ☂".to_owned()),
        version: 1,
        removed_at: None,
        deleted_at: None,
    }
}

fn copied(name: &str) -> CopiedDatabase {
    CopiedDatabase {
        name: served(name),
        size_bytes: 4_096,
        sha256: "ab".repeat(32),
        heads: vec![(reference("main"), hash(1)), (reference("feature/x"), hash(2))],
    }
}

fn instance(n: u128, deployment: &Deployment, port: u16) -> Instance {
    let backup = BackupId::at(at(3));
    Instance {
        id: instance_id(n),
        deployment_id: deployment.id,
        index: 0,
        state: RunState::Starting,
        port,
        size: InstanceSize {
            type_id: "local.small".to_owned(),
            type_name: "small".to_owned(),
            cpus: 1,
            memory_gb: 2,
            volume_type_id: "local.standard".to_owned(),
            volume_type_name: "Standard".to_owned(),
            volume_gb: 10,
            compute_rate: Usd::from_nanos(6_849_320),
            storage_rate: Usd::from_nanos(1_369_863),
        },
        accepted_at: at(1),
        started_at: Some(at(2)),
        host: Some("127.0.0.1".to_owned()),
        restarts: 3,
        seeds: vec![
            DatabaseSeed::Empty { author: Signature { name: "Ann".into(), email: "a@x".into(), at: at(1) } },
            DatabaseSeed::Hub { database: DatabaseId::from_uuid(id(9)), commit: hash(3), branch: reference("main") },
            DatabaseSeed::Backup {
                file: BackupFile { deployment: deployment.id, backup, database: served("rivers") },
                content: copied("rivers"),
            },
        ],
        prepared: true,
        was_ready: true,
        handle: Some(InstanceHandle {
            instance: instance_id(n),
            process: 4_242,
            process_started: "12345.67".to_owned(),
        }),
        started_with: deployment.settings.clone(),
        draining: true,
        attempts: Attempts { failed: 2, ends: vec![at(4), at(5)], not_before: Some(at(6)) },
        crash_loop: true,
        volume_full: true,
        shutdown: Some(Shutdown { final_backup: true, not_before: Some(at(7)) }),
    }
}

/// Deployments: names, versions, lists, collaborators, and what is busy.
pub fn deployments(store: &dyn DeploymentStore) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let acme = organization(3, "Acme");
    let (mut gauges, pumps) = (deployment(10, &ann, "Gauges"), deployment(11, &ann, "pumps"));
    write(store, |unit| {
        for user in [&ann, &bob] {
            unit.users().add(user).unwrap();
        }
        unit.organizations().add(&acme).unwrap();
        unit.deployments().add(&gauges).unwrap();
        unit.deployments().add(&pumps).unwrap();
        assert!(matches!(unit.deployments().add(&deployment(12, &ann, "GAUGES")), Err(MetadataError::Taken)));
        unit.deployments().add(&deployment(13, &bob, "gauges")).unwrap();
    });
    read(store, |unit| {
        let by_name = unit.deployments().by_name(&owner("ANN"), &DeploymentName::parse("gauges").unwrap()).unwrap();
        assert_eq!(by_name, Some(gauges.clone()));
        let identity = unit.deployments().identity(&owner("ANN"), &DeploymentName::parse("gauges").unwrap()).unwrap();
        assert_eq!(identity, Some((gauges.id, ann.id)));
        let nobody = unit.deployments().identity(&owner("ann"), &DeploymentName::parse("nothing").unwrap()).unwrap();
        assert_eq!(nobody, None);
        assert_eq!(unit.deployments().get(gauges.id).unwrap(), Some(gauges.clone()));
        assert_eq!(unit.deployments().get(deployment_id(99)).unwrap(), None);
        let ids = |list: Vec<Deployment>| list.iter().map(|d| d.id).collect::<Vec<_>>();
        assert_eq!(ids(unit.deployments().list(ann.id, None, None, 10).unwrap()), [pumps.id, gauges.id]);
        assert_eq!(ids(unit.deployments().list(ann.id, None, Some(pumps.id), 10).unwrap()), [gauges.id]);
        assert_eq!(ids(unit.deployments().list(ann.id, None, None, 1).unwrap()), [pumps.id]);
        assert!(unit.deployments().list(ann.id, Some(RunState::Started), None, 10).unwrap().is_empty());
        assert_eq!(unit.deployments().count_active(ann.id).unwrap(), 2);
        assert_eq!(unit.deployments().busy("here").unwrap(), [gauges.id, pumps.id, deployment_id(13)]);
        assert!(unit.deployments().busy("there").unwrap().is_empty(), "others have their own");
    });
    write(store, |unit| {
        gauges.state = RunState::Stopped;
        gauges.databases = vec![served("other")];
        gauges.origin = None;
        gauges.disabled = None;
        gauges.last_error = None;
        gauges.settings = Settings::default();
        assert!(unit.deployments().update(&gauges).unwrap());
        assert!(!unit.deployments().update(&gauges).unwrap(), "the version counted up");
        gauges.version += 1;
        assert_eq!(unit.deployments().get(gauges.id).unwrap(), Some(gauges.clone()));
        assert_eq!(unit.deployments().count_active(ann.id).unwrap(), 1);
        gauges.removed_at = Some(at(20));
        assert!(unit.deployments().update(&gauges).unwrap());
        gauges.version += 1;
        assert_eq!(unit.deployments().list(ann.id, None, None, 10).unwrap().len(), 1, "a removed one is not listed");
        assert!(unit.deployments().by_name(&ann.name, &gauges.locator.name).unwrap().is_some(), "it holds its name");
        assert_eq!(unit.deployments().identity(&ann.name, &gauges.locator.name).unwrap(), None, "nobody sees it");
        gauges.deleted_at = Some(at(21));
        assert!(unit.deployments().update(&gauges).unwrap());
        assert!(unit.deployments().by_name(&ann.name, &gauges.locator.name).unwrap().is_none());
        unit.deployments().add(&deployment(14, &ann, "gauges")).unwrap();
        assert_eq!(unit.deployments().busy("here").unwrap(), [pumps.id, deployment_id(13), deployment_id(14)]);
    });
    write(store, |unit| {
        assert!(unit.deployment_collaborators().put(pumps.id, bob.id, DeploymentRole::Reader, at(5)).unwrap());
        assert!(!unit.deployment_collaborators().put(pumps.id, bob.id, DeploymentRole::Writer, at(6)).unwrap());
        let found = unit.deployment_collaborators().get(pumps.id, bob.id).unwrap().unwrap();
        assert_eq!((found.username.as_str(), found.role, found.added_at), ("bob", DeploymentRole::Writer, at(5)));
        assert!(unit.deployment_collaborators().put(pumps.id, ann.id, DeploymentRole::Admin, at(7)).unwrap());
        let names: Vec<String> = unit
            .deployment_collaborators()
            .list(pumps.id)
            .unwrap()
            .iter()
            .map(|collaborator| collaborator.username.to_string())
            .collect();
        assert_eq!(names, ["Ann", "bob"]);
        assert_eq!(unit.deployment_collaborators().remove(pumps.id, bob.id).unwrap(), Some(found));
        assert_eq!(unit.deployment_collaborators().remove(pumps.id, bob.id).unwrap(), None);
        assert_eq!(unit.deployment_collaborators().get(pumps.id, account_id(99)).unwrap(), None);
    });
}

/// Instances: all they hold, and ports that nobody else has.
pub fn instances(store: &dyn DeploymentStore) {
    let ann = user(1, "Ann");
    let gauges = deployment(10, &ann, "gauges");
    let mut first = instance(20, &gauges, 17_400);
    write(store, |unit| {
        unit.users().add(&ann).unwrap();
        unit.deployments().add(&gauges).unwrap();
        unit.instances().add(&first).unwrap();
        assert!(matches!(unit.instances().add(&instance(21, &gauges, 17_400)), Err(MetadataError::Taken)));
        unit.instances().add(&instance(22, &gauges, 17_401)).unwrap();
    });
    write(store, |unit| {
        assert_eq!(unit.instances().get(first.id).unwrap(), Some(first.clone()));
        assert_eq!(unit.instances().get(instance_id(99)).unwrap(), None);
        assert!(!unit.instances().update(&instance(99, &gauges, 17_499)).unwrap());
        let moved = Instance { port: 17_401, ..first.clone() };
        assert!(matches!(unit.instances().update(&moved), Err(MetadataError::Taken)));
        let active = unit.instances().active().unwrap();
        let active: Vec<_> = active.into_iter().map(|(i, owner, zone)| (i.id, owner, zone)).collect();
        let of_ann = |n| (instance_id(n), ann.id, "local".to_owned());
        assert_eq!(active, [of_ann(20), of_ann(22)]);
        first.state = RunState::Stopped;
        first.handle = None;
        first.seeds.clear();
        first.shutdown = None;
        first.attempts = Attempts::default();
        assert!(unit.instances().update(&first).unwrap());
        assert_eq!(unit.instances().get(first.id).unwrap(), Some(first.clone()));
        unit.instances().add(&instance(23, &gauges, 17_400)).unwrap();
        let all: Vec<_> = unit.instances().list(gauges.id).unwrap().iter().map(|i| i.id).collect();
        assert_eq!(all, [first.id, instance_id(22), instance_id(23)]);
    });
}

fn interval(instance: &Instance, by: &User, kind: Metered, opened_at: Timestamp) -> Interval {
    Interval {
        owner_id: by.id,
        deployment_id: instance.deployment_id,
        instance_id: instance.id,
        instance_index: 0,
        kind,
        type_id: "local.small".to_owned(),
        rate: Usd::from_nanos(6_849_320),
        opened_at,
        proven_at: None,
        closed_at: None,
    }
}

/// The ledger: one open interval at a time, ends that are never before their begin, lists by range.
pub fn ledger(store: &dyn DeploymentStore) {
    let ann = user(1, "Ann");
    let gauges = deployment(10, &ann, "gauges");
    let process = instance(20, &gauges, 17_400);
    let kind = Metered::Compute;
    write(store, |unit| {
        unit.users().add(&ann).unwrap();
        unit.deployments().add(&gauges).unwrap();
        unit.instances().add(&process).unwrap();
        assert_eq!(unit.ledger().last_end(process.id, kind).unwrap(), None);
        assert!(!unit.ledger().close(process.id, kind, at(1)).unwrap());
        unit.ledger().open(&interval(&process, &ann, Metered::Storage, at(5))).unwrap();
        unit.ledger().open(&interval(&process, &ann, kind, at(10))).unwrap();
        let twice = unit.ledger().open(&interval(&process, &ann, kind, at(11)));
        assert!(matches!(twice, Err(MetadataError::Taken)));
        unit.ledger().prove(process.id, at(15)).unwrap();
        let open = unit.ledger().current(process.id, kind).unwrap().unwrap();
        assert_eq!((open.proven_at, open.closed_at), (Some(at(15)), None));
        assert!(unit.ledger().close(process.id, kind, at(20)).unwrap());
        assert_eq!(unit.ledger().current(process.id, kind).unwrap(), None);
        // A clock that was set back: the interval ends where it began.
        unit.ledger().open(&interval(&process, &ann, kind, at(30))).unwrap();
        assert!(unit.ledger().close(process.id, kind, at(25)).unwrap());
        assert_eq!(unit.ledger().last_end(process.id, kind).unwrap(), Some(at(30)));
        unit.ledger().open(&interval(&process, &ann, kind, at(30))).unwrap();
    });
    read(store, |unit| {
        let ends = |list: Vec<Interval>| list.into_iter().map(|i| (i.kind, i.closed_at)).collect::<Vec<_>>();
        let storage = (Metered::Storage, None);
        let all = unit.ledger().list(gauges.id, at(0), at(100)).unwrap();
        assert_eq!(
            all[0],
            Interval { proven_at: Some(at(15)), closed_at: Some(at(20)), ..interval(&process, &ann, kind, at(10)) }
        );
        assert_eq!(ends(all), [(kind, Some(at(20))), (kind, Some(at(30))), (kind, None), storage]);
        assert_eq!(ends(unit.ledger().list(gauges.id, at(20), at(30)).unwrap()), [storage]);
        assert_eq!(ends(unit.ledger().list_of_owner(ann.id, at(0), at(11)).unwrap()), [(kind, Some(at(20))), storage]);
        assert!(unit.ledger().list_of_owner(account_id(9), at(0), at(100)).unwrap().is_empty());
    });
}

/// Backups and samples.
pub fn backups_and_samples(store: &dyn DeploymentStore) {
    let ann = user(1, "Ann");
    let gauges = deployment(10, &ann, "gauges");
    let process = instance(20, &gauges, 17_400);
    let backup = |seconds, kind| Backup {
        deployment_id: gauges.id,
        id: BackupId::at(at(seconds)),
        kind,
        databases: vec![copied("rivers"), copied("other")],
        expires_at: at(seconds + 100),
    };
    let (old, new) = (backup(5, BackupKind::Nightly), backup(6, BackupKind::Final));
    write(store, |unit| {
        unit.users().add(&ann).unwrap();
        unit.deployments().add(&gauges).unwrap();
        unit.instances().add(&process).unwrap();
        unit.backups().add(&old).unwrap();
        unit.backups().add(&new).unwrap();
        assert!(matches!(unit.backups().add(&backup(5, BackupKind::Manual)), Err(MetadataError::Taken)));
        assert_eq!(unit.backups().list(gauges.id).unwrap(), [new.clone(), old.clone()]);
        assert_eq!(unit.backups().get(gauges.id, old.id).unwrap(), Some(old.clone()));
        assert!(unit.backups().remove(gauges.id, old.id).unwrap());
        assert!(!unit.backups().remove(gauges.id, old.id).unwrap());
        assert_eq!(unit.backups().get(gauges.id, old.id).unwrap(), None);
    });
    let mut sample = Sample::default();
    sample.set(Series::Reads, 3.0);
    sample.set(Series::CpuUsed, 0.125);
    write(store, |unit| {
        for seconds in [30, 15, 45] {
            unit.samples().put(process.id, Resolution::Fine, at(seconds), &sample).unwrap();
        }
        unit.samples().put(process.id, Resolution::Fine, at(15), &Sample::default()).unwrap();
        unit.samples().put(process.id, Resolution::Coarse, at(15), &sample).unwrap();
        let found = unit.samples().list(process.id, Resolution::Fine, at(15), at(45)).unwrap();
        assert_eq!(found, [(at(15), Sample::default()), (at(30), sample.clone())]);
        assert_eq!(unit.samples().purge(Resolution::Fine, at(30)).unwrap(), 1);
        assert_eq!(unit.samples().list(process.id, Resolution::Coarse, at(0), at(99)).unwrap().len(), 1);
        unit.samples().clear(gauges.id).unwrap();
        assert!(unit.samples().list(process.id, Resolution::Fine, at(0), at(99)).unwrap().is_empty());
        unit.samples().put(process.id, Resolution::Coarse, at(60), &sample).unwrap();
    });
}

/// Operations of deployments: settled once, pending ones keep a deployment busy.
pub fn deployment_operations(store: &dyn DeploymentStore) {
    let ann = user(1, "Ann");
    let mut gauges = deployment(10, &ann, "gauges");
    gauges.state = RunState::Stopped;
    let operation = |n, work| DeploymentOperation {
        id: operation_id(n),
        deployment_id: gauges.id,
        locator: gauges.locator.clone(),
        work,
        progress: DeploymentProgress::Queued,
        created_by: ann.id,
        created_by_name: ann.name.clone(),
        created_at: at(1),
        updated_at: None,
    };
    let mut backup = operation(30, DeploymentWork::CreateBackup);
    let reboot = operation(31, DeploymentWork::RebootInstance(instance_id(20)));
    write(store, |unit| {
        unit.users().add(&ann).unwrap();
        unit.deployments().add(&gauges).unwrap();
        assert!(unit.deployments().busy("here").unwrap().is_empty());
        unit.deployment_operations().add(&backup).unwrap();
        unit.deployment_operations().add(&reboot).unwrap();
        assert_eq!(unit.deployments().busy("here").unwrap(), [gauges.id]);
        assert_eq!(unit.deployment_operations().pending(gauges.id).unwrap(), [backup.clone(), reboot.clone()]);
        assert_eq!(unit.deployment_operations().get(reboot.id).unwrap(), Some(reboot.clone()));
        assert_eq!(unit.deployment_operations().get(operation_id(99)).unwrap(), None);
        backup.progress = DeploymentProgress::Succeeded(Some(BackupId::at(at(5))));
        backup.updated_at = Some(at(5));
        assert!(unit.deployment_operations().update(&backup).unwrap());
        assert!(!unit.deployment_operations().update(&backup).unwrap(), "it is settled");
        assert_eq!(unit.deployment_operations().get(backup.id).unwrap(), Some(backup.clone()));
        let failure = DeploymentFailure::new(DeploymentFailureKind::Expired, "NOT_SETTLED", "ünï ☂");
        let failed = DeploymentOperation {
            progress: DeploymentProgress::Failed(failure),
            updated_at: Some(at(9)),
            ..reboot.clone()
        };
        assert!(unit.deployment_operations().update(&failed).unwrap());
        let list = |unit: &mut dyn DeploymentUnit, state, kind, before| {
            let filter = DeploymentOperationFilter { state, kind };
            let found = unit.deployment_operations().list(gauges.id, filter, before, 10).unwrap();
            found.into_iter().map(|operation| operation.id).collect::<Vec<_>>()
        };
        assert_eq!(list(unit, None, None, None), [reboot.id, backup.id]);
        assert_eq!(list(unit, None, None, Some(reboot.id)), [backup.id]);
        assert_eq!(list(unit, Some(OperationState::Failed), None, None), [reboot.id]);
        assert_eq!(list(unit, None, Some(DeploymentOperationKind::CreateBackup), None), [backup.id]);
        assert_eq!(unit.deployment_operations().get(reboot.id).unwrap(), Some(failed));
        assert_eq!(unit.deployment_operations().purge(at(9)).unwrap(), 1);
        assert_eq!(list(unit, None, None, None), [reboot.id]);
    });
}

/// What a unit changes of the hub and of deployments becomes visible in one commit, or not at all.
pub fn one_transaction(store: &dyn DeploymentStore) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    write(store, |unit| unit.users().add(&ann).unwrap());
    let gauges = deployment(10, &ann, "Gauges");
    let seen = || {
        // By the hub alone and by the deployments.
        let of_hub = store.read().unwrap().users().get(bob.id).unwrap().is_some();
        let of_both = read(store, |unit| {
            (unit.users().get(bob.id).unwrap().is_some(), unit.deployments().get(gauges.id).unwrap().is_some())
        });
        (of_hub, of_both)
    };
    let change = |unit: &mut dyn DeploymentUnit| {
        unit.users().add(&bob).unwrap();
        unit.deployments().add(&gauges).unwrap();
    };
    let mut unit = store.write_deployments().unwrap();
    change(unit.as_mut());
    assert_eq!(seen(), (false, (false, false)), "before it is saved");
    drop(unit);
    assert_eq!(seen(), (false, (false, false)), "dropped");

    let before = store.version();
    let mut unit = store.write_deployments().unwrap();
    change(unit.as_mut());
    assert_eq!((seen(), store.version()), ((false, (false, false)), before));
    unit.save().unwrap();
    assert_eq!(seen(), (true, (true, true)), "saved");
    let after = store.version();
    assert!(before.is_none() || after != before);
    assert_eq!(store.version(), after, "one commit, and no other after it");
}
