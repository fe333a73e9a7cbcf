//! Operations: queueing, canceling, limits, SQL writes and idempotency.

use branchyard_domain::access::{Admin, Caller, Participate, Write};
use branchyard_domain::entities::{
    ActivityKind, Database, DatabaseLocator, FailureKind, Operation, OperationStatus, Role, Signature, Visibility, Work,
};
use branchyard_domain::errors::{OperationError, PortError};
use branchyard_domain::ports::{
    Durability, Engine as _, LeaseTurn, Metadata as _, OperationFilter, OperationState, WriteKeys,
};
use branchyard_domain::usecases::{EditDatabase, IdempotencyRecord, Limits, News, SqlWrite};
use branchyard_domain::values::{DatabaseId, DatabaseName};

use crate::harness::{DomainHarness, name, user, world, world_with};
use crate::refs::at;

const ADD: &str = "INSERT INTO t VALUES (2,'two')";

fn once(world: &DomainHarness) -> IdempotencyRecord<'static, Operation> {
    IdempotencyRecord {
        caller: user(&world.ada).id,
        scope: "POST /x".to_owned(),
        key: "k".to_owned(),
        request_hash: [7; 32],
        render: &|operation: &Operation| operation.id.to_string().into_bytes(),
    }
}

fn write(from: &str, to: &str, statements: &str) -> SqlWrite {
    SqlWrite {
        from_branch: from.to_owned(),
        to_branch: name(to),
        statements: statements.to_owned(),
        message: None,
        expected_head: None,
        start: None,
    }
}

#[test]
fn a_write_makes_its_branch_and_a_failed_one_does_not() {
    let world = world();
    let failed = world.queue("main", "new", "INSERT INTO t VALUES (2,'two'); INSERT INTO t VALUES (1,'again')");
    world.work();
    let failure = world.failure(failed.id);
    assert_eq!(failure.kind, FailureKind::Content);
    assert_eq!(failure.detail, "query error: UNIQUE constraint failed: t.id (statement 2)");
    assert_eq!((world.head("new"), world.events()), (None, vec!["push main".to_owned()]));

    let made = world.queue("main", "new", ADD);
    world.work();
    assert_eq!(world.outcome(made.id).commit, world.head("new"));
    assert_eq!(
        (world.rows("main"), world.rows("new")),
        (vec!["1|one".to_owned()], vec!["1|one".to_owned(), "2|two".to_owned()])
    );
    let idle = world.queue("main", "idle", "DELETE FROM t WHERE id = 99");
    world.work();
    assert_eq!((world.outcome(idle.id).commit, world.head("idle")), (world.head("main"), world.head("main")));
    assert_eq!(world.events(), ["push main", "+new", "push new", "+idle"]);
}

#[test]
fn a_file_of_a_newer_format_fails_an_operation_at_once() {
    let world = world();
    assert_eq!(world.transaction().databases().get(world.db).unwrap().unwrap().engine_format, 1);
    world.fakes.engine.set_format(world.db, 2);
    let operation = world.queue("main", "main", ADD);
    world.hub.operations().run_next("w").unwrap_err();
    let failure = world.failure(operation.id);
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(
        failure.detail.contains("has format 2, and this release of the server knows formats up to 1"),
        "{failure:?}"
    );
}

#[test]
fn a_write_brings_its_branch_up_to_date() {
    let world = world();
    world.branch("work", at("main")).unwrap();
    world.wrote("main", ADD);
    let operation = world.queue("main", "work", "INSERT INTO t VALUES (3,'three')");
    world.work();
    assert_eq!(world.outcome(operation.id).commit, world.head("work"));
    assert_eq!(world.rows("work"), ["1|one", "2|two", "3|three"]);
    world.wrote("main", "UPDATE t SET a = 'ours' WHERE id = 1");
    let head = world.head("work");
    let clash = world.queue("main", "work", "UPDATE t SET a = 'theirs' WHERE id = 1");
    world.work();
    assert_eq!((world.failure(clash.id).kind, world.head("work")), (FailureKind::MergeConflict, head));
}

#[test]
fn where_a_write_starts_must_exist() {
    let world = world();
    let access = world.access::<Write>(&world.ada);
    for from in ["gone", "not..a name"] {
        let refused = world.hub.operations().sql_write(&access, write(from, "new", ADD), None);
        assert!(matches!(refused, Err(OperationError::NoSuchBranch(branch)) if branch == from));
    }
    let queued = world.queue("main", "new", ADD);
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.branches().remove(world.db, &name("main"), &world.head("main").unwrap(), None).unwrap();
    tx.commit(Durability::Synced).unwrap();
    world.work();
    assert_eq!(world.failure(queued.id).kind, FailureKind::NotFound);
}

#[test]
fn whoever_lost_the_role_meanwhile_changes_nothing() {
    let world = world();
    world.invite(&world.ben, Role::Write);
    let access = world.access::<Write>(&world.ben);
    let queued = world.hub.operations().sql_write(&access, write("main", "main", ADD), None).unwrap();
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.collaborators().remove(world.db, user(&world.ben).id).unwrap();
    tx.commit(Durability::Synced).unwrap();
    world.work();
    assert_eq!(world.failure(queued.id).kind, FailureKind::PermissionDenied);
    assert_eq!(world.rows("main"), ["1|one"]);
}

#[test]
fn the_queue_of_a_database_is_bounded() {
    let world = world_with(Limits { queued_per_database: 2, ..Limits::default() });
    world.queue("main", "main", ADD);
    let second = world.queue("main", "main", ADD);
    let access = world.access::<Write>(&world.ada);
    let refused = world.hub.operations().sql_write(&access, write("main", "main", ADD), None);
    assert!(matches!(refused, Err(OperationError::QueueFull(2))));
    world.hub.operations().cancel(user(&world.ada), second.id, None).unwrap();
    world.queue("main", "main", ADD);
    world.work();
    world.queue("main", "main", ADD);
}

#[test]
fn operations_run_in_the_order_they_came() {
    let world = world();
    let ids: Vec<_> =
        (2..6).map(|id| world.queue("main", "main", &format!("INSERT INTO t VALUES ({id},'x')")).id).collect();
    assert!(world.hub.operations().run_next("a").unwrap().is_some());
    assert!(matches!(world.status(ids[0]), OperationStatus::Succeeded(_)));
    assert_eq!(world.status(ids[1]), OperationStatus::Queued);
    world.work();
    assert_eq!(world.rows("main").len(), 5);
    let access = world.access::<Write>(&world.ada);
    let succeeded = OperationFilter { state: Some(OperationState::Succeeded), kinds: None };
    let listed = world.hub.operations().list(&access, succeeded, None, 4).unwrap();
    assert_eq!(listed.iter().rev().map(|o| o.id).collect::<Vec<_>>(), ids, "newest first");
}

#[test]
fn only_what_waits_is_canceled_and_only_by_those_concerned() {
    let world = world();
    let operations = world.hub.operations();
    let queued = world.queue("main", "main", ADD);
    assert!(matches!(operations.cancel(user(&world.ben), queued.id, None), Err(OperationError::Denied)));
    let canceled = operations.cancel(user(&world.ada), queued.id, None).unwrap();
    let OperationStatus::Failed(failure) = &canceled.status else { panic!("{canceled:?}") };
    assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Canceled, "canceled by ada"));
    assert!(matches!(operations.cancel(user(&world.ada), queued.id, None), Err(OperationError::NotQueued)));
    world.work();
    assert_eq!(world.rows("main"), ["1|one"]);
    let queued = world.queue("main", "main", ADD);
    world.invite(&world.ben, Role::Write);
    operations.cancel(user(&world.ben), queued.id, None).unwrap();
}

#[test]
fn one_key_one_effect() {
    let world = world();
    let access = world.access::<Write>(&world.ada);
    let run = || world.hub.operations().sql_write(&access, write("main", "main", ADD), Some(&once(&world)));
    let first = run().unwrap();
    let saved = || world.hub.databases().saved_answer(user(&world.ada).id, "POST /x", "k").unwrap();
    let answer = saved().unwrap();
    assert_eq!((answer.answer, answer.request_hash), (first.id.to_string().into_bytes(), [7; 32]));
    assert!(matches!(run(), Err(OperationError::Port(PortError::KeyTaken))));
    world.work();
    assert_eq!(world.hub.operations().list(&access, OperationFilter::default(), None, 10).unwrap().len(), 2);
    assert_eq!(world.rows("main"), ["1|one", "2|two"]);
    world.fakes.clock.advance_seconds(world.hub.limits().answer_retention_seconds + 1);
    assert_eq!(saved(), None);
    run().unwrap();
}

#[test]
fn a_refused_request_keeps_no_answer() {
    let world = world();
    let access = world.access::<Write>(&world.ada);
    world.hub.operations().sql_write(&access, write("gone", "main", ADD), Some(&once(&world))).unwrap_err();
    assert_eq!(world.hub.databases().saved_answer(user(&world.ada).id, "POST /x", "k").unwrap(), None);
    world.hub.operations().sql_write(&access, write("main", "main", ADD), Some(&once(&world))).unwrap();
}

#[test]
fn a_fork_takes_its_name_while_it_waits() {
    let world = world();
    let access = world.access::<Participate>(&world.ben);
    let fork = |owner| world.hub.operations().fork(&access, owner, None);
    assert!(matches!(fork("ada"), Err(OperationError::MayNotCreateFor(_))));
    fork("ben").unwrap();
    assert!(matches!(fork("ben"), Err(OperationError::NameTaken(_))), "queued");
    world.work();
    assert!(matches!(fork("ben"), Err(OperationError::NameTaken(_))), "done");
}

#[test]
fn leases_of_a_former_process_of_the_node_end_at_once() {
    let world = world();
    let queued = world.queue("main", "main", ADD);
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    let (now, turn) = (world.hub.now(), LeaseTurn::default());
    tx.operations().lease("here/0", now, now.plus_seconds(30), turn).unwrap().unwrap();
    tx.commit(Durability::Synced).unwrap();
    assert!(world.hub.operations().run_next("worker").unwrap().is_none());
    assert_eq!(world.hub.operations().recover("elsewhere").unwrap(), 0, "another server that starts");
    assert!(world.hub.operations().run_next("worker").unwrap().is_none());
    assert_eq!(world.hub.operations().recover("here").unwrap(), 1);
    world.work();
    world.outcome(queued.id);
}

#[test]
fn what_is_old_goes() {
    let world = world();
    let done = world.queue("main", "main", ADD);
    world.work();
    world.fakes.clock.advance_seconds(world.hub.limits().operation_retention_seconds + 1);
    let waiting = world.queue("main", "main", ADD);
    world.hub.operations().tidy().unwrap();
    assert_eq!(world.transaction().operations().get(done.id).unwrap(), None);
    assert_eq!(world.status(waiting.id), OperationStatus::Queued);
}

#[test]
fn a_write_without_a_statement_merges() {
    let world = world();
    world.branch("work", at("main")).unwrap();
    world.wrote("work", ADD);
    let before = world.head("main");
    let merged = world.queue("work", "main", "");
    world.work();
    let outcome = world.outcome(merged.id);
    assert_eq!((outcome.previous, outcome.commit, outcome.rows_affected), (before, world.head("main"), Some(0)));
    assert_eq!(world.rows("main"), ["1|one", "2|two"]);

    let again = world.queue("work", "main", "");
    let made = world.queue("main", "made", "");
    world.work();
    let idle = world.outcome(again.id);
    assert_eq!((&idle.previous, &idle.commit), (&world.head("main"), &world.head("main")), "nothing to merge");
    assert_eq!((world.outcome(made.id).commit, world.head("made")), (world.head("main"), world.head("main")));

    world.wrote("work", "UPDATE t SET a = 'theirs' WHERE id = 1");
    let head = world.wrote("main", "UPDATE t SET a = 'ours' WHERE id = 1");
    let clash = world.queue("work", "main", "");
    world.work();
    assert_eq!((world.failure(clash.id).kind, world.head("main")), (FailureKind::MergeConflict, Some(head)));
}

#[test]
fn an_outcome_says_what_was_before_and_how_many_rows() {
    let world = world();
    let before = world.head("main");
    let operation =
        world.queue("main", "new", "INSERT INTO t VALUES (2,'two'),(3,'three'); DELETE FROM t WHERE id = 1");
    world.work();
    let outcome = world.outcome(operation.id);
    assert_eq!((outcome.previous, outcome.rows_affected), (before, Some(3)));
}

#[test]
fn everybody_lists_what_they_started_and_nobody_else_does() {
    let world = world();
    let queued = world.queue("main", "main", ADD);
    let operations = world.hub.operations();
    let list = |who, name| operations.list_by(user(who), name, OperationFilter::default(), None, 10);
    assert_eq!(list(&world.ada, "Ada").unwrap()[0].id, queued.id);
    assert!(list(&world.ben, "ben").unwrap().is_empty());
    assert!(matches!(list(&world.ben, "ada"), Err(OperationError::NotYours)));
    assert!(matches!(list(&world.ben, "nobody"), Err(OperationError::NotYours)));
}

#[test]
fn an_operation_is_read_like_its_database() {
    let world = world();
    let queued = world.queue("main", "main", ADD);
    let read = |who: &Caller| world.hub.operations().get(who, queued.id).is_ok();
    assert!(read(&Caller::Anonymous) && read(&world.ben));
    let hide = EditDatabase { visibility: Some(Visibility::Private), ..EditDatabase::default() };
    world.hub.databases().edit(&world.access::<Admin>(&world.ada), hide, None).unwrap();
    assert_eq!([&Caller::Anonymous, &world.ben, &world.ada].map(read), [false, false, true]);
}

#[test]
fn an_operation_of_a_deleted_database_is_read_by_its_creator_without_what_it_made() {
    let world = world();
    let operation = world.queue("main", "main", ADD);
    world.work();
    let read = || world.hub.operations().get(&world.ada, operation.id).unwrap();
    assert!(!read().is_concealed());
    world.hub.databases().delete(&world.access::<Admin>(&world.ada), None).unwrap();
    let listed = world.hub.operations().list_by(user(&world.ada), "ada", OperationFilter::default(), None, 10).unwrap();
    for seen in [read(), listed[0].clone()] {
        assert_eq!((seen.id, seen.is_concealed()), (operation.id, true));
        let Work::SqlWrite { statements, message, .. } = seen.work else { panic!("{:?}", seen.work) };
        assert_eq!((statements, message), Default::default());
    }
}

#[test]
fn an_operation_conceals_what_it_wrote_once_nothing_reaches_the_commit() {
    let world = world();
    let operation = world.queue("main", "gone", ADD);
    world.work();
    world.hub.branches().delete(&world.access::<Write>(&world.ada), "gone", None).unwrap();
    let seen = world.hub.operations().get(&world.ben, operation.id).unwrap();
    assert!(seen.is_concealed());
    let Work::SqlWrite { statements, message, .. } = seen.work else { panic!("{:?}", seen.work) };
    assert_eq!((statements, message), Default::default());
    let news = world.hub.activities().news(user(&world.ada), 10).unwrap();
    let is_of = |news: &&News, branch: &str| matches!(&news.activity.kind, ActivityKind::Pushed { branch: moved, .. } if moved.as_str() == branch);
    assert_eq!(news.iter().find(|news| is_of(news, "gone")).unwrap().head, None);
    assert_eq!(news.iter().find(|news| is_of(news, "main")).unwrap().head, world.head("main"));
}

#[test]
fn a_start_removes_the_files_that_no_database_has() {
    let world = world();
    // More than one page of the store.
    {
        let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
        let like = tx.databases().get(world.db).unwrap().unwrap();
        for number in 1..=1_001 {
            let id = DatabaseId::from_uuid(uuid::Uuid::from_u128(number));
            let name = DatabaseName::parse(&format!("n{number}")).unwrap();
            let locator = DatabaseLocator { name, ..like.locator.clone() };
            tx.databases().add(&Database { id, network_id: id, locator, ..like.clone() }).unwrap();
        }
        tx.commit(Durability::Synced).unwrap();
    }
    let engine = &world.fakes.engine;
    let author = Signature { name: "ada".into(), email: "ada@example.org".into(), at: world.hub.now() };
    let [first, last, unknown] =
        [1, 1_001, u128::MAX].map(|number| DatabaseId::from_uuid(uuid::Uuid::from_u128(number)));
    for id in [first, last, unknown] {
        engine.create(id, &author, "Create database").unwrap();
    }
    assert_eq!(world.hub.operations().sweep().unwrap(), 1);
    let left = engine.list().unwrap();
    assert!([world.db, first, last].iter().all(|id| left.contains(id)) && !left.contains(&unknown), "{left:?}");
    assert_eq!(world.hub.operations().sweep().unwrap(), 0);
}
