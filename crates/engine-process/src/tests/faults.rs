//! Workers that crash, hang, take what they can get, and damage their database.

use std::ops::ControlFlow;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    CollectedRows, Column, Engine as _, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget, ReadQuery,
    RowSink, RowSource, ValueRef,
};

use super::{AMPLE, BEYOND, Harness, LIMIT, author, blamed, deed, in_time, is_timeout};
use crate::engine::sinks::NoRows;
use crate::worker::tests::DEED;

#[test]
fn a_crash_is_tried_again_once() {
    let harness = Harness::new();
    let (db, other) = (harness.database(1), harness.database(2));
    assert_eq!(harness.read(&db, &deed("crash 1")).unwrap(), ["x"]);
    let text = blamed(harness.read(&db, &deed("crash")).unwrap_err());
    assert!(text.contains("ended the process"), "{text}");
    harness.works(&[&db, &other]);
}

#[test]
fn a_crash_of_a_write_is_tried_again_once() {
    let harness = Harness::new();
    let (db, other) = (harness.database(1), harness.database(2));
    let written = harness.write(&db, &format!("{DEED}crash 1\nINSERT INTO t VALUES ('z')")).unwrap();
    let after = super::Db { head: written, ..db.clone() };
    assert_eq!(harness.read(&after, "SELECT v FROM t ORDER BY v").unwrap(), ["x", "z"]);
    let text = blamed(harness.write(&db, &format!("{DEED}crash\nINSERT INTO t VALUES ('z')")).unwrap_err());
    assert!(text.contains("ended the process"), "{text}");
    harness.works(&[&db, &other]);
}

#[test]
fn what_does_not_look_at_its_interrupt_is_killed_in_time() {
    let harness = Harness::new();
    let db = harness.database(1);
    for statement in ["hang", "drip", "rows"] {
        // To keep and drop millions of rows takes time of its own.
        let query = deed(statement);
        let read = || harness.engine.read(db.id, &db.head, &ReadQuery::new(&query, LIMIT), &mut NoRows);
        let error = in_time(read).unwrap_err();
        assert!(is_timeout(&error), "{statement}: {error:?}");
    }
    let statements = format!("{DEED}hang\nINSERT INTO t VALUES ('z')");
    let error = in_time(|| harness.write_within(&db, &statements, LIMIT)).unwrap_err();
    assert!(is_timeout(&error), "{error:?}");
    assert_eq!(harness.engine.workers().killed, 4);
    harness.works(&[&db]);
}

/// Rows for an import, without an end.
struct Endless;

impl RowSource for Endless {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        row.push(Cell::Text(vec![b'x'; 1000]));
        Ok(Some(1))
    }
}

#[test]
fn a_worker_that_never_reads_its_socket_is_killed_in_time() {
    let harness = Harness::new();
    let db = harness.database(1);
    let author = author();
    let message = format!("{DEED}greedy\n");
    let column = ImportColumn { name: "v".into(), declared_type: "TEXT".into() };
    let job = ImportJob {
        base: &db.head,
        table: "imported",
        target: &ImportTarget::New { primary_key: Vec::new(), overwrite: false },
        columns: std::slice::from_ref(&column),
        message: &message,
        author: &author,
        timeout: LIMIT,
    };
    let error = in_time(|| harness.engine.import(db.id, &job, &mut Endless)).unwrap_err();
    assert!(is_timeout(&error), "{error:?}");
    harness.works(&[&db]);
}

#[test]
fn a_worker_that_does_not_start_is_replaced() {
    std::thread::scope(|scope| {
        for at_start in ["hang before ready", "hang before bound"] {
            scope.spawn(move || {
                let harness = Harness::with(at_start, |options| options.blank_workers = 1);
                // The worker that hangs is among the first.
                let created: Vec<_> = (1..10).map(|number| harness.try_database(number)).collect();
                let failed = created.iter().filter(|created| created.is_err()).count();
                assert!(failed <= 1, "{created:?}");
                harness.works(&[created.last().unwrap().as_ref().unwrap()]);
            });
        }
    });
}

#[test]
fn memory_without_an_end_ends_its_worker_alone() {
    let harness = Harness::new();
    let (db, other) = (harness.database(1), harness.database(2));
    std::thread::scope(|scope| {
        let hog = scope.spawn(|| blamed(harness.read(&db, &deed("memory")).unwrap_err()));
        for _ in 0..10 {
            assert_eq!(harness.read(&other, "SELECT v FROM t").unwrap(), ["x"]);
        }
        let text = hog.join().unwrap();
        assert!(text.contains("ended the process"), "{text}");
    });
    harness.works(&[&db, &other]);
}

#[test]
fn rows_that_end_in_the_middle_are_not_a_result() {
    let harness = Harness::new();
    let db = harness.database(1);
    let mut rows = CollectedRows::default();
    let query = deed("rows 3");
    let read = harness.engine.read(db.id, &db.head, &ReadQuery::new(&query, AMPLE), &mut rows);
    let text = blamed(read.unwrap_err());
    assert!(text.contains("ended the process"), "{text}");
    // Not tried again, because the receiver has rows already.
    assert_eq!(rows.rows.len(), 3);
    harness.works(&[&db]);
}

/// Wants no row after the first.
struct First;

impl RowSink for First {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

#[test]
fn rows_that_go_on_although_none_are_needed_end_soon() {
    let harness = Harness::new();
    let db = harness.database(1);
    let query = deed("rows");
    in_time(|| harness.engine.read(db.id, &db.head, &ReadQuery::new(&query, AMPLE), &mut First)).unwrap();
    assert_eq!(harness.engine.workers().killed, 1);
    harness.works(&[&db]);
}

#[test]
fn wild_writes_damage_one_database_and_are_noticed() {
    for deed in ["wild", "wild from the middle"] {
        let harness = Harness::new();
        let (db, other) = (harness.database(1), harness.database(2));
        assert_eq!(harness.read(&db, "SELECT v FROM t").unwrap(), ["x"]);
        let written = harness.write(&db, &format!("{DEED}{deed}\nINSERT INTO t VALUES ('z')"));
        assert!(matches!(written, Err(EngineError::Unavailable(_))), "{written:?}");
        let next = harness.write(&db, "INSERT INTO t VALUES ('z')");
        harness.engine.pool.evict(db.id);
        let read = harness.read(&db, "SELECT v FROM t");
        println!("{deed}: a write then ended with {next:?}, a read with {read:?}");
        // The engine reports a file without a header as one that cannot be opened, and one without its end as one without
        // its newest commits.
        for error in [next.unwrap_err(), read.unwrap_err()] {
            let is_noticed = matches!(
                error,
                EngineError::Damaged(_)
                    | EngineError::DamagedCommit { .. }
                    | EngineError::NoSuchCommit(_)
                    | EngineError::Fault { .. }
            );
            assert!(is_noticed, "{error:?}");
        }
        harness.works(&[&other]);
    }
}

/// A commit that is acknowledged, but lost by what its writer does to the file afterwards, is not believed.
#[test]
fn a_commit_in_a_damaged_file_is_not_proved() {
    let harness = Harness::new();
    let (db, other) = (harness.database(1), harness.database(2));
    let written = harness.write(&db, &format!("{DEED}wild and commit\nINSERT INTO t VALUES ('z')"));
    println!("{written:?}");
    assert!(written.is_err(), "{written:?}");
    harness.works(&[&other]);
}

const _: () = assert!(LIMIT.as_millis() < BEYOND.as_millis());
