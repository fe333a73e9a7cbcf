use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;
use tokio::runtime::{Builder, Runtime};

use super::{SlowPlaces, SlowQueryLimits, SlowQueryScheduler, idle, run};
use crate::caller_key::CallerKey;
use crate::pool::{Pool, PoolSlot};

const CALLER: CallerKey = CallerKey::Address(1);

const WAIT: Duration = Duration::from_millis(60);

fn limits(computing: usize, calls: usize) -> SlowQueryLimits {
    SlowQueryLimits {
        slow_after: Duration::ZERO,
        max_computing: computing,
        max_calls: calls,
        places: None,
        max_wait: WAIT,
        turn: Duration::from_millis(1),
    }
}

fn scheduler(computing: usize, calls: usize) -> SlowQueryScheduler {
    SlowQueryScheduler::new(limits(computing, calls))
}

fn is_empty(scheduler: &SlowQueryScheduler) -> bool {
    scheduler.0.turns.state().is_unused()
}

/// Returns the number of slow calls and of those that compute.
fn counts(scheduler: &SlowQueryScheduler) -> (usize, usize) {
    let state = scheduler.0.turns.state();
    (state.calls, state.computing)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn pool() -> Pool {
    Pool::new(1, 0, Duration::ZERO)
}

fn admit(pool: &Pool) -> PoolSlot {
    runtime().block_on(pool.admit(CALLER)).unwrap().0
}

/// Runs `work` as a call of a pool of its own.
fn call<T>(work: impl FnOnce() -> T) -> T {
    run(admit(&pool()), work)
}

#[test]
fn a_long_call_leaves_its_place_to_the_next() {
    let (scheduler, pool) = (scheduler(1, 1), pool());
    run(admit(&pool), || {
        assert_eq!(pool.load().busy, 1);
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        assert_eq!(pool.load().busy, 0);
    });
    assert!(is_empty(&scheduler));
}

#[test]
fn calls_past_the_limit_are_refused_at_once() {
    let scheduler = scheduler(1, 1);
    call(|| {
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        let refused =
            thread::scope(|scope| scope.spawn(|| call(|| scheduler.go_on(&CancellationToken::default()))).join());
        assert_eq!(refused.unwrap(), ControlFlow::Break(()));
    });
}

#[test]
fn a_call_without_a_place_is_refused_in_time_and_an_unwanted_call_ends() {
    const SLOW: u64 = 1;
    let mut limits = limits(1, 8);
    limits.places = Some(SlowPlaces { most: 1, spare: 0 });
    let scheduler = SlowQueryScheduler::new(limits);
    let canceled = CancellationToken::default();
    call(|| {
        // The call becomes slow, and others with its shape are slow from their beginning.
        assert_eq!(scheduler.begin(SLOW, &canceled), ControlFlow::Continue(()));
        assert_eq!(scheduler.go_on(&canceled), ControlFlow::Continue(()));
        let began = Instant::now();
        run_beside(|| assert_eq!(scheduler.begin(SLOW, &canceled), ControlFlow::Break(())));
        assert!(began.elapsed() >= WAIT);
        let canceled = CancellationToken::default();
        canceled.cancel();
        run_beside(|| assert_eq!(scheduler.begin(SLOW, &canceled), ControlFlow::Break(())));
        run_beside(|| assert_eq!(scheduler.go_on(&canceled), ControlFlow::Break(())));
    });
    assert!(is_empty(&scheduler));
    assert_eq!(call(|| scheduler.begin(SLOW, &canceled)), ControlFlow::Continue(()), "the place is free again");
}

/// The call that computes keeps its turn for longer than `max_wait`.
#[test]
fn a_call_that_has_begun_waits_for_its_first_turn_however_long_that_takes() {
    let scheduler = SlowQueryScheduler::new(SlowQueryLimits { turn: Duration::from_secs(60), ..limits(1, 8) });
    let not_canceled = CancellationToken::default();
    thread::scope(|scope| {
        let waits = call(|| {
            assert_eq!(scheduler.go_on(&not_canceled), ControlFlow::Continue(()));
            let waits = scope.spawn(|| call(|| scheduler.go_on(&not_canceled)));
            thread::sleep(2 * WAIT);
            assert!(!waits.is_finished());
            waits
        });
        assert_eq!(waits.join().unwrap(), ControlFlow::Continue(()));
    });
    assert!(is_empty(&scheduler));
}

#[test]
fn long_calls_take_turns_and_one_that_waits_for_its_client_holds_up_nobody() {
    let scheduler = scheduler(1, 8);
    let (entered, was_entered) = mpsc::channel();
    thread::scope(|scope| {
        call(|| {
            assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
            scope.spawn(|| {
                call(|| {
                    entered.send(scheduler.go_on(&CancellationToken::default())).unwrap();
                    // This call keeps its turn only until the first one asks again.
                    while scheduler.0.turns.state().waiting.is_empty() {
                        thread::yield_now();
                    }
                    thread::sleep(Duration::from_millis(2));
                    assert_eq!(idle(|| scheduler.go_on(&CancellationToken::default())), ControlFlow::Continue(()));
                });
            });
            idle(|| assert_eq!(was_entered.recv().unwrap(), ControlFlow::Continue(())));
            assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        });
    });
    assert!(is_empty(&scheduler));
}

#[test]
fn what_did_not_come_through_a_pool_goes_on() {
    assert_eq!(scheduler(0, 0).go_on(&CancellationToken::default()), ControlFlow::Continue(()));
}

#[test]
fn a_call_is_short_until_it_has_computed_for_so_long() {
    let limits = SlowQueryLimits { slow_after: Duration::from_millis(20), ..SlowQueryLimits::default() };
    let (scheduler, pool) = (SlowQueryScheduler::new(limits), pool());
    run(admit(&pool), || {
        thread::sleep(Duration::from_millis(30));
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        assert_eq!(pool.load().busy, 1, "it slept");
        compute(Duration::from_millis(20));
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        assert_eq!(pool.load().busy, 0);
    });
}

fn compute(time: Duration) {
    let began = super::call::computed();
    while super::call::computed() - began < time {
        std::hint::spin_loop();
    }
}

#[test]
fn calls_with_statements_alike_become_long_ones_together() {
    const SLOW: u64 = 1;
    let after = Duration::from_millis(40);
    let scheduler = SlowQueryScheduler::new(SlowQueryLimits { slow_after: after, ..SlowQueryLimits::default() });
    let not_canceled = CancellationToken::default();
    let (begun, go_on, seen) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            call(|| {
                _ = scheduler.begin(SLOW, &not_canceled);
                compute(after / 2);
                assert_eq!(scheduler.go_on(&not_canceled), ControlFlow::Continue(()));
                begun.wait();
                go_on.wait();
                assert_eq!(scheduler.go_on(&not_canceled), ControlFlow::Continue(()));
                assert_eq!(scheduler.0.turns.state().calls, 2, "the like of it has become a long one");
                seen.wait();
            });
        });
        begun.wait();
        call(|| {
            _ = scheduler.begin(SLOW, &not_canceled);
            compute(after / 2);
            assert_eq!(scheduler.0.turns.state().calls, 0);
            assert_eq!(scheduler.go_on(&not_canceled), ControlFlow::Continue(()));
            assert_eq!(scheduler.0.turns.state().calls, 1);
            go_on.wait();
            seen.wait();
        });
    });
    assert!(is_empty(&scheduler) && scheduler.0.shapes.count_nothing());
}

#[test]
fn a_statement_like_one_that_took_long_is_a_long_one_from_its_beginning() {
    const SLOW: u64 = 1;
    const OTHER: u64 = 2;
    let (scheduler, not_canceled) = (scheduler(1, 1), CancellationToken::default());
    let begin = |shape| call(|| scheduler.begin(shape, &not_canceled));
    assert_eq!(begin(SLOW), ControlFlow::Continue(()));
    call(|| {
        assert_eq!(scheduler.begin(SLOW, &not_canceled), ControlFlow::Continue(()));
        assert_eq!(scheduler.0.turns.state().calls, 0, "nothing is known about it");
        assert_eq!(scheduler.go_on(&not_canceled), ControlFlow::Continue(()));
        let (slow, other) =
            thread::scope(|scope| (scope.spawn(|| begin(SLOW)).join(), scope.spawn(|| begin(OTHER)).join()));
        assert_eq!((slow.unwrap(), other.unwrap()), (ControlFlow::Break(()), ControlFlow::Continue(())));
    });
    assert_eq!(begin(SLOW), ControlFlow::Continue(()), "there is room again");
    assert!(is_empty(&scheduler));
}

#[test]
fn who_is_new_comes_before_who_had_a_turn() {
    let scheduler = scheduler(1, 8);
    let mut state = scheduler.0.turns.state();
    let again = state.add_ticket(CALLER, false, true);
    assert_eq!(state.next_ticket(), Some(again));
    let first = state.add_ticket(CALLER, true, true);
    assert_eq!(state.next_ticket(), Some(first));
}

#[test]
fn callers_have_turns_in_turn_however_many_calls_each_has() {
    const OTHER: CallerKey = CallerKey::Address(2);
    let scheduler = scheduler(2, 64);
    let mut state = scheduler.0.turns.state();
    (0..10).for_each(|_| state.add_call(CALLER, true));
    state.add_call(OTHER, true);
    state.begin_turn(CALLER);
    let many: Vec<u64> = (0..9).map(|_| state.add_ticket(CALLER, true, true)).collect();
    let one = state.add_ticket(OTHER, false, true);
    assert_eq!(state.next_ticket(), Some(one), "no call of its caller computes");
    state.begin_turn(OTHER);
    state.waiting.retain(|waiting| waiting.number != one);
    assert_eq!(state.next_ticket(), Some(many[0]), "it is the only caller that waits");
    let again = state.add_ticket(OTHER, false, true);
    assert_eq!(state.next_ticket(), Some(many[0]), "both have a call that computes; its last turn is longer ago");
    state.begin_turn(CALLER);
    state.waiting.remove(0);
    assert_eq!(state.next_ticket(), Some(again), "now the other one's is, and fewer of its calls compute");
}

/// Of four places, one is kept for callers with few slow calls.
#[test]
fn calls_that_are_slow_from_the_beginning_wait_for_a_place_and_leave_one_to_other_callers() {
    const OTHER: CallerKey = CallerKey::Address(2);
    let scheduler = SlowQueryScheduler::new(SlowQueryLimits {
        max_computing: 64,
        max_wait: Duration::ZERO,
        places: Some(SlowPlaces { most: 4, spare: 1 }),
        ..SlowQueryLimits::default()
    });
    let turns = &scheduler.0.turns;
    let begin = |caller| {
        let mut permit = turns.join_queue(caller, false).unwrap();
        (permit.take_turn(&CancellationToken::default()) == ControlFlow::Continue(())).then_some(permit)
    };
    let mut begun: Vec<_> = std::iter::from_fn(|| begin(CALLER)).collect();
    assert_eq!(begun.len(), 3);
    let other = begin(OTHER);
    assert!(other.is_some(), "the last place is for another caller");
    assert!(begin(CallerKey::Address(3)).is_none(), "no place is left");
    let mut became_slow = turns.join_queue(CALLER, true).unwrap();
    assert_eq!(became_slow.take_turn(&CancellationToken::default()), ControlFlow::Continue(()), "it has begun");
    drop((became_slow, other));
    assert!(begin(CALLER).is_none());
    begun.pop();
    assert!(begin(CALLER).is_some());
    drop(begun);
    assert!(is_empty(&scheduler));
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_call_gives_way_to_short_ones_at_the_processor_and_the_next_call_does_not() {
    let (scheduler, pool) = (scheduler(1, 1), pool());
    let priority = || rustix::process::getpriority_process(None).unwrap();
    let long = pool.run(CALLER, move || {
        let before = priority();
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        (before, priority())
    });
    let (before, during) = runtime().block_on(long).unwrap();
    assert!(during > before || before == 19, "{before} {during}");
    assert_eq!(runtime().block_on(pool.run(CALLER, priority)), Ok(before));
}

#[test]
fn a_call_that_does_not_ask_is_made_a_long_one() {
    let (scheduler, pool) = (scheduler(1, 1), pool());
    let mut watched = None;
    run(admit(&pool), || {
        let call = scheduler.call().unwrap();
        call.make_slow();
        assert_eq!(pool.load().busy, 0, "its slot is the next one's");
        assert_eq!(counts(&scheduler), (1, 1));
        run_beside(|| {
            let other = scheduler.call().unwrap();
            other.make_slow();
            assert_eq!(scheduler.0.turns.state().calls, 1, "there are as many as there may be");
        });
        call.make_slow();
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()), "it has its turn");
        watched = Some(call);
    });
    assert!(is_empty(&scheduler));
    watched.unwrap().make_slow();
    assert!(is_empty(&scheduler), "it has ended");
    assert!(scheduler.call().is_none(), "there is no call on this thread");
}

/// Runs `work` as a call on a thread of its own.
fn run_beside(work: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(|| call(work)).join()).unwrap();
}

#[test]
fn a_call_that_waits_for_memory_leaves_its_place_and_asks_for_a_turn_afterwards() {
    let (scheduler, pool) = (scheduler(1, 1), pool());
    run(admit(&pool), || {
        assert_eq!(scheduler.pause(), ControlFlow::Continue(()));
        assert_eq!(pool.load().busy, 0);
        assert_eq!(counts(&scheduler), (1, 0));
        run_beside(|| assert_eq!(scheduler.pause(), ControlFlow::Break(()), "too many wait"));
        assert_eq!(scheduler.go_on(&CancellationToken::default()), ControlFlow::Continue(()));
        assert_eq!(scheduler.0.turns.state().computing, 1);
        assert_eq!(scheduler.pause(), ControlFlow::Continue(()), "it ends its turn");
        assert_eq!(scheduler.0.turns.state().computing, 0);
    });
    assert!(is_empty(&scheduler));
    assert_eq!(scheduler.pause(), ControlFlow::Continue(()), "what did not come through a pool may wait");
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_of_a_call_that_does_not_ask_is_pushed_aside_and_not_used_again() {
    let (scheduler, pool) = (scheduler(1, 1), pool());
    let seen = pool.run(CALLER, move || {
        let call = scheduler.call().unwrap();
        thread::scope(|scope| scope.spawn(move || call.make_slow()).join()).unwrap();
        rustix::process::getpriority_process(None).unwrap()
    });
    let priority = runtime().block_on(seen).unwrap();
    let next = pool.run(CALLER, || rustix::process::getpriority_process(None).unwrap());
    let own = rustix::process::getpriority_process(None).unwrap();
    assert!(priority > own || own == 19, "{priority} {own}");
    assert_eq!(runtime().block_on(next), Ok(own));
}
