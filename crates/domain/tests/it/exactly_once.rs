//! Every operation takes effect exactly once, even if any of its steps fails.

use branchyard_domain::access::{Participate, Read, Write};
use branchyard_domain::entities::{Operation, OperationStatus};
use branchyard_domain::ports::{Durability, Engine as _, Metadata as _, WriteKeys};
use branchyard_domain::usecases::{MergePull, Operations};
use branchyard_domain::values::OperationId;
use branchyard_domain_testing::fakes::SaveFault;

use crate::harness::{DB, DomainHarness, name, world};
use crate::imports::import_of;
use crate::refs::at;

const ADD: &str = "INSERT INTO t VALUES (2,'two')";

/// Makes each commit of a run fail in turn, with either kind of fault, and checks the final state.
fn with_every_fault(prepare: impl Fn(&DomainHarness) -> OperationId, check: impl Fn(&DomainHarness, &str)) {
    for fault in [SaveFault::Lost, SaveFault::Unheard] {
        for saves in 0.. {
            let world = world();
            let operation = prepare(&world);
            let context = format!("save {saves} is {fault:?}");
            world.fakes.metadata.fail_after(saves, 1, fault);
            world.work();
            let was_planned = world.fakes.metadata.no_more_faults();
            assert!(
                matches!(world.status(operation), OperationStatus::Succeeded(_)),
                "{context}: {:?}",
                world.status(operation)
            );
            check(&world, &context);
            if was_planned {
                assert!(saves >= 2, "a run saves its lease and its end");
                break;
            }
        }
    }
}

#[test]
fn a_store_that_is_away_for_long_costs_no_attempt() {
    for fault in [SaveFault::Lost, SaveFault::Unheard] {
        for saves in 0..2 {
            let world = world();
            let operation = world.queue("main", "main", ADD);
            world.fakes.metadata.fail_after(saves, 12, fault);
            world.work();
            assert!(!world.fakes.metadata.no_more_faults(), "save {saves} on is {fault:?}");
            let done = world.transaction().operations().get(operation.id).unwrap().unwrap();
            assert!(matches!(done.status, OperationStatus::Succeeded(_)), "save {saves} on is {fault:?}: {done:?}");
            assert!(done.attempts <= 2, "save {saves} on is {fault:?}: {done:?}");
        }
    }
}

#[test]
fn a_write() {
    with_every_fault(
        |world| world.queue("main", "main", ADD).id,
        |world, context| {
            assert_eq!(world.rows("main"), ["1|one", "2|two"], "{context}");
            assert_eq!(world.events(), ["push main", "push main"], "{context}");
            let access = world.access::<Read>(&world.ada);
            let log = world.hub.history().commits(&access, &world.head("main").unwrap().into(), 10).unwrap();
            assert_eq!(log.len(), 3, "{context}: one commit each");
        },
    );
}

#[test]
fn a_write_to_a_new_branch() {
    with_every_fault(
        |world| world.queue("main", "new", ADD).id,
        |world, context| assert_eq!(world.events(), ["push main", "+new", "push new"], "{context}"),
    );
}

#[test]
fn a_merge() {
    let merge = |world: &DomainHarness| {
        world.wrote("work", ADD);
        let pull = world.open("work");
        let access = world.access::<Write>(&world.ada);
        world.hub.pulls().merge(&access, pull.number, MergePull::default(), None).unwrap().id
    };
    with_every_fault(merge, |world, context| {
        let expected = ["push main", "+work", "push work", "pull 1 Opened by ada", "push main", "pull 1 Merged by ada"];
        assert_eq!(world.events(), expected, "{context}");
        assert_eq!(world.rows("main"), ["1|one", "2|two"], "{context}");
    });
}

fn fork(world: &DomainHarness) -> Operation {
    world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap()
}

#[test]
fn a_fork() {
    with_every_fault(
        |world| fork(world).id,
        |world, context| {
            assert_eq!(world.rows_in(("ben", DB.1), "main"), ["1|one"], "{context}");
            let forks = world.transaction().databases().count_forks(None, &[world.db]).unwrap();
            assert_eq!(forks.get(&world.db), Some(&1), "{context}");
            assert_eq!(world.fakes.engine.list().unwrap().len(), 2, "{context}: a file of no database stays");
        },
    );
}

#[test]
fn an_import_with_its_pull() {
    with_every_fault(
        |world| import_of(world, "id,a\n7,seven\n", Some("landing")).id,
        |world, context| {
            assert_eq!(world.rows("landing"), ["1|one", "7|seven"], "{context}");
            assert_eq!(world.events(), ["push main", "+landing", "push landing", "pull 1 Opened by ada"], "{context}");
        },
    );
}

#[test]
fn a_branch_that_moves_meanwhile_is_written_again() {
    let world = world();
    let operation = world.queue("main", "main", ADD);
    let (hub, engine, metadata) = (world.hub.clone(), world.fakes.engine.clone(), world.fakes.metadata.clone());
    let (db, author) = (world.db, crate::harness::user(&world.ada).signature(world.hub.now()));
    world.fakes.engine.meanwhile(move || {
        let mut tx = metadata.write(&WriteKeys::any()).unwrap();
        let base = tx.branches().get(db, &name("main")).unwrap().unwrap().head;
        let job = branchyard_domain::ports::WriteJob {
            base: &base,
            statements: "INSERT INTO t VALUES (9,'meanwhile')",
            message: "meanwhile",
            then_merge: None,
            author: &author,
            timeout: std::time::Duration::from_secs(1),
        };
        let branchyard_domain::ports::MergeOutcome::Head(head) = engine.write(db, &job).unwrap().outcome else {
            panic!("a head")
        };
        assert!(tx.branches().move_head(db, &name("main"), &base, &head, hub.now(), None).unwrap());
        tx.commit(Durability::Synced).unwrap();
    });
    world.work();
    assert_eq!(world.outcome(operation.id).commit, world.head("main"));
    assert_eq!(world.rows("main"), ["1|one", "2|two", "9|meanwhile"]);
    assert_eq!(world.events(), ["push main", "push main"]);
}

/// Runs one operation on a worker that stalls in the middle. A second worker takes it over and settles it.
fn taken_over(world: &DomainHarness) {
    let (hub, clock) = (world.hub.clone(), world.fakes.clock.clone());
    world.fakes.engine.meanwhile(move || {
        clock.advance_seconds(31);
        assert!(Operations::run_next(&hub.operations(), "second").unwrap().is_some());
    });
    assert!(world.hub.operations().run_next("first").unwrap().is_some());
}

#[test]
fn a_write_taken_over_happens_once() {
    let world = world();
    let operation = world.queue("main", "main", "INSERT INTO t VALUES (2,'two'); UPDATE t SET a = 'x' WHERE id = 1");
    taken_over(&world);
    assert_eq!(world.outcome(operation.id).commit, world.head("main"));
    assert_eq!(world.events(), ["push main", "push main"]);
}

#[test]
fn a_fork_taken_over_stays_whole() {
    let world = world();
    let operation = fork(&world);
    taken_over(&world);
    let (fork_id, _) = world.outcome(operation.id).database.unwrap();
    assert_eq!(world.rows_in(("ben", DB.1), "main"), ["1|one"]);
    assert!(world.fakes.engine.list().unwrap().contains(&fork_id));
    assert_eq!(world.fakes.engine.list().unwrap().len(), 2, "the late worker removed what it had copied, and no more");
}

#[test]
fn a_database_deleted_meanwhile_takes_its_work_along() {
    let world = world();
    world.branch("work", at("main")).unwrap();
    let operation = world.queue("main", "main", ADD);
    let (hub, access) = (world.hub.clone(), world.access(&world.ada));
    world.fakes.engine.meanwhile(move || drop(hub.databases().delete(&access, None).unwrap()));
    world.work();
    assert!(matches!(world.status(operation.id), OperationStatus::Failed(_)), "{:?}", world.status(operation.id));
    assert_eq!(world.events(), [""; 0]);
}
