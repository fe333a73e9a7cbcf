//! Restores of branches to a time, and the log of changes that they look at.

use branchyard_domain::access::{Admin, Caller, Participate, Read, Write};
use branchyard_domain::entities::{FailureKind, Operation};
use branchyard_domain::errors::{HistoryError, OperationError, RefError};
use branchyard_domain::ports::{Durability, Engine as _, Metadata as _, WriteKeys};
use branchyard_domain::usecases::{CollectionStep, Limits, NewBranch, NewPull, NewTag, RestoreBranch, SqlWrite};
use branchyard_domain::values::{ChunkHash, CommitHash, Revision, Timestamp};

use crate::harness::{DB, DomainHarness, name, world, world_with};

const FORK: (&str, &str) = ("ben", DB.1);
const DAY: i64 = 86_400;

fn insert(id: u32) -> String {
    format!("INSERT INTO t VALUES ({id},'row')")
}

impl DomainHarness {
    fn restore_to(&self, branch: &str, at: Timestamp, to_branch: &str) -> Result<Operation, OperationError> {
        let wanted = RestoreBranch { branch: branch.to_owned(), at, to_branch: name(to_branch) };
        self.hub.operations().restore(&self.access::<Admin>(&self.ada), wanted, None)
    }

    /// Restores a branch and returns the head that it has afterwards.
    fn restored(&self, branch: &str, at: Timestamp, to_branch: &str) -> CommitHash {
        let operation = self.restore_to(branch, at, to_branch).unwrap();
        self.work();
        let commit = self.outcome(operation.id).commit.unwrap();
        assert_eq!(self.head(to_branch), Some(commit.clone()));
        commit
    }

    fn refused(&self, branch: &str, at: Timestamp) -> HistoryError {
        match self.restore_to(branch, at, "back") {
            Err(OperationError::History(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Writes to a branch at a time of its own. Returns the commit and that time.
    fn wrote_at(&self, branch: &str, id: u32) -> (CommitHash, Timestamp) {
        self.fakes.clock.advance_seconds(10);
        let commit = self.wrote(branch, &insert(id));
        let at = self.hub.now();
        self.fakes.clock.advance_seconds(10);
        (commit, at)
    }

    fn deleted(&self, branch: &str) {
        self.hub.branches().delete(&self.access::<Write>(&self.ada), branch, None).unwrap();
        self.fakes.clock.advance_seconds(10);
    }

    fn collected(&self) {
        self.hub.collections().request(None).unwrap();
        while let Some(step) = self.hub.collections().collect_next("node/collector").unwrap() {
            assert!(matches!(step, CollectionStep::Collected(..)), "{step:?}");
        }
    }

    fn has_commit(&self, commit: &CommitHash) -> bool {
        self.fakes.engine.commit(self.db, commit).unwrap().is_some()
    }

    /// Asserts that nothing that a caller can do reads or names a commit.
    #[track_caller]
    fn assert_hidden(&self, commit: &CommitHash) {
        let read = self.access::<Read>(&self.ada);
        for text in [commit.to_string(), format!("{commit}~0"), format!("{commit}^")] {
            let found = self.hub.sql().resolve(&self.access::<Read>(&self.ada), Some(&text));
            assert!(found.is_err(), "{text}");
        }
        let write = self.access::<Write>(&self.ada);
        let from = || Revision::Commit(commit.clone().into());
        let branch = NewBranch { name: name("seen"), from: from() };
        assert!(matches!(self.hub.branches().create(&write, branch, None), Err(RefError::NoSuchRef { .. })));
        let tag = NewTag { name: name("seen"), from: from(), message: None };
        assert!(matches!(self.hub.tags().create(&write, tag, None), Err(RefError::NoSuchRef { .. })));
        let chunk = ChunkHash::from(commit);
        assert_eq!(self.hub.remotes().chunks(&read, &[chunk], 1_000).unwrap(), [None]);
    }
}

#[test]
fn a_branch_goes_back_to_a_time_and_forward_again() {
    let harness = world();
    let (one, at_one) = harness.wrote_at("main", 11);
    let (two, at_two) = harness.wrote_at("main", 12);
    let (three, at_three) = harness.wrote_at("main", 13);
    assert_eq!(harness.restored("main", at_one, "main"), one);
    assert_eq!(harness.rows("main").len(), 2);
    harness.assert_hidden(&three);
    harness.fakes.clock.advance_seconds(10);
    // Until the change itself, the head is the one before.
    let before_two = Timestamp::from_micros(at_two.as_micros() - 1);
    assert_eq!(harness.restored("main", before_two, "side"), one);
    assert_eq!(harness.restored("main", at_two, "side"), two);
    harness.collected();
    assert_eq!(harness.restored("main", at_three, "main"), three, "what a restore left behind is kept");
    assert_eq!(harness.rows("main").len(), 4);
    let events = harness.events();
    let moves = events.iter().filter(|event| ["push main", "push side", "+side"].contains(&event.as_str()));
    assert_eq!(moves.count(), 8, "{events:?}");
}

#[test]
fn a_restore_to_the_present_head_changes_nothing() {
    let harness = world();
    let (one, at_one) = harness.wrote_at("main", 11);
    let events = harness.events();
    assert_eq!(harness.restored("main", at_one, "main"), one);
    assert_eq!(harness.events(), events);
    assert_eq!(harness.transaction().ref_log().first_left_behind(harness.db).unwrap(), None);
}

#[test]
fn writes_leave_nothing_behind() {
    let harness = world();
    for id in 11..15 {
        harness.wrote_at("main", id);
    }
    let mut tx = harness.transaction();
    let since = Some(Timestamp::from_micros(i64::MIN));
    assert_eq!(tx.refs().kept_commits(harness.db, since, None, 10).unwrap().len(), 1, "the head reaches all of them");
}

#[test]
fn a_deleted_branch_is_restored_under_any_name() {
    let harness = world();
    let (one, at_one) = harness.wrote_at("draft", 11);
    harness.deleted("draft");
    harness.assert_hidden(&one);
    harness.collected();
    harness.assert_hidden(&one);
    assert!(matches!(harness.refused("draft", harness.hub.now()), HistoryError::NoBranch(_)));
    assert_eq!(harness.restored("draft", at_one, "back"), one);
    assert_eq!(harness.restored("draft", at_one, "draft"), one);
    let outcome = harness.restore_to("draft", at_one, "third").unwrap();
    harness.work();
    assert_eq!(harness.outcome(outcome.id).previous, harness.head("main"), "a new branch counts from the default one");
}

#[test]
fn what_is_not_in_the_history_is_refused() {
    let harness = world();
    let now = harness.hub.now();
    assert!(matches!(harness.refused("main", Timestamp::from_micros(now.as_micros() + 1)), HistoryError::Future));
    let database = harness.transaction().databases().get(harness.db).unwrap().unwrap();
    let before = Timestamp::from_micros(database.created_at.as_micros() - 1);
    assert!(matches!(harness.refused("main", before), HistoryError::TooEarly(at) if at == database.created_at));
    assert!(matches!(harness.refused("none", now), HistoryError::NoBranch(_)));
    assert!(matches!(harness.refused("a..b", now), HistoryError::NoBranch(_)));
    harness.fakes.clock.advance_seconds(60);
    harness.wrote("later", &insert(11));
    assert!(matches!(harness.refused("later", now), HistoryError::NoBranch(_)), "it came later");
    harness.fakes.clock.advance_seconds(7 * DAY - 60);
    assert!(harness.restore_to("main", now, "back").is_ok(), "the history is seven days long");
    harness.fakes.clock.advance_seconds(1);
    assert!(matches!(harness.refused("main", now), HistoryError::TooEarly(at) if at == now.plus_seconds(1)));
}

#[test]
fn restoring_needs_the_admin_role_until_it_is_done() {
    let harness = world();
    harness.invite(&harness.ben, branchyard_domain::entities::Role::Admin);
    let (_, at) = harness.wrote_at("main", 11);
    let wanted = RestoreBranch { branch: "main".to_owned(), at, to_branch: name("back") };
    let access = harness.access::<Admin>(&harness.ben);
    let operation = harness.hub.operations().restore(&access, wanted, None).unwrap();
    harness.invite(&harness.ben, branchyard_domain::entities::Role::Write);
    harness.work();
    assert_eq!(harness.failure(operation.id).kind, FailureKind::PermissionDenied);
    assert_eq!(harness.head("back"), None);
}

#[test]
fn a_branch_that_a_restore_is_about_to_move_is_not_deleted() {
    let harness = world();
    let (_, at) = harness.wrote_at("side", 11);
    harness.restore_to("main", at, "side").unwrap();
    let deleted = harness.hub.branches().delete(&harness.access::<Write>(&harness.ada), "side", None);
    assert!(matches!(deleted, Err(RefError::InUse(_))));
}

#[test]
fn the_history_ends_after_its_time() {
    let harness = world_with(Limits { history_seconds: 100, ..Limits::default() });
    let (one, _) = harness.wrote_at("draft", 11);
    harness.deleted("draft");
    harness.fakes.clock.advance_seconds(89);
    harness.collected();
    assert!(harness.has_commit(&one));
    harness.fakes.clock.advance_seconds(1);
    harness.collected();
    assert!(!harness.has_commit(&one));
    harness.hub.operations().tidy().unwrap();
    let log = harness.transaction().ref_log().next_change(
        harness.db,
        branchyard_domain::entities::RefKind::Branch,
        &name("main"),
        Timestamp::from_micros(0),
    );
    assert_eq!(log.unwrap(), None, "old changes are removed from the log");
}

#[test]
fn without_a_history_nothing_is_recorded_or_kept() {
    let harness = world_with(Limits { history_seconds: 0, ..Limits::default() });
    let (one, at) = harness.wrote_at("draft", 11);
    harness.deleted("draft");
    assert!(matches!(harness.refused("draft", at), HistoryError::Off));
    assert_eq!(harness.transaction().ref_log().first_left_behind(harness.db).unwrap(), None);
    harness.collected();
    assert!(!harness.has_commit(&one));
}

#[test]
fn the_history_begins_when_it_is_switched_on() {
    let off = world_with(Limits { history_seconds: 0, ..Limits::default() });
    off.hub.operations().recover("node").unwrap();
    let (_, at) = off.wrote_at("main", 11);
    let hub = off.fakes.beside(Limits::default());
    let on = DomainHarness { hub, fakes: off.fakes.clone(), ada: off.ada.clone(), ben: off.ben.clone(), db: off.db };
    assert!(matches!(on.refused("main", at), HistoryError::Off), "not before it is recorded");
    on.hub.operations().recover("node").unwrap();
    let begun = on.hub.now();
    assert!(matches!(on.refused("main", at), HistoryError::TooEarly(from) if from == begun));
    assert!(on.restore_to("main", begun, "back").is_ok());
    on.hub.operations().recover("node").unwrap();
    on.fakes.clock.advance_seconds(1);
    assert!(on.restore_to("main", begun, "back").is_ok(), "further starts change nothing");
}

#[test]
fn a_purge_ends_the_history_before_it() {
    let harness = world();
    let (one, at) = harness.wrote_at("draft", 11);
    harness.deleted("draft");
    harness.hub.operations().purge(&harness.access::<Admin>(&harness.ada), None).unwrap();
    harness.work();
    let purged = harness.hub.now();
    assert!(!harness.has_commit(&one));
    assert!(matches!(harness.refused("draft", at), HistoryError::TooEarly(from) if from == purged));
    assert!(matches!(harness.refused("main", at), HistoryError::TooEarly(_)));
    assert_eq!(harness.restored("main", purged, "back"), harness.head("main").unwrap());
}

/// Ben offers a commit, Ada copies it to a branch and builds on it, merges that into another one, and deletes both.
#[test]
fn what_a_withdrawn_pull_request_showed_goes_from_the_history_and_the_rest_stays() {
    let harness = world();
    harness.hub.operations().fork(&harness.access::<Participate>(&harness.ben), "ben", None).unwrap();
    harness.work();
    let offered = offer(&harness, &harness.ben);
    let pull = NewPull { publish: true, ..DomainHarness::new_pull(FORK, "main", "main") };
    let pull = harness.hub.pulls().open(&harness.access::<Participate>(&harness.ben), pull, None).unwrap();
    harness.refresh();
    let copy = NewBranch { name: name("copy"), from: Revision::Commit(offered.clone().into()) };
    harness.hub.branches().create(&harness.access::<Write>(&harness.ada), copy, None).unwrap();
    let at_copy = harness.hub.now();
    let (built, at_built) = harness.wrote_at("copy", 12);
    let (own, at_own) = harness.wrote_at("mixed", 13);
    let merge = SqlWrite {
        from_branch: "copy".to_owned(),
        to_branch: name("mixed"),
        statements: String::new(),
        message: None,
        expected_head: None,
        start: None,
    };
    let merge = harness.hub.operations().sql_write(&harness.access::<Write>(&harness.ada), merge, None).unwrap();
    harness.work();
    let (merged, at_merged) = (harness.outcome(merge.id).commit.unwrap(), harness.hub.now());
    harness.fakes.clock.advance_seconds(10);
    let (kept, at_kept) = harness.wrote_at("other", 14);
    for branch in ["copy", "mixed", "other"] {
        harness.deleted(branch);
    }
    harness.restore_to("copy", at_built, "early").unwrap();

    let proof = harness.hub.pulls().withdrawable(&harness.ben, DB.0, DB.1, pull.number).unwrap();
    harness.hub.pulls().withdraw(&proof, None).unwrap();
    harness.work();
    assert_eq!(harness.head("early"), None, "the restore was queued before, and runs afterwards");
    for (branch, at) in [("copy", at_copy), ("copy", at_built), ("mixed", at_merged)] {
        assert!(matches!(harness.refused(branch, at), HistoryError::Gone(_)), "{branch}");
    }
    harness.collected();
    for gone in [&offered, &built, &merged] {
        assert!(!harness.has_commit(gone));
    }
    assert_eq!(harness.restored("mixed", at_own, "mixed"), own, "it does not have what was withdrawn");
    assert_eq!(harness.restored("other", at_kept, "other"), kept);
}

/// Writes to the fork, and returns the commit.
fn offer(harness: &DomainHarness, by: &Caller) -> CommitHash {
    let wanted = SqlWrite {
        from_branch: "main".to_owned(),
        to_branch: name("main"),
        statements: insert(11),
        message: None,
        expected_head: None,
        start: None,
    };
    let operation = harness.hub.operations().sql_write(&harness.access_to::<Write>(by, FORK), wanted, None).unwrap();
    harness.work();
    harness.outcome(operation.id).commit.unwrap()
}

#[test]
fn a_mirror_is_not_restored() {
    let harness = world();
    let mut tx = harness.fakes.metadata.write(&WriteKeys::any()).unwrap();
    let database = tx.databases().get(harness.db).unwrap().unwrap();
    let mirror = branchyard_domain::entities::Database { is_mirror: true, ..database };
    assert!(tx.databases().update(&mirror).unwrap());
    tx.commit(Durability::Synced).unwrap();
    let refused = harness.restore_to("main", harness.hub.now(), "back");
    assert!(matches!(refused, Err(OperationError::Access(branchyard_domain::errors::AccessError::Mirror))));
}
