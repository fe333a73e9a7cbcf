//! Writes that run while their callers wait, and are recorded once, with their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::access::{Caller, Write};
use branchyard_domain::entities::{FailureKind, Operation, OperationStatus, Role, Visibility};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Durability, Metadata as _, OperationFilter, Transaction, WriteKeys};
use branchyard_domain::usecases::{
    DirectPlace, DirectProgress, DirectTurn, DirectWaiter, Ended, IdempotencyRecord, KeepAnswer, Limits, SqlWrite,
};
use branchyard_domain::values::AccountId;
use branchyard_domain_testing::fakes::SaveFault;
use parking_lot::Mutex;

use crate::harness::{DB, DomainHarness, create, name, user, world, world_with};

/// A caller that collects what it receives.
#[derive(Default)]
struct Waiter {
    received: Mutex<Vec<DirectProgress>>,
    has_left: Mutex<bool>,
    /// The idempotency key of the request.
    key: Option<&'static str>,
}

/// The account of the idempotency key.
fn requester() -> AccountId {
    AccountId::from_uuid(uuid::Uuid::from_u128(9))
}

impl DirectWaiter for Waiter {
    fn notify(&self, progress: DirectProgress) -> Result<(), DirectProgress> {
        if *self.has_left.lock() {
            return Err(progress);
        }
        self.received.lock().push(progress);
        Ok(())
    }

    fn with_key(&self, keep: &mut KeepAnswer<'_>) -> Result<(), PortError> {
        let Some(key) = self.key else { return keep(None) };
        keep(Some(&IdempotencyRecord {
            caller: requester(),
            scope: "POST /x".to_owned(),
            key: key.to_owned(),
            request_hash: [7; 32],
            render: &|operation: &Operation| format!("{:?}", operation.status).into_bytes(),
        }))
    }
}

impl Waiter {
    /// Returns the turn that the caller has to run.
    fn turn(&self) -> DirectTurn {
        match self.received.lock().pop() {
            Some(DirectProgress::Run(turn)) => turn,
            other => panic!("no turn but {}", text(other.as_ref())),
        }
    }

    /// Returns what the caller received last.
    fn last(&self) -> String {
        text(self.received.lock().last())
    }

    fn operation(&self) -> Operation {
        match self.received.lock().last() {
            Some(DirectProgress::Ended(operation)) => (**operation).clone(),
            other => panic!("no operation but {}", text(other)),
        }
    }
}

fn text(progress: Option<&DirectProgress>) -> String {
    match progress {
        None => "nothing".to_owned(),
        Some(DirectProgress::Run(_)) => "run".to_owned(),
        Some(DirectProgress::Ended(operation)) => match &operation.status {
            OperationStatus::Succeeded(_) => "succeeded".to_owned(),
            OperationStatus::Failed(failure) => format!("failed: {}", failure.detail),
            other => panic!("{other:?}"),
        },
        Some(DirectProgress::Queue) => "queue".to_owned(),
        Some(DirectProgress::Fault(_)) => "fault".to_owned(),
    }
}

fn insert(id: u32) -> String {
    format!("INSERT INTO t VALUES ({id},'row')")
}

fn wanted(branch: &str, statements: &str) -> SqlWrite {
    let (from_branch, to_branch) = (branch.to_owned(), name(branch));
    SqlWrite {
        from_branch,
        to_branch,
        statements: statements.to_owned(),
        message: None,
        expected_head: None,
        start: None,
    }
}

fn join_as(
    world: &DomainHarness,
    caller: &Caller,
    locator: (&str, &str),
    waiter: &Arc<Waiter>,
    sql: &str,
) -> Option<DirectPlace> {
    let access = world.access_to::<Write>(caller, locator);
    world.hub.operations().write_directly(&access, &wanted("main", sql), Arc::clone(waiter) as _)
}

fn join(world: &DomainHarness, sql: &str) -> (Arc<Waiter>, DirectPlace) {
    let waiter = Arc::new(Waiter::default());
    let place = join_as(world, &world.ada, DB, &waiter, sql).unwrap();
    (waiter, place)
}

fn listed(world: &DomainHarness) -> usize {
    world.transaction().operations().list(world.db, OperationFilter::default(), None, 100).unwrap().len()
}

#[test]
fn a_write_is_recorded_once_with_its_end() {
    let world = world();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ended);
    world.hub.on_direct_write(move |ended, _: Duration| seen.lock().push(ended));
    let (before, was) = (world.head("main"), listed(&world));
    let waiter = Arc::new(Waiter { key: Some("k"), ..Waiter::default() });
    let place = join_as(&world, &world.ada, DB, &waiter, &insert(2)).unwrap();
    assert_eq!(listed(&world), was, "nothing is recorded before the end");
    waiter.turn().run(&world.hub);
    let operation = waiter.operation();
    assert_eq!(world.transaction().operations().get(operation.id).unwrap().as_ref(), Some(&operation));
    let outcome = world.outcome(operation.id);
    assert_eq!((outcome.commit, outcome.previous, outcome.rows_affected), (world.head("main"), before, Some(1)));
    assert_eq!((operation.attempts, listed(&world)), (1, was + 1));
    assert!(operation.created_at <= operation.started_at.unwrap() && operation.started_at <= operation.finished_at);
    assert_eq!(world.rows("main"), ["1|one", "2|row"]);
    assert_eq!(world.events(), ["push main"], "without hooks, no event waits for its dispatch");
    assert_eq!(*ended.lock(), [Ended::Succeeded]);
    let saved = world.transaction().idempotency().get(requester(), "POST /x", "k", operation.created_at).unwrap();
    assert_eq!(saved.unwrap().answer, b"Queued", "the answer to a repeated request is that to a queued operation");
    assert!(!place.leave(), "its turn is over");
}

#[test]
fn those_that_wait_share_a_turn_and_each_is_a_commit_of_its_own() {
    let world = world();
    world.hooked();
    let writes: Vec<_> = (2..6).map(|id| join(&world, &insert(id))).collect();
    assert_eq!(writes[1].0.last(), "nothing", "one caller runs the turn");
    writes[0].0.turn().run(&world.hub);
    let operations: Vec<_> = writes.iter().map(|(waiter, _)| waiter.operation()).collect();
    let outcomes: Vec<_> = operations.iter().map(|operation| world.outcome(operation.id)).collect();
    for pair in outcomes.windows(2) {
        assert_eq!(pair[0].commit, pair[1].previous);
    }
    assert_eq!(outcomes[3].commit, world.head("main"));
    let pushes = world.events().into_iter().filter(|event| event == "push main");
    assert_eq!(pushes.count(), 4, "each push has its event");
    assert!(operations.windows(2).all(|pair| pair[0].finished_at == pair[1].finished_at && pair[0].id < pair[1].id));
}

#[test]
fn a_write_that_fails_is_recorded_and_those_behind_it_have_another_turn() {
    let world = world();
    let (first, _first) = join(&world, &insert(2));
    let (fails, _fails) = join(&world, &insert(1));
    let (behind, _behind) = join(&world, &insert(3));
    first.turn().run(&world.hub);
    assert_eq!(first.last(), "succeeded");
    assert_eq!(fails.last(), "failed: query error: UNIQUE constraint failed: t.id");
    assert_eq!(world.failure(fails.operation().id).kind, FailureKind::Content);
    assert_eq!(behind.last(), "run");
    behind.turn().run(&world.hub);
    assert_eq!(behind.last(), "succeeded");
    assert_eq!(world.rows("main"), ["1|one", "2|row", "3|row"]);
}

#[test]
fn operations_and_collections_come_first() {
    let world = world();
    let queued = world.queue("main", "main", &insert(7));
    let (late, _late) = join(&world, &insert(2));
    late.turn().run(&world.hub);
    assert_eq!((late.last(), world.head("main").is_some()), ("queue".to_owned(), true));
    world.work();
    world.outcome(queued.id);

    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    let mut record = tx.collections().get(world.db).unwrap();
    assert!(record.lease("w", world.hub.now(), world.hub.now().plus_seconds(30)));
    tx.collections().put(world.db, &record).unwrap();
    tx.commit(Durability::Synced).unwrap();
    let (late, _late) = join(&world, &insert(3));
    late.turn().run(&world.hub);
    assert_eq!((late.last(), world.rows("main")), ("queue".to_owned(), vec!["1|one".to_owned(), "7|row".to_owned()]));
}

#[test]
fn an_operation_waits_for_the_turn_that_runs() {
    let world = world();
    let (waiter, _place) = join(&world, &insert(2));
    world.fakes.engine.hold_writes(&[world.db]);
    std::thread::scope(|scope| {
        let (turn, hub) = (waiter.turn(), &world.hub);
        scope.spawn(move || turn.run(hub));
        assert_eq!(world.fakes.engine.wait_for_held_writes(1, Duration::from_secs(20)), 1);
        let queued = world.queue("main", "main", &insert(3));
        let worker = scope.spawn(|| world.hub.operations().run_next("w").unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(world.fakes.engine.wait_for_held_writes(2, Duration::ZERO), 1, "the worker waits for the turn");
        world.fakes.engine.hold_writes(&[]);
        worker.join().unwrap();
        world.outcome(queued.id);
    });
    assert_eq!(
        (waiter.last(), world.rows("main")),
        ("succeeded".to_owned(), vec!["1|one".to_owned(), "2|row".to_owned(), "3|row".to_owned()])
    );
}

#[test]
fn who_may_no_longer_write_has_the_write_queued_and_refused() {
    let world = world();
    world.invite(&world.ben, Role::Write);
    let theirs = Arc::new(Waiter::default());
    let _place = join_as(&world, &world.ben, DB, &theirs, &insert(2)).unwrap();
    let (ours, _ours) = join(&world, &insert(3));
    world.invite(&world.ben, Role::Read);
    theirs.turn().run(&world.hub);
    assert_eq!((theirs.last(), ours.last()), ("queue".to_owned(), "succeeded".to_owned()));

    // Taken away while the statements run.
    world.invite(&world.ben, Role::Write);
    let _place = join_as(&world, &world.ben, DB, &theirs, &insert(4)).unwrap();
    let metadata = Arc::clone(&world.fakes.metadata);
    let (db, ben, now) = (world.db, user(&world.ben).id, world.hub.now());
    world.fakes.engine.meanwhile(move || {
        let mut tx = metadata.write(&WriteKeys::any()).unwrap();
        tx.collaborators().put(db, ben, Role::Read, now).unwrap();
        tx.commit(Durability::Synced).unwrap();
    });
    theirs.turn().run(&world.hub);
    assert_eq!((theirs.last(), world.rows("main")), ("queue".to_owned(), vec!["1|one".to_owned(), "3|row".to_owned()]));
}

#[test]
fn a_branch_that_moves_meanwhile_keeps_its_new_head() {
    let world = world();
    let (waiter, _place) = join(&world, &insert(2));
    let metadata = Arc::clone(&world.fakes.metadata);
    let (db, head, now) = (world.db, world.head("main").unwrap(), world.hub.now());
    let other = world.wrote("other", "INSERT INTO t VALUES (9,'other')");
    let moved = other.clone();
    world.fakes.engine.meanwhile(move || {
        let mut tx = metadata.write(&WriteKeys::any()).unwrap();
        assert!(tx.branches().move_head(db, &name("main"), &head, &moved, now, None).unwrap());
        tx.commit(Durability::Synced).unwrap();
    });
    waiter.turn().run(&world.hub);
    assert_eq!((waiter.last(), world.head("main")), ("queue".to_owned(), Some(other)));
}

#[test]
fn who_leaves_takes_the_write_out_of_the_line() {
    let world = world();
    let (first, place) = join(&world, &insert(2));
    let (second, _second) = join(&world, &insert(3));
    assert!(place.leave());
    first.turn().run(&world.hub);
    assert_eq!((first.last(), second.last()), ("nothing".to_owned(), "succeeded".to_owned()));
    assert_eq!(world.rows("main"), ["1|one", "3|row"]);

    // The turn of a caller that is gone is the next caller's.
    let (gone, place) = join(&world, &insert(4));
    let (next, _next) = join(&world, &insert(5));
    *gone.has_left.lock() = true;
    drop(gone.turn());
    assert_eq!(next.last(), "run");
    next.turn().run(&world.hub);
    assert_eq!((next.last(), place.leave()), ("succeeded".to_owned(), false));
    assert_eq!(world.rows("main"), ["1|one", "3|row", "5|row"]);
}

#[test]
fn a_store_that_fails_leaves_no_write_done_twice() {
    for fault in [SaveFault::Lost, SaveFault::Unheard] {
        let world = world();
        let (waiter, _place) = join(&world, &insert(2));
        world.fakes.metadata.fail_after(0, 1, fault);
        waiter.turn().run(&world.hub);
        assert!(!world.fakes.metadata.no_more_faults(), "the fault happened");
        assert_eq!(waiter.last(), "fault", "{fault:?}: whether it took effect is unknown");
        world.work();
        let expected: &[&str] = if fault == SaveFault::Lost { &["1|one"] } else { &["1|one", "2|row"] };
        assert_eq!(world.rows("main"), expected, "{fault:?}");
    }
}

#[test]
fn a_long_write_is_queued_and_so_are_those_after_it_for_a_while() {
    let world = world();
    world.fakes.engine.writes_take(Duration::from_millis(30));
    let (waiter, _place) = join(&world, &insert(2));
    waiter.turn().run(&world.hub);
    assert_eq!((waiter.last(), listed(&world)), ("queue".to_owned(), 1));
    assert!(join_as(&world, &world.ada, DB, &waiter, &insert(3)).is_none());
    world.wrote("main", &insert(2));
}

#[test]
fn what_is_not_short_or_merges_has_no_place() {
    let world = world();
    let access = world.access::<Write>(&world.ada);
    let write = |wanted: &SqlWrite| {
        world.hub.operations().write_directly(&access, wanted, Arc::new(Waiter::default())).is_some()
    };
    let long = format!("{} -- {}", insert(2), "x".repeat(256 << 10));
    assert!(write(&wanted("main", &insert(2))));
    assert!(!write(&wanted("main", &long)) && !write(&wanted("main", "")));
    assert!(!write(&SqlWrite { from_branch: "other".to_owned(), ..wanted("main", &insert(2)) }));
}

#[test]
fn a_line_is_bounded() {
    let world = world_with(Limits { queued_per_database: 2, ..Limits::default() });
    let (first, _first) = join(&world, &insert(2));
    let (_second, _place) = join(&world, &insert(3));
    assert!(join_as(&world, &world.ada, DB, &Arc::new(Waiter::default()), &insert(4)).is_none());
    first.turn().run(&world.hub);
    assert!(join_as(&world, &world.ada, DB, &Arc::new(Waiter::default()), &insert(4)).is_some());
}

#[test]
fn one_caller_has_half_of_the_turns_and_the_oldest_line_is_next() {
    let world = world_with(Limits { operation_workers: 1, ..Limits::default() });
    let databases: Vec<String> = (0..5).map(|n| format!("d{n}")).collect();
    for database in &databases {
        create(&world.hub, &world.ada, ("ada", database), Visibility::Public);
    }
    create(&world.hub, &world.ben, ("ben", "own"), Visibility::Public);
    let start = |caller: &Caller, locator| {
        let waiter = Arc::new(Waiter::default());
        let place = join_as(&world, caller, locator, &waiter, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)");
        (waiter, place.unwrap())
    };
    let of_ada: Vec<_> = databases.iter().map(|database| start(&world.ada, ("ada", database))).collect();
    let (of_ben, _place) = start(&world.ben, ("ben", "own"));
    let last = |n: usize| of_ada[n].0.last();
    let all = || [last(0), last(1), last(2), last(3), last(4), of_ben.last()];
    assert_eq!(all(), ["run", "run", "run", "run", "nothing", "run"]);
    of_ada[0].0.turn().run(&world.hub);
    assert_eq!([last(0), last(4)], ["succeeded", "run"]);
    for waiter in of_ada[1..].iter().map(|(waiter, _)| waiter).chain([&of_ben]) {
        waiter.turn().run(&world.hub);
        assert_eq!(waiter.last(), "succeeded");
    }
}

/// Runs a turn on a thread while the store is held, and another one that builds on it. `meanwhile` changes the store before both
/// are settled.
fn build_on_a_turn(world: &DomainHarness, meanwhile: impl FnOnce(&mut dyn Transaction)) -> [Arc<Waiter>; 2] {
    let (first, _first) = join(world, &insert(2));
    std::thread::scope(|scope| {
        let mut held = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
        let (turn, hub) = (first.turn(), &world.hub);
        world.fakes.engine.hold_writes(&[world.db]);
        scope.spawn(move || turn.run(hub));
        assert_eq!(world.fakes.engine.wait_for_held_writes(1, Duration::from_secs(20)), 1);
        // Its caller has to run a turn as soon as the statements of the first one have run.
        let second = Arc::new(Waiter::default());
        let place = join_as(world, &world.ada, DB, &second, &insert(3)).unwrap();
        assert_eq!(second.last(), "nothing");
        world.fakes.engine.hold_writes(&[]);
        wait_until(|| second.last() == "run");
        let turn = second.turn();
        let runs = scope.spawn(move || turn.run(hub));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!([first.last(), second.last()], ["nothing", "nothing"]);
        meanwhile(held.as_mut());
        held.commit(Durability::Synced).unwrap();
        runs.join().unwrap();
        drop(place);
        [Arc::clone(&first), second]
    })
}

fn wait_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn statements_run_while_the_turn_before_is_settled() {
    let world = world();
    let [first, second] = build_on_a_turn(&world, |_| {});
    let [first, second] = [first.operation(), second.operation()];
    assert_eq!(world.outcome(first.id).commit, world.outcome(second.id).previous);
    assert_eq!(world.outcome(second.id).commit, world.head("main"));
    assert_eq!(world.rows("main"), ["1|one", "2|row", "3|row"]);
}

#[test]
fn what_builds_on_a_turn_that_does_not_settle_is_queued() {
    let world = world();
    let other = world.wrote("other", "INSERT INTO t VALUES (9,'other')");
    let (db, head, now) = (world.db, world.head("main").unwrap(), world.hub.now());
    let ended = build_on_a_turn(&world, |tx| {
        assert!(tx.branches().move_head(db, &name("main"), &head, &other, now, None).unwrap());
    });
    assert_eq!(ended.map(|waiter| waiter.last()), ["queue", "queue"]);
    assert_eq!(world.head("main"), Some(other));
}
