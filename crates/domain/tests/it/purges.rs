//! Purges, and what forks hold.

use branchyard_domain::access::{Admin, Participate, Write};
use branchyard_domain::entities::{FailureKind, Operation, Purged, Role};
use branchyard_domain::ports::Engine as _;
use branchyard_domain::usecases::{NewBranch, NewTag};
use branchyard_domain::values::{CommitHash, DatabaseId, Revision};

use crate::harness::{DomainHarness, name, world};

const PLANTED: &str = "INSERT INTO t VALUES (7,'planted')";

impl DomainHarness {
    fn remove_branch(&self, branch: &str) {
        self.hub.branches().delete(&self.access::<Write>(&self.ada), branch, None).unwrap();
    }

    fn purge(&self) -> Operation {
        let operation = self.hub.operations().purge(&self.access::<Admin>(&self.ada), None).unwrap();
        self.work();
        operation
    }

    fn purged(&self) -> Purged {
        self.outcome(self.purge().id).purged.unwrap()
    }

    fn holds(&self, database: DatabaseId, commit: &CommitHash) -> bool {
        self.fakes.engine.commit(database, commit).unwrap().is_some()
    }
}

#[test]
fn a_purge_removes_what_nothing_names_and_nothing_else() {
    let harness = world();
    let main = harness.wrote("main", "INSERT INTO t VALUES (2,'two')");
    let tagged = harness.wrote("tagged", "INSERT INTO t VALUES (3,'three')");
    let wanted = NewTag { name: name("v1"), from: Revision::Branch("tagged".to_owned()), message: None };
    harness.hub.tags().create(&harness.access::<Write>(&harness.ada), wanted, None).unwrap();
    let planted = harness.wrote("planted", PLANTED);
    let before = harness.transaction().databases().get(harness.db).unwrap().unwrap();
    let size = harness.fakes.engine.size_bytes(harness.db).unwrap();
    harness.remove_branch("planted");
    harness.remove_branch("tagged");
    assert!(harness.holds(harness.db, &planted));

    let purged = harness.purged();
    assert!(!harness.holds(harness.db, &planted));
    assert!(harness.holds(harness.db, &main) && harness.holds(harness.db, &tagged));
    let now = harness.fakes.engine.size_bytes(harness.db).unwrap();
    assert_eq!(purged, Purged { freed_bytes: size - now, kept_by: Vec::new() });
    assert!(purged.freed_bytes > 0);
    let after = harness.transaction().databases().get(harness.db).unwrap().unwrap();
    assert_eq!((after.generation, after.last_write_at), (before.generation + 1, before.last_write_at));
    assert_eq!(after.size_bytes, i64::try_from(now).unwrap());
    assert_eq!(harness.purged().freed_bytes, 0);
}

#[test]
fn a_ref_that_appears_meanwhile_is_kept() {
    let harness = world();
    let first = harness.wrote("main", "INSERT INTO t VALUES (2,'two')");
    harness.wrote("other", PLANTED);
    let (hub, access) = (harness.hub.clone(), harness.access::<Write>(&harness.ada));
    let head = harness.head("other").unwrap();
    let at = head.clone();
    harness.fakes.engine.meanwhile(move || {
        // The name changes between the two times that the collection asks what to keep.
        let wanted = NewBranch { name: name("renamed"), from: Revision::Commit(at.into()) };
        hub.branches().create(&access, wanted, None).unwrap();
        hub.branches().delete(&access, "other", None).unwrap();
    });
    harness.purged();
    assert_eq!(harness.head("renamed"), Some(head.clone()));
    assert!(harness.holds(harness.db, &head) && harness.holds(harness.db, &first));
}

#[test]
fn a_hash_from_before_a_collection_is_looked_up_again() {
    let harness = world();
    let planted = harness.wrote("planted", PLANTED);
    let before = harness.access::<Write>(&harness.ada);
    harness.remove_branch("planted");
    harness.purged();
    let create = |name: &str, from: Revision| {
        let wanted = NewBranch { name: crate::harness::name(name), from };
        harness.hub.branches().create(&before, wanted, None)
    };
    assert!(create("again", Revision::Commit(planted.into())).is_err());
    let main = create("new", Revision::Branch("main".to_owned())).unwrap();
    assert_eq!(Some(main.head), harness.head("main"));
}

#[test]
fn forks_hold_only_what_their_refs_reach_and_are_named_if_they_keep_something() {
    let harness = world();
    let hidden = harness.wrote("hidden", "INSERT INTO t VALUES (8,'hidden')");
    harness.remove_branch("hidden");
    let planted = harness.wrote("planted", PLANTED);
    let access = harness.access::<Participate>(&harness.ben);
    let operation = harness.hub.operations().fork(&access, "ben", None).unwrap();
    harness.work();
    let (fork, _) = harness.outcome(operation.id).database.unwrap();
    assert!(harness.holds(harness.db, &hidden));
    assert!(!harness.holds(fork, &hidden), "a fork does not bring back what was deleted");
    assert!(harness.holds(fork, &planted));

    assert_eq!(harness.purged().kept_by, []);
    assert!(!harness.holds(harness.db, &hidden));
    harness.remove_branch("planted");
    assert_eq!(harness.purged().kept_by, [fork]);
    assert!(!harness.holds(harness.db, &planted));
}

#[test]
fn a_purge_needs_the_role_until_it_begins() {
    let harness = world();
    harness.wrote("planted", PLANTED);
    harness.invite(&harness.ben, Role::Admin);
    let access = harness.access::<Admin>(&harness.ben);
    let operation = harness.hub.operations().purge(&access, None).unwrap();
    harness.invite(&harness.ben, Role::Write);
    harness.work();
    assert_eq!(harness.failure(operation.id).kind, FailureKind::PermissionDenied);
}
