//! Models of the pool, with few callers in every order that the model checker tries.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread;

use super::{FairShares, Pool, PoolError, RunningCall};
use crate::caller_key::CallerKey;
use crate::model::{self, Occupancy, Timers};
use crate::priority;
use crate::slow_queries;

const ONE: CallerKey = CallerKey::Address(1);
const TWO: CallerKey = CallerKey::Address(2);
const WAIT: Duration = Duration::from_secs(1);

/// Asserts that a pool with `permits` permits has all of them, and all slots.
fn assert_is_unused(pool: &Pool, permits: usize) {
    let state = pool.shared.state.lock();
    assert_eq!((state.free, state.permits), (pool.shared.size, permits));
    assert!(state.is_unused());
}

/// Computes, waits for a client, and computes again.
fn compute(computing: &Occupancy, in_progress: &Occupancy) {
    in_progress.visit();
    computing.visit();
    slow_queries::idle(thread::yield_now);
    computing.visit();
}

#[test]
fn every_call_is_served_and_no_more_compute_than_there_are_permits() {
    model::check(Timers::Never, || {
        let pool = Pool::new(2, 8, WAIT).computing(1);
        let (computing, in_progress) = (Occupancy::at_most(1), Occupancy::at_most(2));
        let call = |caller| {
            let (pool, computing, in_progress) = (pool.clone(), Arc::clone(&computing), Arc::clone(&in_progress));
            Box::new(move || {
                let served = block_on(pool.run(caller, move || compute(&computing, &in_progress)));
                assert_eq!(served, Ok(()));
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![call(ONE), call(ONE), call(TWO)]);
        assert_is_unused(&pool, 1);
    });
}

#[test]
fn calls_that_time_out_or_are_dropped_lose_neither_slots_nor_permits() {
    model::check(Timers::AnyTime, || {
        let pool = Pool::new(1, 2, WAIT);
        let computing = Occupancy::at_most(1);
        let call = |is_dropped: bool| {
            let (pool, computing) = (pool.clone(), Arc::clone(&computing));
            Box::new(move || {
                let served = pool.run(ONE, move || computing.visit());
                if is_dropped {
                    block_on(model::until_any_time(served));
                } else {
                    let served = block_on(served);
                    assert!(matches!(served, Ok(()) | Err(PoolError::Full | PoolError::TooLong)), "{served:?}");
                }
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![call(true), call(false), call(false), call(true)]);
        model::wait_until(|| pool.is_idle());
        assert_is_unused(&pool, 1);
    });
}

#[test]
fn a_slot_granted_to_a_call_that_is_dropped_passes_to_the_next() {
    model::check(Timers::Never, || {
        let pool = Pool::new(1, 2, WAIT);
        let held = block_on(pool.admit(ONE)).unwrap();
        let (dropped, waits) = (pool.clone(), pool.clone());
        let dropped = thread::spawn(move || drop(block_on(model::until_any_time(dropped.admit(ONE)))));
        let waits = thread::spawn(move || assert!(block_on(waits.admit(TWO)).is_ok()));
        drop(held);
        dropped.join().unwrap();
        waits.join().unwrap();
        assert_is_unused(&pool, 1);
    });
}

#[test]
fn the_caller_with_the_fewest_calls_in_progress_is_next_whatever_the_order_of_arrival() {
    model::check(Timers::Never, || {
        let pool = Pool::new(2, 8, WAIT);
        let [first, second] = [(); 2].map(|()| block_on(pool.admit(ONE)).unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let call = |caller| {
            let (pool, order) = (pool.clone(), Arc::clone(&order));
            thread::spawn(move || {
                let _admitted = block_on(pool.admit(caller)).unwrap();
                order.lock().unwrap().push(caller);
            })
        };
        let calls = [call(ONE), call(TWO), call(ONE)];
        model::wait_until(|| pool.load().queued == 3);
        drop(first);
        model::wait_until(|| !order.lock().unwrap().is_empty());
        drop(second);
        for call in calls {
            call.join().unwrap();
        }
        assert_eq!(order.lock().unwrap()[0], TWO);
        assert_is_unused(&pool, 2);
    });
}

#[test]
fn where_threads_fail_to_start_each_call_runs_or_is_refused() {
    model::check(Timers::Never, || {
        model::let_spawns_fail();
        let pool = Pool::new(3, 0, WAIT);
        let call = || {
            let pool = pool.clone();
            Box::new(move || {
                let has_run = Arc::new(AtomicBool::new(false));
                let ran = Arc::clone(&has_run);
                let served = block_on(pool.run(ONE, move || {
                    ran.store(true, Ordering::Relaxed);
                    priority::lower();
                }));
                assert!(matches!(served, Ok(()) | Err(PoolError::Full)), "{served:?}");
                assert_eq!(has_run.load(Ordering::Relaxed), served.is_ok(), "a refused call does not run");
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![call(), call(), call()]);
        assert_is_unused(&pool, 3);
    });
}

#[test]
fn each_refusal_is_counted_once() {
    model::check(Timers::AnyTime, || {
        let pool = Pool::new(1, 2, WAIT);
        let refused = Arc::new(AtomicU64::new(0));
        let held = block_on(pool.admit(ONE)).unwrap();
        let call = |caller| {
            let (pool, refused) = (pool.clone(), Arc::clone(&refused));
            thread::spawn(move || {
                if block_on(pool.admit(caller)).is_err() {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let calls = [call(ONE), call(ONE), call(TWO)];
        thread::yield_now();
        drop(held);
        for call in calls {
            call.join().unwrap();
        }
        assert_eq!(pool.load().refused, refused.load(Ordering::Relaxed));
        assert_is_unused(&pool, 1);
    });
}

/// Creates a pool with two slots, in which a caller has one call in progress while others wait.
fn fair_pool(queued: usize) -> Pool {
    Pool::new(2, 8, WAIT).shared_fairly(FairShares { while_others_wait: 1, queued })
}

/// Runs a call that counts as in progress until the returned handle is dropped.
async fn run_and_hold(
    pool: &Pool,
    caller: CallerKey,
    work: impl FnOnce() + Send + 'static,
) -> Result<((), RunningCall), PoolError> {
    pool.enter(caller).await?.run_and_hold(work).await
}

#[test]
fn calls_beyond_a_share_wait_and_each_is_served() {
    model::check(Timers::Never, || {
        let pool = fair_pool(8);
        let (of_both, of_one) = (Occupancy::at_most(2), Occupancy::at_most(2));
        let call = |caller| {
            let (pool, of_both, of_one) = (pool.clone(), Arc::clone(&of_both), Arc::clone(&of_one));
            Box::new(move || {
                let served = run_and_hold(&pool, caller, move || {
                    of_both.visit();
                    slow_queries::idle(thread::yield_now);
                    if caller == ONE {
                        of_one.visit();
                    }
                });
                // The call counts until the handle is dropped.
                let ((), running) = block_on(served).unwrap();
                thread::yield_now();
                drop(running);
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![call(ONE), call(ONE), call(ONE), call(TWO)]);
        assert_is_unused(&pool, 2);
    });
}

#[test]
fn a_slow_call_counts_toward_the_share_and_keeps_no_other_caller_out() {
    model::check(Timers::Never, || {
        let pool = Pool::new(1, 8, WAIT).shared_fairly(FairShares { while_others_wait: 1, queued: 8 });
        // This call has released its slot, as a slow call has.
        let (slot, running) = block_on(pool.admit(ONE)).unwrap();
        drop(slot);
        let own = pool.clone();
        let own = thread::spawn(move || block_on(own.run(ONE, || {})).unwrap());
        let other = pool.clone();
        let other = thread::spawn(move || block_on(other.run(TWO, || {})).unwrap());
        other.join().unwrap();
        model::wait_until(|| pool.load().queued == 1);
        drop(running);
        own.join().unwrap();
        assert_is_unused(&pool, 1);
    });
}

#[test]
fn calls_beyond_a_share_that_time_out_or_are_dropped_lose_nothing() {
    model::check(Timers::AnyTime, || {
        let pool = fair_pool(1);
        let call = |caller, is_dropped: bool| {
            let pool = pool.clone();
            Box::new(move || {
                let served = run_and_hold(&pool, caller, thread::yield_now);
                if is_dropped {
                    drop(block_on(model::until_any_time(served)));
                } else if let Err(error) = block_on(served).map(|_| ()) {
                    assert!(!matches!(error, PoolError::Full | PoolError::Lost), "{error:?}");
                }
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![call(ONE, false), call(ONE, true), call(ONE, false), call(TWO, false)]);
        model::wait_until(|| pool.is_idle());
        assert_is_unused(&pool, 2);
    });
}
