//! Workers that are taken, given back, and ended by others.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{Column, Engine as _, EngineError, ReadQuery, RowSink, ValueRef};
use branchyard_domain_testing::wait_until;

use super::{AMPLE, Harness, deed};

/// Many rows, in several messages.
const MANY: &str = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 100000) SELECT n FROM c";

/// Says when it got a row, and then waits for a sign.
struct Blocked {
    began: Sender<()>,
    go_on: Receiver<()>,
}

impl RowSink for Blocked {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        // Later rows find that the test is gone.
        if self.began.send(()).is_ok() {
            let _ = self.go_on.recv();
        }
        ControlFlow::Continue(())
    }
}

/// Panics at the first row.
struct Panics;

impl RowSink for Panics {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        panic!("expected by the test")
    }
}

#[test]
fn a_worker_whose_receiver_panicked_is_not_used_again() {
    let harness = Harness::new();
    let db = harness.database(1);
    for _ in 0..3 {
        let query = ReadQuery::new(MANY, AMPLE);
        let read = catch_unwind(AssertUnwindSafe(|| harness.engine.read(db.id, &db.head, &query, &mut Panics)));
        assert!(read.is_err());
        assert_eq!(harness.engine.workers().busy, 0);
        assert_eq!(harness.read(&db, "SELECT v FROM t").unwrap(), ["x"]);
    }
    harness.works(&[&db]);
}

#[test]
fn closing_ends_calls_at_once_and_refuses_later_ones() {
    let harness = Harness::new();
    let db = harness.database(1);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| harness.read(&db, &deed("hang")));
        wait_until("the call runs", AMPLE, || harness.engine.workers().busy == 1);
        let start = Instant::now();
        harness.engine.close();
        let error = call.join().unwrap().unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(matches!(error, EngineError::Unavailable(_)), "{error:?}");
    });
    let error = harness.read(&db, "SELECT v FROM t").unwrap_err();
    assert!(matches!(error, EngineError::Unavailable(_)), "{error:?}");
    let load = harness.engine.workers();
    assert_eq!((load.blank, load.idle, load.busy), (0, 0, 0), "{load:?}");
}

#[test]
fn a_worker_of_a_replaced_file_is_not_used_again() {
    let harness = Harness::new();
    let db = harness.database(1);
    let ((began, begun), (free, go_on)) = (channel(), channel());
    std::thread::scope(|scope| {
        let (harness, db) = (&harness, &db);
        let call = scope.spawn(move || {
            let mut sink = Blocked { began, go_on };
            harness.engine.read(db.id, &db.head, &ReadQuery::new(MANY, AMPLE), &mut sink).map(drop)
        });
        begun.recv().unwrap();
        harness.engine.pool.evict(db.id);
        assert_eq!(harness.engine.workers().idle, 0);
        drop((free, begun));
        call.join().unwrap().unwrap();
    });
    assert_eq!(harness.engine.workers().idle, 0);
    harness.works(&[&db]);
}

/// Their threads wait for their clients, so the places must be free without them.
#[test]
fn clients_that_stall_lose_their_workers_to_others() {
    let harness = Harness::new();
    let (db, other) = (harness.database(1), harness.database(2));
    std::thread::scope(|scope| {
        let mut stalled = Vec::new();
        for _ in 0..2 {
            let ((began, begun), (free, go_on)) = (channel(), channel());
            let (harness, db) = (&harness, &db);
            let call = scope.spawn(move || {
                let mut sink = Blocked { began, go_on };
                harness.engine.read(db.id, &db.head, &ReadQuery::new(MANY, AMPLE), &mut sink).map(drop)
            });
            begun.recv().unwrap();
            stalled.push((call, free, begun));
        }
        std::thread::sleep(Duration::from_millis(600));
        let start = Instant::now();
        assert_eq!(harness.read(&other, "SELECT v FROM t").unwrap(), ["x"]);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        let ended: Vec<_> = stalled
            .into_iter()
            .map(|(call, free, begun)| {
                drop((free, begun));
                call.join().unwrap()
            })
            .collect();
        assert_eq!(ended.iter().filter(|read| read.is_ok()).count(), 1, "{ended:?}");
    });
    let load = harness.engine.workers();
    assert_eq!((load.busy, load.killed), (0, 1), "{load:?}");
    harness.works(&[&db, &other]);
}
