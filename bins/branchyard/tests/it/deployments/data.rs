//! Databases of an instance: seeded from the hub, added, dropped, backed up, and restored.

use std::time::Duration;

use branchyard_deployments::ports::{BackupFile, BackupFiles as _, DatabaseSeed, ProvisionError, Provisioner};
use branchyard_deployments::values::{BackupId, InstanceId, ServedName};
use branchyard_domain::ports::{Engine, SqlPower, WriteJob};
use branchyard_domain::values::{DatabaseId, OperationId, RefName, Timestamp};
use branchyard_storage::FolderBlobs;
use serde_json::json;
use uuid::Uuid;

use super::harness::{InstanceHarness, author, empty, execute};

fn name(text: &str) -> ServedName {
    ServedName::parse(text).unwrap()
}

fn operation(n: u128) -> OperationId {
    OperationId::from_uuid(Uuid::from_u128(n))
}

#[test]
fn a_hub_database_is_cloned_at_a_commit_beside_the_others() {
    let harness = InstanceHarness::start();
    let hub = DatabaseId::from_uuid(Uuid::from_u128(99));
    let base = harness.engine.create(hub, &author(), "Create database").unwrap();
    let commit = |base, statements| {
        let author = author();
        let timeout = Duration::from_secs(30);
        let job = WriteJob { base, statements, message: "Write", then_merge: None, author: &author, timeout };
        match harness.engine.write(hub, &job).unwrap().outcome {
            branchyard_domain::ports::MergeOutcome::Head(head) => head,
            other => panic!("{other:?}"),
        }
    };
    let first = commit(&base, "create table t(a); insert into t values (1)");
    commit(&first, "insert into t values (2)");
    let seed = |branch: &str| DatabaseSeed::Hub {
        database: hub,
        commit: first.clone(),
        branch: RefName::parse(branch).unwrap(),
    };
    harness.local.create_database(&harness.handle, operation(1), &name("rivers"), &seed("release/1")).unwrap();
    // Repeating an operation succeeds without effect. Another operation with the same name fails.
    harness.local.create_database(&harness.handle, operation(1), &name("rivers"), &seed("release/1")).unwrap();
    let taken = harness.local.create_database(&harness.handle, operation(2), &name("RIVERS"), &empty());
    assert!(matches!(taken, Err(ProvisionError::Refused(_))), "{taken:?}");
    let ask = |sql: &str| {
        let answer = harness.pipeline_at(
            "/db/rivers/v3/pipeline",
            &harness.writer,
            None,
            json!([execute(sql), {"type": "close"}]),
        );
        super::harness::rows(&answer.ok()["results"][0]["response"]["result"])[0][0].as_str().unwrap().to_owned()
    };
    assert_eq!(ask("select dolt_hashof('HEAD')"), first.to_string());
    assert_eq!(ask("select active_branch()"), "release/1");
    assert_eq!(ask("select count(*) from t"), "1");
    assert_eq!(ask("select count(*) from dolt_branches"), "1");
    // One size per requested database, in the same order, and 0 for a missing database.
    let mut both = harness.spec.clone();
    both.databases.push(name("rivers"));
    let sizes = || harness.local.sizes(&both).unwrap();
    assert!(sizes().iter().all(|bytes| *bytes > 0), "{:?}", sizes());
    harness.local.drop_database(&harness.handle, operation(3), &name("rivers")).unwrap();
    harness.local.drop_database(&harness.handle, operation(3), &name("rivers")).unwrap();
    harness.pipeline_at("/db/rivers/v3/pipeline", &harness.writer, None, json!([])).refused(404, "NOT_FOUND");
    assert!(matches!(sizes()[..], [first, 0] if first > 0), "{:?}", sizes());
}

#[test]
fn a_backup_holds_what_was_not_committed_and_damage_is_found() {
    let mut harness = InstanceHarness::start();
    harness.sql(&[
        "create table t(id integer primary key)",
        "insert into t values (1)",
        "select dolt_commit('-A', '-m', 'one')",
        "select dolt_branch('work')",
        "insert into t values (2)",
    ]);
    let backup = BackupId::at(Timestamp::from_seconds(1_788_523_200));
    let copied = harness.local.snapshot(&harness.spec, backup).unwrap();
    let branches: Vec<&str> = copied[0].heads.iter().map(|(branch, _)| branch.as_str()).collect();
    assert_eq!((copied.len(), branches), (1, vec!["main", "work"]));
    harness.sql(&["delete from t"]);
    let stopped = BackupId::at(Timestamp::from_seconds(1_788_523_201));
    harness.local.stop(&harness.handle, Duration::from_secs(10)).unwrap();
    assert_eq!(harness.local.snapshot(&harness.spec, stopped).unwrap()[0].heads, copied[0].heads);

    let file = BackupFile { deployment: harness.spec.deployment, backup, database: copied[0].name.clone() };
    let seed = DatabaseSeed::Backup { file: file.clone(), content: copied[0].clone() };
    harness.spec.instance = InstanceId::from_uuid(Uuid::from_u128(3));
    harness.local.prepare(&harness.spec, std::slice::from_ref(&seed)).unwrap();
    harness.local.prepare(&harness.spec, std::slice::from_ref(&seed)).unwrap();
    harness.start_again();
    assert_eq!(harness.sql(&["select count(*) from t"]), [["2"]]);
    let admin = harness.person("ada", SqlPower::Admin);
    assert_eq!(harness.sql_as(&admin, &["select count(*) from dolt_branches"]), [["2"]]);

    let blobs = FolderBlobs::open(harness.dir.path().join("uploads"), harness.dir.path().join("backups")).unwrap();
    blobs.put_backup(&file, &mut &b"something else"[..]).unwrap();
    harness.local.stop(&harness.handle, Duration::from_secs(10)).unwrap();
    harness.spec.instance = InstanceId::from_uuid(Uuid::from_u128(4));
    let refused = harness.local.prepare(&harness.spec, &[seed]);
    assert!(matches!(refused, Err(ProvisionError::Refused(_))), "{refused:?}");
    assert!(matches!(harness.local.start(&harness.spec), Err(ProvisionError::NoData { .. })));
    harness.ends = false;
}
