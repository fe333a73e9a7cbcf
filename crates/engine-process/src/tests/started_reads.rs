//! Reads that a worker computes while no thread waits for them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{
    CancellationToken, CollectedRows, Engine as _, EngineError, ReadQuery, SqlFailure, StartedRead,
};
use branchyard_engine_doltlite::{Long, WatchedCall, YieldHook};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{AMPLE, Db, Harness, deed, in_time, is_timeout};

/// The end of a started read.
pub(super) struct Started {
    /// Whether the result was at hand once the worker had sent something.
    pub(super) at_hand: bool,
    /// How long taking the result took.
    pub(super) took: Duration,
    pub(super) rows: Result<Vec<String>, EngineError>,
}

impl Harness {
    /// Starts a read on an idle worker.
    fn start_read(&self, db: &Db, query: &ReadQuery<'_>) -> Option<Box<dyn StartedRead>> {
        Arc::clone(&self.engine).start_read(db.id, &db.head, query)
    }

    /// Runs a read that a worker computes while this thread waits for its descriptor only.
    pub(super) fn read_started(&self, db: &Db, sql: &str) -> Started {
        self.read(db, "SELECT v FROM t").unwrap();
        let mut read = self.start_read(db, &ReadQuery::new(sql, AMPLE)).unwrap();
        wait_for(&*read);
        let at_hand = read.is_at_hand();
        let began = Instant::now();
        let mut rows = CollectedRows::default();
        let ended = read.finish(&mut rows);
        Started { at_hand, took: began.elapsed(), rows: ended.map(|_| rows.lines()) }
    }
}

fn wait_for(read: &dyn StartedRead) {
    let descriptor = read.descriptor();
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::try_from(AMPLE).unwrap())).unwrap();
}

/// Returns a statement whose result has so many rows.
fn rows(count: u32) -> String {
    format!("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT {count}) SELECT n FROM c")
}

#[test]
fn a_short_result_is_at_hand_once_the_worker_has_sent_something() {
    let harness = Harness::new();
    let db = harness.database(1);
    for count in [1, 2, 1_000] {
        let started = harness.read_started(&db, &rows(count));
        assert!(started.at_hand, "{count} rows");
        assert_eq!(started.rows.unwrap().len(), count as usize);
    }
    let failed = harness.read_started(&db, "SELECT nothing FROM t");
    assert!(failed.at_hand);
    let error = failed.rows.unwrap_err();
    assert!(matches!(error, EngineError::Sql { failure: SqlFailure::Syntax { .. }, .. }), "{error:?}");
    harness.works(&[&db]);
}

#[test]
fn a_long_result_is_not_at_hand_and_comes_whole() {
    let harness = Harness::new();
    let db = harness.database(1);
    let started = harness.read_started(&db, &rows(100_000));
    assert!(!started.at_hand);
    assert_eq!(started.rows.unwrap().len(), 100_000);
    harness.works(&[&db]);
}

#[test]
fn a_read_starts_only_on_an_idle_worker() {
    let harness = Harness::new();
    let db = harness.database(1);
    let query = ReadQuery::new("SELECT v FROM t", AMPLE);
    harness.engine.pool.evict(db.id);
    assert!(harness.start_read(&db, &query).is_none(), "no worker has the database");
    harness.read(&db, query.sql).unwrap();
    let first = harness.start_read(&db, &query).unwrap();
    assert!(harness.start_read(&db, &query).is_none(), "the worker of the database is in use");
    assert_eq!(harness.engine.workers().busy, 1);
    first.finish(&mut CollectedRows::default()).unwrap();
    let long = format!("SELECT v FROM t -- {}", "x".repeat(32 << 10));
    assert!(harness.start_read(&db, &ReadQuery::new(&long, AMPLE)).is_none(), "a long statement");
    harness.works(&[&db]);
}

/// Knows whether all statements are slow.
struct Slow(AtomicBool);

impl YieldHook for Slow {
    fn begin(&self, _: u64, _: &CancellationToken) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn is_slow(&self, _: u64) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn go_on(&self, _: &CancellationToken) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pause(&self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        None
    }
}

#[test]
fn a_statement_that_was_slow_does_not_start() {
    let slow = Arc::new(Slow(AtomicBool::new(false)));
    let turns = Arc::clone(&slow);
    let harness = Harness::with("", move |options| {
        options.engine.long = Some(Long { every: Duration::from_millis(10), turns });
    });
    let db = harness.database(1);
    let query = ReadQuery::new("SELECT v FROM t", AMPLE);
    harness.read(&db, query.sql).unwrap();
    drop(harness.start_read(&db, &query).unwrap().finish(&mut CollectedRows::default()));
    slow.0.store(true, Ordering::Relaxed);
    assert!(harness.start_read(&db, &query).is_none());
}

#[test]
fn a_started_read_has_its_limit_and_can_be_canceled() {
    let harness = Harness::new();
    let db = harness.database(1);
    let endless = rows(u32::MAX).replace("SELECT n FROM c", "SELECT count(*) FROM c");
    harness.read(&db, "SELECT v FROM t").unwrap();
    let read = harness.start_read(&db, &ReadQuery::new(&endless, super::LIMIT)).unwrap();
    let error = in_time(|| read.finish(&mut CollectedRows::default())).unwrap_err();
    assert!(is_timeout(&error), "{error:?}");
    harness.read(&db, "SELECT v FROM t").unwrap();
    let query = ReadQuery::new(&endless, AMPLE);
    let read = harness.start_read(&db, &query).unwrap();
    query.canceled.cancel();
    let error = in_time(|| read.finish(&mut CollectedRows::default())).unwrap_err();
    assert!(is_timeout(&error), "{error:?}");
    assert_eq!(harness.engine.workers().killed, 0, "the worker ends the statement itself");
    harness.works(&[&db]);
}

#[test]
fn a_worker_that_ends_in_a_started_read_is_replaced_once() {
    let harness = Harness::new();
    let db = harness.database(1);
    assert_eq!(harness.read_started(&db, &deed("crash 1")).rows.unwrap(), ["x"]);
    let error = harness.read_started(&db, &deed("crash")).rows.unwrap_err();
    assert!(super::blamed(error).contains("ended the process"));
    harness.works(&[&db]);
}

#[test]
fn a_started_read_that_is_dropped_ends_its_worker() {
    let harness = Harness::new();
    let db = harness.database(1);
    harness.read(&db, "SELECT v FROM t").unwrap();
    let before = harness.engine.workers().idle;
    drop(harness.start_read(&db, &ReadQuery::new(&rows(1_000), AMPLE)));
    let load = harness.engine.workers();
    assert_eq!((load.busy, load.idle), (0, before - 1), "{load:?}");
    harness.works(&[&db]);
}
