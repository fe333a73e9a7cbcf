//! Writes that expect a commit, writes that begin at one, and previews of writes.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::access::{Query, Write};
use branchyard_domain::entities::{FailureKind, OperationStatus};
use branchyard_domain::errors::{OperationError, PortError};
use branchyard_domain::ports::{EngineError, PreviewRefusal};
use branchyard_domain::usecases::{DirectProgress, DirectWaiter, KeepAnswer, PreviewEnd, PreviewReport, SqlWrite};
use branchyard_domain::values::CommitHash;
use parking_lot::Mutex;

use crate::harness::{DomainHarness, name, world};

const ADD: &str = "INSERT INTO t VALUES (2,'two')";

fn wanted(from: &str, to: &str, expected_head: Option<CommitHash>) -> SqlWrite {
    let (from_branch, to_branch, statements) = (from.to_owned(), name(to), ADD.to_owned());
    SqlWrite { from_branch, to_branch, statements, message: None, expected_head, start: None }
}

fn queue(world: &DomainHarness, wanted: SqlWrite) -> Result<branchyard_domain::entities::Operation, OperationError> {
    world.hub.operations().sql_write(&world.access::<Write>(&world.ada), wanted, None)
}

fn preview(world: &DomainHarness, wanted: &SqlWrite) -> Result<PreviewReport, OperationError> {
    world.hub.operations().preview_write(&world.access::<Write>(&world.ada), wanted)
}

#[test]
fn a_write_that_expects_another_head_is_refused() {
    let world = world();
    let first = world.head("main").unwrap();
    let second = world.wrote("main", "INSERT INTO t VALUES (7,'seven')");
    for write in [wanted("main", "main", Some(first.clone())), wanted("main", "new", Some(first))] {
        match queue(&world, write) {
            Err(OperationError::OtherHead(head)) => assert_eq!(head, second),
            other => panic!("{other:?}"),
        }
    }
    let accepted = queue(&world, wanted("main", "new", Some(second))).unwrap();
    world.work();
    assert_eq!(world.outcome(accepted.id).commit, world.head("new"));
    assert_eq!(world.rows("new"), ["1|one", "2|two", "7|seven"]);
}

#[test]
fn a_write_fails_if_its_branch_moved_before_it_runs() {
    let world = world();
    let head = world.head("main").unwrap();
    let first = queue(&world, wanted("main", "main", Some(head.clone()))).unwrap();
    let mut other = wanted("main", "main", Some(head));
    other.statements = "INSERT INTO t VALUES (3,'three')".to_owned();
    let second = queue(&world, other).unwrap();
    world.work();
    world.outcome(first.id);
    let failure = world.failure(second.id);
    assert_eq!(failure.kind, FailureKind::Conflict);
    assert!(failure.detail.starts_with("the statements would run on commit "), "{failure:?}");
    assert_eq!(world.rows("main"), ["1|one", "2|two"]);
}

#[derive(Default)]
struct Waiter(Mutex<Vec<DirectProgress>>);

impl DirectWaiter for Waiter {
    fn notify(&self, progress: DirectProgress) -> Result<(), DirectProgress> {
        self.0.lock().push(progress);
        Ok(())
    }

    fn with_key(&self, keep: &mut KeepAnswer<'_>) -> Result<(), PortError> {
        keep(None)
    }
}

/// Joins the line of direct writes, runs the turns that come, and returns how each write ended.
fn directly(world: &DomainHarness, writes: &[SqlWrite]) -> Vec<&'static str> {
    let access = world.access::<Write>(&world.ada);
    let lined = writes.iter().map(|write| {
        let waiter = Arc::new(Waiter::default());
        let place = world.hub.operations().write_directly(&access, write, Arc::clone(&waiter) as _).unwrap();
        (waiter, place)
    });
    let lined: Vec<_> = lined.collect();
    loop {
        let turn = lined.iter().find_map(|(waiter, _)| {
            let mut received = waiter.0.lock();
            let at = received.iter().position(|progress| matches!(progress, DirectProgress::Run(_)))?;
            match received.remove(at) {
                DirectProgress::Run(turn) => Some(turn),
                _ => None,
            }
        });
        let Some(turn) = turn else { break };
        turn.run(&world.hub);
    }
    let ended = lined.iter().map(|(waiter, _)| match waiter.0.lock().last() {
        Some(DirectProgress::Ended(operation)) => match operation.status {
            OperationStatus::Succeeded(_) => "succeeded",
            _ => "failed",
        },
        Some(DirectProgress::Queue) => "queue",
        _ => "nothing",
    });
    ended.collect()
}

#[test]
fn a_direct_write_runs_on_the_head_that_it_expects_or_not_at_all() {
    let world = world();
    let head = world.head("main").unwrap();
    let write = |n: u32, expected: Option<&CommitHash>| SqlWrite {
        statements: format!("INSERT INTO t VALUES ({n},'row')"),
        ..wanted("main", "main", expected.cloned())
    };
    assert_eq!(directly(&world, &[write(2, Some(&head))]), ["succeeded"]);
    // The second one would run behind the first one of its turn, on another commit.
    let head = world.head("main").unwrap();
    let ended = directly(&world, &[write(3, None), write(4, Some(&head)), write(5, None)]);
    assert_eq!(ended, ["succeeded", "queue", "succeeded"]);
    assert_eq!(world.rows("main"), ["1|one", "2|row", "3|row", "5|row"]);
    assert_eq!(directly(&world, &[write(6, Some(&head))]), ["queue"]);
}

#[test]
fn a_write_at_a_commit_creates_its_branch_there() {
    let world = world();
    let old = world.head("main").unwrap();
    world.wrote("main", "INSERT INTO t VALUES (7,'seven')");
    let at_old = |to: &str| SqlWrite { start: Some(old.clone()), ..wanted(to, to, None) };
    let made = queue(&world, at_old("patch")).unwrap();
    world.work();
    let outcome = world.outcome(made.id);
    assert_eq!((outcome.commit, outcome.previous), (world.head("patch"), Some(old.clone())));
    assert_eq!((world.rows("patch"), world.rows("main").len()), (vec!["1|one".to_owned(), "2|two".to_owned()], 2));
    assert!(matches!(queue(&world, at_old("patch")), Err(OperationError::BranchExists(_))));

    let first = queue(&world, at_old("twice")).unwrap();
    let second = queue(&world, at_old("twice")).unwrap();
    world.work();
    world.outcome(first.id);
    assert_eq!(world.failure(second.id).kind, FailureKind::Conflict);
}

#[test]
fn a_preview_changes_nothing() {
    let world = world();
    let head = world.head("main").unwrap();
    let report = preview(&world, &wanted("main", "main", Some(head.clone()))).unwrap();
    assert_eq!(report.base, head);
    let PreviewEnd::Changes(changes) = report.end else { panic!("{:?}", report.end) };
    assert_eq!((changes.rows_affected, changes.tables[0].change.rows), (1, Some((1, 0, 0))));
    assert_eq!((world.head("main"), world.rows("main")), (Some(head.clone()), vec!["1|one".to_owned()]));
    assert_eq!(world.events(), ["push main"], "only that of the harness");

    let failing = SqlWrite { statements: "DELETE FROM gone WHERE a = 1".to_owned(), ..wanted("main", "new", None) };
    let report = preview(&world, &failing).unwrap();
    assert!(matches!(report.end, PreviewEnd::Failed { statement: 1, .. }), "{report:?}");
    world.wrote("main", "INSERT INTO t VALUES (7,'seven')");
    let moved = preview(&world, &wanted("main", "main", Some(head)));
    assert!(matches!(moved, Err(OperationError::OtherHead(_))), "{moved:?}");
    let missing = preview(&world, &wanted("nope", "new", None));
    assert!(matches!(missing, Err(OperationError::NoSuchBranch(_))), "{missing:?}");
}

#[test]
fn a_preview_of_long_statements_is_refused() {
    let world = world();
    world.fakes.engine.writes_take(Duration::from_secs(6));
    let report = preview(&world, &wanted("main", "main", None)).unwrap();
    assert_eq!(report.end, PreviewEnd::Refused(PreviewRefusal::TooLong));
    let at = world.hub.sql().resolve(&world.access::<Query>(&world.ada), Some("main")).unwrap();
    let start = SqlWrite { start: Some(at), ..wanted("main", "main", None) };
    assert!(matches!(preview(&world, &start), Err(OperationError::BranchExists(_))));
    assert!(!matches!(
        preview(&world, &wanted("main", "main", None)),
        Err(OperationError::Port(PortError::Engine(EngineError::Busy)))
    ));
}
