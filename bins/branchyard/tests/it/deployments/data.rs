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
    let yard = InstanceHarness::start();
    let hub = DatabaseId::from_uuid(Uuid::from_u128(99));
    let base = yard.engine.create(hub, &author(), "Create database").unwrap();
    let commit = |base, statements| {
        let author = author();
        let timeout = Duration::from_secs(30);
        let job = WriteJob { base, statements, message: "Write", then_merge: None, author: &author, timeout };
        match yard.engine.write(hub, &job).unwrap().outcome {
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
    yard.local.create_database(&yard.handle, operation(1), &name("rivers"), &seed("release/1")).unwrap();
    // Repeating an operation succeeds without effect. Another operation with the same name fails.
    yard.local.create_database(&yard.handle, operation(1), &name("rivers"), &seed("release/1")).unwrap();
    let taken = yard.local.create_database(&yard.handle, operation(2), &name("RIVERS"), &empty());
    assert!(matches!(taken, Err(ProvisionError::Refused(_))), "{taken:?}");
    let ask = |sql: &str| {
        let answer =
            yard.pipeline_at("/db/rivers/v3/pipeline", &yard.writer, None, json!([execute(sql), {"type": "close"}]));
        super::harness::rows(&answer.ok()["results"][0]["response"]["result"])[0][0].as_str().unwrap().to_owned()
    };
    assert_eq!(ask("select dolt_hashof('HEAD')"), first.to_string());
    assert_eq!(ask("select active_branch()"), "release/1");
    assert_eq!(ask("select count(*) from t"), "1");
    assert_eq!(ask("select count(*) from dolt_branches"), "1");
    // One size per requested database, in the same order, and 0 for a missing database.
    let mut both = yard.spec.clone();
    both.databases.push(name("rivers"));
    let sizes = || yard.local.sizes(&both).unwrap();
    assert!(sizes().iter().all(|bytes| *bytes > 0), "{:?}", sizes());
    yard.local.drop_database(&yard.handle, operation(3), &name("rivers")).unwrap();
    yard.local.drop_database(&yard.handle, operation(3), &name("rivers")).unwrap();
    yard.pipeline_at("/db/rivers/v3/pipeline", &yard.writer, None, json!([])).refused(404, "NOT_FOUND");
    assert!(matches!(sizes()[..], [first, 0] if first > 0), "{:?}", sizes());
}

#[test]
fn a_backup_holds_what_was_not_committed_and_damage_is_found() {
    let mut yard = InstanceHarness::start();
    yard.sql(&[
        "create table t(id integer primary key)",
        "insert into t values (1)",
        "select dolt_commit('-A', '-m', 'one')",
        "select dolt_branch('work')",
        "insert into t values (2)",
    ]);
    let backup = BackupId::at(Timestamp::from_seconds(1_788_523_200));
    let copied = yard.local.snapshot(&yard.spec, backup).unwrap();
    let branches: Vec<&str> = copied[0].heads.iter().map(|(branch, _)| branch.as_str()).collect();
    assert_eq!((copied.len(), branches), (1, vec!["main", "work"]));
    yard.sql(&["delete from t"]);
    let stopped = BackupId::at(Timestamp::from_seconds(1_788_523_201));
    yard.local.stop(&yard.handle, Duration::from_secs(10)).unwrap();
    assert_eq!(yard.local.snapshot(&yard.spec, stopped).unwrap()[0].heads, copied[0].heads);

    let file = BackupFile { deployment: yard.spec.deployment, backup, database: copied[0].name.clone() };
    let seed = DatabaseSeed::Backup { file: file.clone(), content: copied[0].clone() };
    yard.spec.instance = InstanceId::from_uuid(Uuid::from_u128(3));
    yard.local.prepare(&yard.spec, std::slice::from_ref(&seed)).unwrap();
    yard.local.prepare(&yard.spec, std::slice::from_ref(&seed)).unwrap();
    yard.start_again();
    assert_eq!(yard.sql(&["select count(*) from t"]), [["2"]]);
    let admin = yard.person("ada", SqlPower::Admin);
    assert_eq!(yard.sql_as(&admin, &["select count(*) from dolt_branches"]), [["2"]]);

    let blobs = FolderBlobs::open(yard.dir.path().join("uploads"), yard.dir.path().join("backups")).unwrap();
    blobs.put_backup(&file, &mut &b"something else"[..]).unwrap();
    yard.local.stop(&yard.handle, Duration::from_secs(10)).unwrap();
    yard.spec.instance = InstanceId::from_uuid(Uuid::from_u128(4));
    let refused = yard.local.prepare(&yard.spec, &[seed]);
    assert!(matches!(refused, Err(ProvisionError::Refused(_))), "{refused:?}");
    assert!(matches!(yard.local.start(&yard.spec), Err(ProvisionError::Refused(_))));
    yard.ends = false;
}
