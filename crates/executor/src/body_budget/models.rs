//! Models of the memory budget: bodies that wait, arrive, are evicted and are dropped at the same time.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread;

use super::{BodyBudget, NoRoom};
use crate::caller_key::CallerKey;
use crate::model::{self, Timers};

fn caller(number: u128) -> CallerKey {
    CallerKey::Address(number)
}

/// Asserts that all bytes have come back.
fn assert_is_unused(budget: &BodyBudget) {
    let ledger = budget.ledger();
    assert_eq!(ledger.used, 0);
    assert!(ledger.callers.is_empty() && ledger.bodies.is_empty());
}

/// Asserts that the sums agree with the bodies.
fn assert_adds_up(budget: &BodyBudget) {
    let ledger = budget.ledger();
    let sum: usize = ledger.bodies.values().map(|body| body.bytes).sum();
    assert_eq!((ledger.used, ledger.callers.values().sum()), (sum, sum));
    assert!(sum <= budget.total, "{sum} of {} bytes", budget.total);
    assert!(ledger.callers.values().all(|held| *held <= budget.share));
}

#[test]
fn every_body_that_waits_is_served_or_evicted() {
    model::check(Timers::Never, || {
        let budget = BodyBudget::new(100, 100);
        let body = |owner, bytes| {
            let budget = Arc::clone(&budget);
            Box::new(move || {
                let room = budget.open(caller(owner));
                let grown = block_on(room.grow(bytes)).and_then(|()| room.arrived());
                assert_adds_up(&budget);
                assert!(matches!(grown, Ok(()) | Err(NoRoom::Budget)));
                thread::yield_now();
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![body(1, 60), body(1, 40), body(2, 50), body(3, 90)]);
        assert_is_unused(&budget);
    });
}

#[test]
fn bytes_come_back_when_waits_end_and_bodies_are_dropped_at_any_time() {
    model::check(Timers::AnyTime, || {
        let budget = BodyBudget::new(100, 60);
        let body = |owner, pieces: [usize; 3]| {
            let budget = Arc::clone(&budget);
            Box::new(move || {
                let room = budget.open(caller(owner));
                let grow = async {
                    for bytes in pieces {
                        room.grow(bytes).await?;
                        assert_adds_up(&budget);
                    }
                    room.arrived()
                };
                block_on(model::until_any_time(grow));
                assert_adds_up(&budget);
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![body(1, [30, 20, 10]), body(1, [10, 10, 10]), body(2, [20, 20, 20])]);
        assert_is_unused(&budget);
    });
}

#[test]
fn bytes_of_an_evicted_body_serve_a_body_that_waits() {
    model::check(Timers::Never, || {
        let budget = BodyBudget::new(100, 100);
        let (waits, evicted) = (budget.open(caller(1)), budget.open(caller(2)));
        block_on(waits.grow(50)).unwrap();
        block_on(evicted.grow(50)).unwrap();
        let waits = thread::spawn(move || {
            let grown = block_on(waits.grow(10));
            (waits, grown)
        });
        // Evicts one of the two, whose room nothing drops yet.
        let small = budget.open(caller(3));
        block_on(small.grow(20)).unwrap();
        let (waits, grown) = waits.join().unwrap();
        assert_eq!(grown, Ok(()));
        block_on(evicted.evicted());
        drop((waits, evicted, small));
        assert_is_unused(&budget);
    });
}
