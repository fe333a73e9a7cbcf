//! Collections in the background, and deleted refs that are kept for a while.

use branchyard_domain::access::{Admin, Caller, Participate, Write};
use branchyard_domain::entities::{CollectionRecord, FileState, OperationStatus, Outcome, Visibility};
use branchyard_domain::errors::RefError;
use branchyard_domain::ports::{Durability, Engine as _, LeaseTurn, Metadata as _, SizeChange, WriteKeys};
use branchyard_domain::usecases::{
    CollectionStep, DeletedBranch, EditDatabase, Limits, NewBranch, NewPull, NewTag, SqlWrite,
};
use branchyard_domain::values::{CommitHash, DatabaseId, PullNumber, RefLogId, Revision};
use branchyard_domain_testing::fakes::SaveFault;

use crate::harness::{DB, DomainHarness, create, name, world_with};

const FORK: (&str, &str) = ("ben", DB.1);
const PLANTED: &str = "INSERT INTO t VALUES (7,'planted')";
const HOLDER: &str = "node/collector";
const HOUR: i64 = 3_600;

impl DomainHarness {
    /// Runs the collections that are due and returns the collected databases.
    fn collect(&self) -> Vec<DatabaseId> {
        let mut collected = Vec::new();
        while let Some(step) = self.hub.collections().collect_next(HOLDER).unwrap() {
            match step {
                CollectionStep::Collected(database, _) => collected.push(database),
                other => panic!("{other:?}"),
            }
        }
        collected
    }

    fn record(&self, of: DatabaseId) -> CollectionRecord {
        self.transaction().collections().get(of).unwrap()
    }

    fn has(&self, commit: &CommitHash) -> bool {
        self.fakes.engine.commit(self.db, commit).unwrap().is_some()
    }

    fn drop_branch(&self, branch: &str) {
        self.hub.branches().delete(&self.access::<Write>(&self.ada), branch, None).unwrap();
    }

    fn restorable(&self) -> Vec<DeletedBranch> {
        self.hub.branches().restorable(&self.access::<Write>(&self.ada), None, 10).unwrap()
    }

    fn restore(&self, id: RefLogId) -> Result<String, RefError> {
        let restored = self.hub.branches().restore(&self.access::<Write>(&self.ada), id);
        restored.map(|branch| format!("{} {}", branch.name, branch.head))
    }

    fn write_in(&self, by: &Caller, at: (&str, &str), statements: &str) -> CommitHash {
        let wanted = SqlWrite {
            from_branch: "main".to_owned(),
            to_branch: name("main"),
            statements: statements.to_owned(),
            message: None,
            expected_head: None,
            start: None,
        };
        let access = self.access_to::<Write>(by, at);
        let operation = self.hub.operations().sql_write(&access, wanted, None).unwrap();
        self.work();
        self.outcome(operation.id).commit.unwrap()
    }

    /// Opens a pull request from Ben's fork, one commit ahead, and returns its number and that commit.
    fn offered(&self) -> (PullNumber, CommitHash) {
        self.hub.operations().fork(&self.access::<Participate>(&self.ben), "ben", None).unwrap();
        self.work();
        let commit = self.write_in(&self.ben, FORK, PLANTED);
        let wanted = NewPull { publish: true, ..DomainHarness::new_pull(FORK, "main", "main") };
        let pull = self.hub.pulls().open(&self.access::<Participate>(&self.ben), wanted, None).unwrap();
        self.refresh();
        assert!(self.has(&commit));
        let base = self.transaction().databases().get(self.db).unwrap().unwrap();
        let size = i64::try_from(self.fakes.engine.size_bytes(self.db).unwrap()).unwrap();
        assert_eq!((base.size_bytes, base.garbage_bytes()), (size, 0), "what was brought counts, and is in use");
        (pull.number, commit)
    }

    fn take_back(&self, number: PullNumber) {
        let pulls = self.hub.pulls();
        let proof = pulls.withdrawable(&self.ben, DB.0, DB.1, number).unwrap();
        pulls.withdraw(&proof, None).unwrap();
    }
}

fn keeping(seconds: i64) -> DomainHarness {
    world_with(Limits { history_seconds: seconds, ..Limits::default() })
}

#[test]
fn a_deleted_branch_is_collected_within_an_hour() {
    let harness = keeping(0);
    let planted = harness.wrote("planted", PLANTED);
    assert_eq!(harness.collect(), []);
    harness.drop_branch("planted");
    harness.fakes.clock.advance_seconds(HOUR / 2 - 1);
    assert_eq!(harness.collect(), [], "several deletions are collected together");
    assert!(harness.has(&planted));
    harness.fakes.clock.advance_seconds(1);
    assert_eq!(harness.collect(), [harness.db]);
    assert!(!harness.has(&planted));
    let after = harness.transaction().databases().get(harness.db).unwrap().unwrap();
    let size = i64::try_from(harness.fakes.engine.size_bytes(harness.db).unwrap()).unwrap();
    assert_eq!((after.size_bytes, after.garbage_bytes()), (size, 0));
    assert_eq!(harness.record(harness.db).due_at, None);
}

#[test]
fn a_deleted_tag_is_collected_too() {
    let harness = keeping(0);
    let tagged = harness.wrote("tagged", PLANTED);
    let wanted = NewTag { name: name("v1"), from: Revision::Branch("tagged".to_owned()), message: None };
    harness.hub.tags().create(&harness.access::<Write>(&harness.ada), wanted, None).unwrap();
    harness.drop_branch("tagged");
    harness.fakes.clock.advance_seconds(HOUR);
    harness.collect();
    assert!(harness.has(&tagged));
    harness.hub.tags().delete(&harness.access::<Write>(&harness.ada), "v1", None).unwrap();
    harness.fakes.clock.advance_seconds(HOUR);
    harness.collect();
    assert!(!harness.has(&tagged));
}

#[test]
fn what_is_deleted_during_a_collection_is_collected_later() {
    let harness = keeping(0);
    harness.wrote("one", PLANTED);
    let two = harness.wrote("two", "INSERT INTO t VALUES (8,'eight')");
    harness.drop_branch("one");
    harness.fakes.clock.advance_seconds(HOUR);
    let (hub, access) = (harness.hub.clone(), harness.access::<Write>(&harness.ada));
    harness.fakes.engine.meanwhile(move || {
        hub.branches().delete(&access, "two", None).unwrap();
    });
    assert_eq!(harness.collect(), [harness.db]);
    assert!(harness.has(&two), "the collection had begun with its commit");
    harness.fakes.clock.advance_seconds(HOUR / 2);
    assert_eq!(harness.collect(), [harness.db]);
    assert!(!harness.has(&two));
}

#[test]
fn withdrawn_content_is_collected_at_once() {
    let harness = keeping(0);
    let (number, commit) = harness.offered();
    assert_eq!(harness.collect(), []);
    let seen = harness.hub.collections().signals();
    harness.take_back(number);
    assert!(harness.hub.collections().signals() > seen, "the collector is woken");
    assert_eq!(harness.collect(), [harness.db]);
    assert!(!harness.has(&commit));
}

#[test]
fn the_end_of_a_source_is_collected_in_its_bases_at_once() {
    for is_deleted in [false, true] {
        let harness = keeping(0);
        let (_, commit) = harness.offered();
        let (access, seen) = (harness.access_to::<Admin>(&harness.ben, FORK), harness.hub.collections().signals());
        if is_deleted {
            harness.hub.databases().delete(&access, None).unwrap();
        } else {
            let edit = EditDatabase { visibility: Some(Visibility::Private), ..EditDatabase::default() };
            harness.hub.databases().edit(&access, edit, None).unwrap();
        }
        assert!(harness.hub.collections().signals() > seen);
        assert_eq!(harness.collect(), [harness.db]);
        assert!(!harness.has(&commit));
    }
}

#[test]
fn what_a_preview_brought_is_collected_after_it() {
    let harness = keeping(0);
    harness.hub.operations().fork(&harness.access::<Participate>(&harness.ben), "ben", None).unwrap();
    harness.work();
    let commit = harness.write_in(&harness.ben, FORK, PLANTED);
    let (access, from) = (harness.access::<Participate>(&harness.ben), (FORK.0.to_owned(), FORK.1.to_owned()));
    harness.hub.pulls().prepare(&access, &from, "main", "main").unwrap();
    harness.refresh();
    assert!(harness.has(&commit));
    harness.fakes.clock.advance_seconds(2_400 - 1);
    assert_eq!(harness.collect(), []);
    harness.fakes.clock.advance_seconds(1);
    assert_eq!(harness.collect(), [harness.db]);
    assert!(!harness.has(&commit));
}

#[test]
fn no_operation_of_a_database_begins_while_it_is_collected() {
    let harness = keeping(0);
    harness.hub.collections().request(None).unwrap();
    let (hub, queued) = (harness.hub.clone(), harness.queue("main", "main", PLANTED));
    harness.fakes.engine.meanwhile(move || {
        assert!(hub.operations().run_next("worker").unwrap().is_none());
    });
    assert_eq!(harness.collect(), [harness.db]);
    harness.work();
    assert!(harness.outcome(queued.id).commit.is_some());
}

#[test]
fn a_busy_database_is_reserved_and_others_go_first() {
    let harness = keeping(0);
    let other = create(&harness.hub, &harness.ada, ("ada", "other"), Visibility::Public);
    harness.queue("main", "main", PLANTED);
    let now = harness.hub.now();
    let lease = |holder: &str| {
        let turn = LeaseTurn::default();
        let mut tx = harness.fakes.metadata.write(&WriteKeys::any()).unwrap();
        let leased = tx.operations().lease(holder, now, now.plus_seconds(30), turn).unwrap();
        tx.commit(Durability::Synced).unwrap();
        leased
    };
    let running = lease("other/1").unwrap();
    harness.queue("main", "main", PLANTED);
    harness.hub.collections().request(None).unwrap();
    let step = |database| match harness.hub.collections().collect_next(HOLDER).unwrap() {
        Some(CollectionStep::Collected(of, _)) => assert_eq!(of, database),
        step => panic!("{step:?}"),
    };
    step(other);
    let reserved = harness.hub.collections().collect_next(HOLDER).unwrap();
    assert!(matches!(reserved, Some(CollectionStep::Reserved)), "{reserved:?}");
    let mut tx = harness.fakes.metadata.write(&WriteKeys::any()).unwrap();
    let mut ended = running;
    ended.status = OperationStatus::Succeeded(Outcome::default());
    ended.finished_at = Some(now);
    assert!(tx.operations().settle(&ended, Some("other/1")).unwrap());
    tx.commit(Durability::Synced).unwrap();
    assert!(lease("other/1").is_none(), "the collection is next");
    step(harness.db);
    assert!(lease("other/1").is_some());
}

#[test]
fn a_failed_collection_is_tried_again_later_and_never_lost() {
    let harness = keeping(0);
    harness.hub.collections().request(None).unwrap();
    let file = harness.fakes.engine.clone();
    file.remove(harness.db).unwrap();
    for (is_first_time, delay) in [(true, 10), (false, 20)] {
        match harness.hub.collections().collect_next(HOLDER).unwrap() {
            Some(CollectionStep::Failed { database, is_first, .. }) => {
                assert_eq!((database, is_first), (harness.db, is_first_time));
            }
            step => panic!("{step:?}"),
        }
        assert!(harness.hub.collections().collect_next(HOLDER).unwrap().is_none());
        harness.fakes.clock.advance_seconds(delay);
    }
    // The metadata store fails when the outcome is recorded, as in a crash.
    harness.fakes.metadata.fail_after(1, 1, SaveFault::Lost);
    assert!(harness.hub.collections().collect_next(HOLDER).is_err());
    assert!(harness.record(harness.db).lease.is_some());
    assert_eq!(harness.hub.collections().recover("node").unwrap(), 1);
    assert!(harness.hub.collections().collect_next("node/new").unwrap().is_some());
}

#[test]
fn much_garbage_makes_a_collection_due() {
    const MOST: i64 = 64 << 20;
    // Bytes in use, of which the commits of the file take some, and bytes that work without an effect left.
    for (live, wasted, is_due) in
        [(Some(MOST), MOST, true), (Some(MOST + 1), MOST, false), (None, MOST, true), (None, MOST - 1, false)]
    {
        let harness = keeping(0);
        let least = i64::try_from(harness.fakes.engine.size_bytes(harness.db).unwrap()).unwrap();
        let live = live.unwrap_or(least);
        harness.fakes.engine.pad(harness.db, u64::try_from(live + wasted - least).unwrap());
        let mut tx = harness.fakes.metadata.write(&WriteKeys::any()).unwrap();
        let file = FileState { size_bytes: live, engine_format: 1 };
        tx.databases().record_file(harness.db, file, SizeChange::Collected).unwrap();
        tx.commit(Durability::Synced).unwrap();
        let operation = harness.queue("main", "main", "INSERT INTO nowhere VALUES (1)");
        harness.work();
        harness.failure(operation.id);
        let found = harness.transaction().databases().get(harness.db).unwrap().unwrap();
        assert_eq!((found.size_bytes, found.garbage_bytes()), (live + wasted, wasted));
        assert_eq!(harness.record(harness.db).due_at.is_some(), is_due, "{live} {wasted}");
    }
}

#[test]
fn a_deleted_branch_can_be_restored_until_its_time_ends() {
    let harness = keeping(100);
    let planted = harness.wrote("planted", PLANTED);
    harness.drop_branch("planted");
    harness.fakes.clock.advance_seconds(99);
    harness.hub.collections().request(None).unwrap();
    assert_eq!(harness.collect(), [harness.db]);
    assert!(harness.has(&planted));
    let access = harness.access::<Write>(&harness.ada);
    let wanted = NewBranch { name: name("x"), from: Revision::Commit(planted.clone().into()) };
    assert!(harness.hub.branches().create(&access, wanted, None).is_err(), "nothing is read through a deleted branch");
    let kept = harness.restorable();
    assert_eq!((kept[0].name.as_str(), &kept[0].head), ("planted", &planted));
    assert_eq!(kept[0].until, kept[0].deleted_at.plus_seconds(100));

    assert_eq!(harness.restore(kept[0].id).unwrap(), format!("planted {planted}"));
    assert_eq!(harness.head("planted"), Some(planted.clone()));
    assert_eq!(harness.events().iter().filter(|event| *event == "+planted").count(), 2);
    assert!(matches!(harness.restore(kept[0].id), Err(RefError::BranchExists(_))));
    assert_eq!(harness.restorable(), []);

    harness.drop_branch("planted");
    let kept = harness.restorable();
    harness.fakes.clock.advance_seconds(100);
    assert!(matches!(harness.restore(kept[0].id), Err(RefError::NotKept)));
    assert_eq!(harness.restorable(), []);
    harness.fakes.clock.advance_seconds(HOUR / 2);
    assert_eq!(harness.collect(), [harness.db], "the end of the time makes the collection due");
    assert!(!harness.has(&planted));
}

#[test]
fn a_branch_is_not_restored_over_another_one() {
    let harness = keeping(100);
    harness.wrote("planted", PLANTED);
    harness.drop_branch("planted");
    let kept = harness.restorable();
    harness.wrote("planted", "INSERT INTO t VALUES (9,'nine')");
    assert!(matches!(harness.restore(kept[0].id), Err(RefError::BranchExists(_))));
    assert_eq!(harness.restorable(), [], "its name is in use");
    harness.drop_branch("planted");
    assert_eq!(harness.restorable().len(), 2);
}

#[test]
fn a_purge_does_not_keep_deleted_refs() {
    let harness = keeping(100);
    let planted = harness.wrote("planted", PLANTED);
    harness.drop_branch("planted");
    harness.hub.operations().purge(&harness.access::<Admin>(&harness.ada), None).unwrap();
    harness.work();
    assert!(!harness.has(&planted));
    assert_eq!(harness.restorable(), []);
}

#[test]
fn withdrawn_content_is_not_kept_by_a_deleted_branch_but_others_are() {
    let harness = keeping(100);
    let (number, commit) = harness.offered();
    let access = harness.access::<Write>(&harness.ada);
    let wanted = NewBranch { name: name("copy"), from: Revision::Commit(commit.clone().into()) };
    harness.hub.branches().create(&access, wanted, None).unwrap();
    let own = harness.wrote("own", "INSERT INTO t VALUES (9,'nine')");
    harness.drop_branch("copy");
    harness.drop_branch("own");
    harness.take_back(number);
    assert_eq!(harness.collect(), [harness.db]);
    assert!(!harness.has(&commit) && harness.has(&own));
    assert_eq!(harness.restorable().len(), 1);
}
