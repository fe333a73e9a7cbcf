//! Fair sharing of workers among the creators of operations.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, Write};
use branchyard_domain::entities::{OperationStatus, Visibility};
use branchyard_domain::usecases::{Limits, OperationAttempt, OperationObserver, SqlWrite};
use branchyard_domain::values::{DatabaseId, OperationId, TraceContext};
use branchyard_domain_testing::{AMPLE, wait_until};

use crate::harness::{DomainHarness, create, name, world_with};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const WRITES: usize = 20;

/// Calls a function when an operation becomes long-running.
struct OnLong<F>(F);

impl<F: Fn() + Sync> OperationObserver for OnLong<F> {
    fn attempt(&self, attempt: &OperationAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>)) {
        run(attempt.trace);
    }

    fn became_long(&self) {
        (self.0)();
    }
}

/// Two workers, as in a server.
struct TestCrew {
    hub: Hub,
    stop: AtomicBool,
    started: AtomicUsize,
}

impl TestCrew {
    fn add<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let holder = format!("node/{}", self.started.fetch_add(1, Ordering::SeqCst));
        scope.spawn(move || {
            let is_replaced = AtomicBool::new(false);
            let observer = OnLong(|| {
                is_replaced.store(true, Ordering::SeqCst);
                self.add(scope);
            });
            while !self.stop.load(Ordering::SeqCst) && !is_replaced.load(Ordering::SeqCst) {
                let seen = self.hub.operations().signals();
                if self.hub.operations().run_next_observed(&holder, &observer).unwrap().is_none() {
                    self.hub.operations().wait(seen, Duration::from_millis(20));
                }
            }
        });
    }
}

/// Stops the crew and releases the held writes, also if a test fails.
struct End<'a>(&'a TestCrew, &'a DomainHarness);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.1.fakes.engine.hold_writes(&[]);
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

fn limits(long_after_ms: u64) -> Limits {
    Limits {
        operation_workers: 2,
        long_operation_places: 2,
        long_operation_after_ms: long_after_ms,
        ..Limits::default()
    }
}

fn queue(world: &DomainHarness, by: &Caller, (owner, database): (&str, &str), statements: &str) -> OperationId {
    let wanted = SqlWrite {
        from_branch: "main".to_owned(),
        to_branch: name("main"),
        statements: statements.to_owned(),
        message: None,
        expected_head: None,
        start: None,
    };
    let access = world.access_to::<Write>(by, (owner, database));
    world.hub.operations().sql_write(&access, wanted, None).unwrap().id
}

fn is_settled(world: &DomainHarness, id: OperationId) -> bool {
    matches!(world.status(id), OperationStatus::Succeeded(_) | OperationStatus::Failed(_))
}

/// Creates four databases of Ada with 20 held writes, and one of Ben.
fn crowd(world: &DomainHarness) -> (Vec<DatabaseId>, Vec<OperationId>) {
    let databases: Vec<_> =
        NAMES.iter().map(|name| create(&world.hub, &world.ada, ("ada", *name), Visibility::Public)).collect();
    create(&world.hub, &world.ben, ("ben", "own"), Visibility::Public);
    world.fakes.engine.hold_writes(&databases);
    let statement = |n| match n / NAMES.len() {
        0 => "CREATE TABLE t(id INTEGER PRIMARY KEY)".to_owned(),
        n => format!("INSERT INTO t VALUES ({n})"),
    };
    let write = |n: usize| queue(world, &world.ada, ("ada", NAMES[n % NAMES.len()]), &statement(n));
    (databases, (0..WRITES).map(write).collect())
}

fn others_get_through(long_after_ms: u64, held_at_once: usize) {
    let world = world_with(limits(long_after_ms));
    let (_, held) = crowd(&world);
    let crew = TestCrew { hub: world.hub.clone(), stop: AtomicBool::new(false), started: AtomicUsize::new(0) };
    std::thread::scope(|scope| {
        let _end = End(&crew, &world);
        crew.add(scope);
        crew.add(scope);
        assert_eq!(world.fakes.engine.wait_for_held_writes(held_at_once, AMPLE), held_at_once);
        for n in 0..3 {
            let quick = queue(&world, &world.ben, ("ben", "own"), &format!("CREATE TABLE t{n}(id INTEGER)"));
            wait_until("the end of the quick write", AMPLE, || is_settled(&world, quick));
            world.outcome(quick);
        }
        assert!(held.iter().all(|id| !is_settled(&world, *id)));
        assert_eq!(
            world.fakes.engine.wait_for_held_writes(0, AMPLE),
            held_at_once,
            "half of the workers, and the long lane"
        );
        world.fakes.engine.hold_writes(&[]);
        wait_until("the end of the held writes", AMPLE, || held.iter().all(|id| is_settled(&world, *id)));
    });
    // The writes ran in order: each table came before its rows, and each row exists.
    held.iter().for_each(|id| drop(world.outcome(*id)));
    NAMES.iter().for_each(|name| assert_eq!(world.rows_in(("ada", *name), "main"), ["1", "2", "3", "4"]));
}

#[test]
fn a_creator_leaves_half_of_the_workers_to_others() {
    others_get_through(3_600_000, 1);
}

#[test]
fn long_operations_leave_their_workers() {
    others_get_through(20, 2);
}

#[test]
fn long_operations_of_many_creators_hold_up_no_other_one() {
    let world = world_with(limits(20));
    let crew = TestCrew { hub: world.hub.clone(), stop: AtomicBool::new(false), started: AtomicUsize::new(0) };
    let others: Vec<_> = (0..6).map(|n| crate::harness::person(&world.hub, &format!("other{n}"))).collect();
    let databases: Vec<_> = others
        .iter()
        .enumerate()
        .map(|(n, other)| create(&world.hub, other, (&format!("other{n}"), "own"), Visibility::Public))
        .collect();
    create(&world.hub, &world.ben, ("ben", "own"), Visibility::Public);
    world.fakes.engine.hold_writes(&databases);
    for (n, other) in others.iter().enumerate() {
        queue(&world, other, (&format!("other{n}"), "own"), "CREATE TABLE t(id INTEGER)");
    }
    std::thread::scope(|scope| {
        let _end = End(&crew, &world);
        crew.add(scope);
        crew.add(scope);
        assert_eq!(world.fakes.engine.wait_for_held_writes(6, AMPLE), 6);
        let quick = queue(&world, &world.ben, ("ben", "own"), "CREATE TABLE t(id INTEGER)");
        wait_until("the end of the quick write", AMPLE, || is_settled(&world, quick));
        world.outcome(quick);
    });
}

#[test]
fn creators_take_turns_and_the_oldest_of_each_comes_first() {
    let world = world_with(limits(3_600_000));
    let (_, held) = crowd(&world);
    world.fakes.engine.hold_writes(&[]);
    let table = |n: usize| queue(&world, &world.ben, ("ben", "own"), &format!("CREATE TABLE t{n}(id INTEGER)"));
    let own: Vec<_> = (0..3).map(table).collect();
    let mut settled: Vec<OperationId> = Vec::new();
    while world.hub.operations().run_next("node/0").unwrap().is_some() {
        let fresh = held.iter().chain(&own).filter(|id| is_settled(&world, **id) && !settled.contains(id)).copied();
        let fresh: Vec<_> = fresh.collect();
        assert_eq!(fresh.len(), 1);
        settled.extend(fresh);
    }
    let of = |ids: &[OperationId]| settled.iter().copied().filter(|id| ids.contains(id)).collect::<Vec<_>>();
    assert_eq!((of(&held), of(&own)), (held.clone(), own.clone()), "the oldest first");
    let first: Vec<bool> = settled.iter().take(6).map(|id| own.contains(id)).collect();
    assert!(first == [true, false, true, false, true, false] || first == [false, true, false, true, false, true]);
}
