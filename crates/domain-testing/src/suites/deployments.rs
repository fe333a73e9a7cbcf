//! The contract suite of [`DeploymentStore`]: deployments, instances, the ledger, backups, samples and operations.

use super::metadata::{account_id, at, database_id, hash, id, operation_id, organization, owner, reference, user};
use branchyard_deployments::entities::{
    Attempts, Backup, BackupKind, Deployment, DeploymentFailure, DeploymentFailureKind, DeploymentLocator,
    DeploymentOperation, DeploymentOrigin, DeploymentProgress, DeploymentRole, DeploymentWork, Instance, InstanceSize,
    Interval, Metered, RunState, Shutdown,
};
use branchyard_deployments::ports::{
    BackupFile, CopiedDatabase, DatabaseSeed, DeploymentOperationFilter, DeploymentOperationKind, DeploymentStore,
    DeploymentTransaction, DeploymentWatchKey, InstanceHandle, Resolution, Sample, Series,
};
use branchyard_deployments::values::{
    BackupId, DeploymentId, DeploymentName, InstanceId, ServedName, Setting, Settings, Usd,
};
use branchyard_domain::entities::{DatabaseLocator, Signature, User};
use branchyard_domain::ports::{Durability, MetadataError, OperationState, WriteKeys};
use branchyard_domain::values::{DatabaseId, DatabaseName, Timestamp};

/// A check of one part of the contract. Needs an empty store.
pub type DeploymentCheck = fn(&dyn DeploymentStore);

/// Every check with its name.
pub const ALL: &[(&str, DeploymentCheck)] = &[
    ("deployments", deployments),
    ("instances", instances),
    ("ledger", ledger),
    ("backups_and_samples", backups_and_samples),
    ("deployment_operations", deployment_operations),
    ("one_transaction", one_transaction),
    ("deployment_marks", deployment_marks),
];

/// Runs every check, each on a new store from `make`.
pub fn run_all(make: &dyn Fn() -> Box<dyn DeploymentStore>) {
    for (_, check) in ALL {
        check(&*make());
    }
}

fn write<T>(store: &dyn DeploymentStore, work: impl FnOnce(&mut dyn DeploymentTransaction) -> T) -> T {
    let mut tx = store.write_deployments(&WriteKeys::any()).unwrap();
    let done = work(tx.as_mut());
    tx.commit(Durability::Synced).unwrap();
    done
}

fn read<T>(store: &dyn DeploymentStore, work: impl FnOnce(&mut dyn DeploymentTransaction) -> T) -> T {
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
            database_id: Some(database_id(11)),
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

/// Checks deployments: names, versions, lists, collaborators, and which deployments are busy.
pub fn deployments(store: &dyn DeploymentStore) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let acme = organization(3, "Acme");
    let (mut gauges, pumps) = (deployment(10, &ann, "Gauges"), deployment(11, &ann, "pumps"));
    write(store, |tx| {
        for user in [&ann, &bob] {
            tx.users().add(user).unwrap();
        }
        tx.organizations().add(&acme).unwrap();
        tx.deployments().add(&gauges).unwrap();
        tx.deployments().add(&pumps).unwrap();
        assert!(matches!(tx.deployments().add(&deployment(12, &ann, "GAUGES")), Err(MetadataError::Taken)));
        tx.deployments().add(&deployment(13, &bob, "gauges")).unwrap();
    });
    read(store, |tx| {
        let by_name = tx.deployments().by_name(&owner("ANN"), &DeploymentName::parse("gauges").unwrap()).unwrap();
        assert_eq!(by_name, Some(gauges.clone()));
        let identity = tx.deployments().identity(&owner("ANN"), &DeploymentName::parse("gauges").unwrap()).unwrap();
        assert_eq!(identity, Some((gauges.id, ann.id)));
        let absent = tx.deployments().identity(&owner("ann"), &DeploymentName::parse("nothing").unwrap()).unwrap();
        assert_eq!(absent, None);
        assert_eq!(tx.deployments().get(gauges.id).unwrap(), Some(gauges.clone()));
        assert_eq!(tx.deployments().get(deployment_id(99)).unwrap(), None);
        let ids = |list: Vec<Deployment>| list.iter().map(|d| d.id).collect::<Vec<_>>();
        assert_eq!(ids(tx.deployments().list(ann.id, None, None, 10).unwrap()), [pumps.id, gauges.id]);
        assert_eq!(ids(tx.deployments().list(ann.id, None, Some(pumps.id), 10).unwrap()), [gauges.id]);
        assert_eq!(ids(tx.deployments().list(ann.id, None, None, 1).unwrap()), [pumps.id]);
        assert!(tx.deployments().list(ann.id, Some(RunState::Started), None, 10).unwrap().is_empty());
        assert_eq!(tx.deployments().count_active(ann.id).unwrap(), 2);
        assert_eq!(tx.deployments().busy("here").unwrap(), [gauges.id, pumps.id, deployment_id(13)]);
        assert!(tx.deployments().busy("there").unwrap().is_empty(), "others have their own");
    });
    write(store, |tx| {
        gauges.state = RunState::Stopped;
        gauges.databases = vec![served("other")];
        gauges.origin = None;
        gauges.disabled = None;
        gauges.last_error = None;
        gauges.settings = Settings::default();
        assert!(tx.deployments().update(&gauges).unwrap());
        assert!(!tx.deployments().update(&gauges).unwrap(), "the version counted up");
        gauges.version += 1;
        assert_eq!(tx.deployments().get(gauges.id).unwrap(), Some(gauges.clone()));
        assert_eq!(tx.deployments().count_active(ann.id).unwrap(), 1);
        gauges.removed_at = Some(at(20));
        assert!(tx.deployments().update(&gauges).unwrap());
        gauges.version += 1;
        assert_eq!(tx.deployments().list(ann.id, None, None, 10).unwrap().len(), 1, "a removed one is not listed");
        assert!(tx.deployments().by_name(&ann.name, &gauges.locator.name).unwrap().is_some(), "it holds its name");
        assert_eq!(
            tx.deployments().identity(&ann.name, &gauges.locator.name).unwrap(),
            None,
            "a removed deployment has no identity"
        );
        gauges.deleted_at = Some(at(21));
        assert!(tx.deployments().update(&gauges).unwrap());
        assert!(tx.deployments().by_name(&ann.name, &gauges.locator.name).unwrap().is_none());
        tx.deployments().add(&deployment(14, &ann, "gauges")).unwrap();
        assert_eq!(tx.deployments().busy("here").unwrap(), [pumps.id, deployment_id(13), deployment_id(14)]);
    });
    write(store, |tx| {
        assert!(tx.deployment_collaborators().put(pumps.id, bob.id, DeploymentRole::Reader, at(5)).unwrap());
        assert!(!tx.deployment_collaborators().put(pumps.id, bob.id, DeploymentRole::Writer, at(6)).unwrap());
        let found = tx.deployment_collaborators().get(pumps.id, bob.id).unwrap().unwrap();
        assert_eq!((found.username.as_str(), found.role, found.added_at), ("bob", DeploymentRole::Writer, at(5)));
        assert!(tx.deployment_collaborators().put(pumps.id, ann.id, DeploymentRole::Admin, at(7)).unwrap());
        let names: Vec<String> = tx
            .deployment_collaborators()
            .list(pumps.id)
            .unwrap()
            .iter()
            .map(|collaborator| collaborator.username.to_string())
            .collect();
        assert_eq!(names, ["Ann", "bob"]);
        assert_eq!(tx.deployment_collaborators().remove(pumps.id, bob.id).unwrap(), Some(found));
        assert_eq!(tx.deployment_collaborators().remove(pumps.id, bob.id).unwrap(), None);
        assert_eq!(tx.deployment_collaborators().get(pumps.id, account_id(99)).unwrap(), None);
    });
}

/// Checks instances: all fields, and that ports are unique among instances that are not stopped.
pub fn instances(store: &dyn DeploymentStore) {
    let ann = user(1, "Ann");
    let gauges = deployment(10, &ann, "gauges");
    let mut first = instance(20, &gauges, 17_400);
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.deployments().add(&gauges).unwrap();
        tx.instances().add(&first).unwrap();
        assert!(matches!(tx.instances().add(&instance(21, &gauges, 17_400)), Err(MetadataError::Taken)));
        tx.instances().add(&instance(22, &gauges, 17_401)).unwrap();
    });
    write(store, |tx| {
        assert_eq!(tx.instances().get(first.id).unwrap(), Some(first.clone()));
        assert_eq!(tx.instances().get(instance_id(99)).unwrap(), None);
        assert!(!tx.instances().update(&instance(99, &gauges, 17_499)).unwrap());
        let moved = Instance { port: 17_401, ..first.clone() };
        assert!(matches!(tx.instances().update(&moved), Err(MetadataError::Taken)));
        let active = tx.instances().active().unwrap();
        let active: Vec<_> = active.into_iter().map(|(i, owner, zone)| (i.id, owner, zone)).collect();
        let of_ann = |n| (instance_id(n), ann.id, "local".to_owned());
        assert_eq!(active, [of_ann(20), of_ann(22)]);
        first.state = RunState::Stopped;
        first.handle = None;
        first.seeds.clear();
        first.shutdown = None;
        first.attempts = Attempts::default();
        assert!(tx.instances().update(&first).unwrap());
        assert_eq!(tx.instances().get(first.id).unwrap(), Some(first.clone()));
        tx.instances().add(&instance(23, &gauges, 17_400)).unwrap();
        let all: Vec<_> = tx.instances().list(gauges.id).unwrap().iter().map(|i| i.id).collect();
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

/// Checks the ledger: at most one open interval, ends that are not before their begin, lists by range.
pub fn ledger(store: &dyn DeploymentStore) {
    let ann = user(1, "Ann");
    let gauges = deployment(10, &ann, "gauges");
    let process = instance(20, &gauges, 17_400);
    let kind = Metered::Compute;
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.deployments().add(&gauges).unwrap();
        tx.instances().add(&process).unwrap();
        assert_eq!(tx.ledger().last_end(process.id, kind).unwrap(), None);
        assert!(!tx.ledger().close(process.id, kind, at(1)).unwrap());
        tx.ledger().open(&interval(&process, &ann, Metered::Storage, at(5))).unwrap();
        tx.ledger().open(&interval(&process, &ann, kind, at(10))).unwrap();
        let twice = tx.ledger().open(&interval(&process, &ann, kind, at(11)));
        assert!(matches!(twice, Err(MetadataError::Taken)));
        tx.ledger().prove(process.id, at(15)).unwrap();
        let open = tx.ledger().current(process.id, kind).unwrap().unwrap();
        assert_eq!((open.proven_at, open.closed_at), (Some(at(15)), None));
        assert!(tx.ledger().close(process.id, kind, at(20)).unwrap());
        assert_eq!(tx.ledger().current(process.id, kind).unwrap(), None);
        // After the clock was set back, an interval ends where it began.
        tx.ledger().open(&interval(&process, &ann, kind, at(30))).unwrap();
        assert!(tx.ledger().close(process.id, kind, at(25)).unwrap());
        assert_eq!(tx.ledger().last_end(process.id, kind).unwrap(), Some(at(30)));
        tx.ledger().open(&interval(&process, &ann, kind, at(30))).unwrap();
    });
    read(store, |tx| {
        let ends = |list: Vec<Interval>| list.into_iter().map(|i| (i.kind, i.closed_at)).collect::<Vec<_>>();
        let storage = (Metered::Storage, None);
        let all = tx.ledger().list(gauges.id, at(0), at(100)).unwrap();
        assert_eq!(
            all[0],
            Interval { proven_at: Some(at(15)), closed_at: Some(at(20)), ..interval(&process, &ann, kind, at(10)) }
        );
        assert_eq!(ends(all), [(kind, Some(at(20))), (kind, Some(at(30))), (kind, None), storage]);
        assert_eq!(ends(tx.ledger().list(gauges.id, at(20), at(30)).unwrap()), [storage]);
        assert_eq!(ends(tx.ledger().list_of_owner(ann.id, at(0), at(11)).unwrap()), [(kind, Some(at(20))), storage]);
        assert!(tx.ledger().list_of_owner(account_id(9), at(0), at(100)).unwrap().is_empty());
    });
}

/// Checks backups and samples.
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
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.deployments().add(&gauges).unwrap();
        tx.instances().add(&process).unwrap();
        tx.backups().add(&old).unwrap();
        tx.backups().add(&new).unwrap();
        assert!(matches!(tx.backups().add(&backup(5, BackupKind::Manual)), Err(MetadataError::Taken)));
        assert_eq!(tx.backups().list(gauges.id).unwrap(), [new.clone(), old.clone()]);
        assert_eq!(tx.backups().get(gauges.id, old.id).unwrap(), Some(old.clone()));
        assert!(tx.backups().remove(gauges.id, old.id).unwrap());
        assert!(!tx.backups().remove(gauges.id, old.id).unwrap());
        assert_eq!(tx.backups().get(gauges.id, old.id).unwrap(), None);
    });
    let mut sample = Sample::default();
    sample.set(Series::Reads, 3.0);
    sample.set(Series::CpuUsed, 0.125);
    write(store, |tx| {
        for seconds in [30, 15, 45] {
            tx.samples().put(process.id, Resolution::Fine, at(seconds), &sample).unwrap();
        }
        tx.samples().put(process.id, Resolution::Fine, at(15), &Sample::default()).unwrap();
        tx.samples().put(process.id, Resolution::Coarse, at(15), &sample).unwrap();
        let found = tx.samples().list(process.id, Resolution::Fine, at(15), at(45)).unwrap();
        assert_eq!(found, [(at(15), Sample::default()), (at(30), sample.clone())]);
        assert_eq!(tx.samples().purge(Resolution::Fine, at(30)).unwrap(), 1);
        assert_eq!(tx.samples().list(process.id, Resolution::Coarse, at(0), at(99)).unwrap().len(), 1);
        tx.samples().clear(gauges.id).unwrap();
        assert!(tx.samples().list(process.id, Resolution::Fine, at(0), at(99)).unwrap().is_empty());
        tx.samples().put(process.id, Resolution::Coarse, at(60), &sample).unwrap();
    });
}

/// Checks operations of deployments: single settlement, and that pending ones keep their deployment busy.
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
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.deployments().add(&gauges).unwrap();
        assert!(tx.deployments().busy("here").unwrap().is_empty());
        tx.deployment_operations().add(&backup).unwrap();
        tx.deployment_operations().add(&reboot).unwrap();
        assert_eq!(tx.deployments().busy("here").unwrap(), [gauges.id]);
        assert_eq!(tx.deployment_operations().pending(gauges.id).unwrap(), [backup.clone(), reboot.clone()]);
        assert_eq!(tx.deployment_operations().get(reboot.id).unwrap(), Some(reboot.clone()));
        assert_eq!(tx.deployment_operations().get(operation_id(99)).unwrap(), None);
        backup.progress = DeploymentProgress::Succeeded(Some(BackupId::at(at(5))));
        backup.updated_at = Some(at(5));
        assert!(tx.deployment_operations().update(&backup).unwrap());
        assert!(!tx.deployment_operations().update(&backup).unwrap(), "it is settled");
        assert_eq!(tx.deployment_operations().get(backup.id).unwrap(), Some(backup.clone()));
        let failure = DeploymentFailure::new(DeploymentFailureKind::Expired, "NOT_SETTLED", "ünï ☂");
        let failed = DeploymentOperation {
            progress: DeploymentProgress::Failed(failure),
            updated_at: Some(at(9)),
            ..reboot.clone()
        };
        assert!(tx.deployment_operations().update(&failed).unwrap());
        let list = |tx: &mut dyn DeploymentTransaction, state, kind, before| {
            let filter = DeploymentOperationFilter { state, kind };
            let found = tx.deployment_operations().list(gauges.id, filter, before, 10).unwrap();
            found.into_iter().map(|operation| operation.id).collect::<Vec<_>>()
        };
        assert_eq!(list(tx, None, None, None), [reboot.id, backup.id]);
        assert_eq!(list(tx, None, None, Some(reboot.id)), [backup.id]);
        assert_eq!(list(tx, Some(OperationState::Failed), None, None), [reboot.id]);
        assert_eq!(list(tx, None, Some(DeploymentOperationKind::CreateBackup), None), [backup.id]);
        assert_eq!(tx.deployment_operations().get(reboot.id).unwrap(), Some(failed));
        assert_eq!(tx.deployment_operations().purge(at(9)).unwrap(), 1);
        assert_eq!(list(tx, None, None, None), [reboot.id]);
    });
}

/// Checks that changes of the hub and of deployments in one transaction are committed atomically.
pub fn one_transaction(store: &dyn DeploymentStore) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    write(store, |tx| tx.users().add(&ann).unwrap());
    let gauges = deployment(10, &ann, "Gauges");
    let seen = || {
        // Seen through the port of the hub, and through the port of deployments.
        let of_hub = store.read().unwrap().users().get(bob.id).unwrap().is_some();
        let of_both = read(store, |tx| {
            (tx.users().get(bob.id).unwrap().is_some(), tx.deployments().get(gauges.id).unwrap().is_some())
        });
        (of_hub, of_both)
    };
    let change = |tx: &mut dyn DeploymentTransaction| {
        tx.users().add(&bob).unwrap();
        tx.deployments().add(&gauges).unwrap();
    };
    let mut tx = store.write_deployments(&WriteKeys::any()).unwrap();
    change(tx.as_mut());
    assert_eq!(seen(), (false, (false, false)), "before it is saved");
    drop(tx);
    assert_eq!(seen(), (false, (false, false)), "dropped");

    let before = store.version();
    let mut tx = store.write_deployments(&WriteKeys::any()).unwrap();
    change(tx.as_mut());
    assert_eq!((seen(), store.version()), ((false, (false, false)), before));
    tx.commit(Durability::Synced).unwrap();
    assert_eq!(seen(), (true, (true, true)), "saved");
    let after = store.version();
    assert!(before.is_none() || after != before);
    assert_eq!(store.version(), after, "one commit, and no other after it");
}

/// Checks that the marks of a deployment change with it and with what a role on it follows from, and with nothing else.
pub fn deployment_marks(store: &dyn DeploymentStore) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let (gauges, pumps) = (deployment(10, &ann, "gauges"), deployment(11, &ann, "pumps"));
    let process = instance(20, &gauges, 17_400);
    write(store, |tx| {
        for user in [&ann, &bob] {
            tx.users().add(user).unwrap();
        }
        tx.deployments().add(&gauges).unwrap();
        tx.deployments().add(&pumps).unwrap();
        tx.instances().add(&process).unwrap();
    });
    let rights = |user: &User| DeploymentWatchKey::Rights(gauges.id, user.id);
    let state = DeploymentWatchKey::State(gauges.id);
    let keys = [rights(&ann), rights(&bob), state, DeploymentWatchKey::State(pumps.id)];
    let absent = DeploymentWatchKey::State(deployment_id(99));
    assert!(store.deployment_marks(&[absent]).unwrap().is_empty());
    let mut marks = store.deployment_marks(&keys).unwrap();
    assert_eq!(marks.len(), keys.len());
    let mut change = |what: &str, changed: &[DeploymentWatchKey], change: &dyn Fn(&mut dyn DeploymentTransaction)| {
        write(store, |tx| change(tx));
        let now = store.deployment_marks(&keys).unwrap();
        for key in &keys {
            assert_eq!(now.get(key) != marks.get(key), changed.contains(key), "{what}: {key:?} is {:?}", now.get(key));
        }
        marks = now;
    };
    change("nothing", &[], &|_| {});
    change("a collaborator", &[rights(&bob)], &|tx| {
        tx.deployment_collaborators().put(gauges.id, bob.id, DeploymentRole::Admin, at(1)).unwrap();
    });
    change("no collaborator", &[rights(&bob)], &|tx| {
        tx.deployment_collaborators().remove(gauges.id, bob.id).unwrap();
    });
    change("a state", &[state], &|tx| {
        let found = tx.deployments().get(gauges.id).unwrap().unwrap();
        assert!(tx.deployments().update(&Deployment { state: RunState::Started, ..found }).unwrap());
    });
    change("an instance", &[state], &|tx| {
        assert!(tx.instances().update(&Instance { restarts: process.restarts + 1, ..process.clone() }).unwrap());
    });
    let reboot = DeploymentOperation {
        id: operation_id(31),
        deployment_id: gauges.id,
        locator: gauges.locator.clone(),
        work: DeploymentWork::RebootInstance(process.id),
        progress: DeploymentProgress::Queued,
        created_by: ann.id,
        created_by_name: ann.name.clone(),
        created_at: at(1),
        updated_at: None,
    };
    change("an operation", &[state], &|tx| tx.deployment_operations().add(&reboot).unwrap());
    change("its end", &[state], &|tx| {
        let progress = DeploymentProgress::Succeeded(None);
        let ended = DeploymentOperation { progress, updated_at: Some(at(5)), ..reboot.clone() };
        assert!(tx.deployment_operations().update(&ended).unwrap());
    });
}
