//! Models of the slow-query scheduler: turns, cancellation, and a watchdog that makes calls slow while they wait or end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use branchyard_domain::ports::CancellationToken;
use shuttle::future::block_on;
use shuttle::sync::Barrier;
use shuttle::thread;

use super::{SlowPlaces, SlowQueryLimits, SlowQueryScheduler, idle, run};
use crate::caller_key::CallerKey;
use crate::model::{self, Occupancy, Timers};
use crate::pool::Pool;
use crate::priority;

const HOUR: Duration = Duration::from_secs(3_600);
const SHAPE: u64 = 1;
const GOES_ON: ControlFlow<()> = ControlFlow::Continue(());

/// Creates a scheduler in which every call is slow from its first `go_on`, and ends its turn as soon as another one waits.
fn scheduler(max_computing: usize) -> SlowQueryScheduler {
    let (slow_after, turn) = (Duration::ZERO, Duration::ZERO);
    SlowQueryScheduler::new(SlowQueryLimits {
        slow_after,
        max_computing,
        max_calls: 8,
        places: None,
        max_wait: HOUR,
        turn,
    })
}

fn assert_is_unused(scheduler: &SlowQueryScheduler) {
    assert!(scheduler.0.turns.state().is_unused() && scheduler.0.shapes.count_nothing());
}

/// Runs `work` as a call of a pool of its own.
fn call<T>(work: impl FnOnce() -> T) -> T {
    call_of(CallerKey::Address(1), work)
}

fn call_of<T>(caller: CallerKey, work: impl FnOnce() -> T) -> T {
    let pool = Pool::new(1, 0, Duration::ZERO);
    let (slot, _running) = block_on(pool.admit(caller)).unwrap();
    let result = run(slot, work);
    assert_eq!(pool.load().busy, 0);
    result
}

/// Lets calls with this shape be slow from their beginning.
fn make_slow(scheduler: &SlowQueryScheduler) {
    call(|| {
        assert_eq!(scheduler.begin(SHAPE, &CancellationToken::default()), GOES_ON);
        assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
    });
}

fn slow_calls_take_turns(max_computing: usize) {
    model::check(Timers::Never, move || {
        let (scheduler, computing) = (scheduler(max_computing), Occupancy::at_most(max_computing));
        let slow = |pauses: bool, shape| {
            let (scheduler, computing) = (scheduler.clone(), Arc::clone(&computing));
            Box::new(move || {
                let canceled = CancellationToken::default();
                call(|| {
                    assert_eq!(scheduler.begin(shape, &canceled), GOES_ON);
                    if pauses {
                        assert_eq!(scheduler.pause(), GOES_ON);
                    }
                    assert_eq!(scheduler.go_on(&canceled), GOES_ON);
                    computing.visit();
                    idle(thread::yield_now);
                    assert_eq!(scheduler.go_on(&canceled), GOES_ON);
                    computing.visit();
                });
            }) as Box<dyn FnOnce() + Send>
        };
        let mut calls = vec![slow(false, SHAPE), slow(false, SHAPE), slow(true, 2)];
        // As many calls wait as compute.
        calls.extend((1..max_computing).map(|_| slow(false, SHAPE)));
        model::run_together(calls);
        assert_is_unused(&scheduler);
    });
}

#[test]
fn one_slow_call_computes_at_a_time_and_each_has_its_turns() {
    slow_calls_take_turns(1);
}

#[test]
fn two_slow_calls_compute_at_a_time_and_each_has_its_turns() {
    slow_calls_take_turns(2);
}

/// A caller with many slow calls does not delay another one: between the other's calls to `go_on`, at most one turn begins.
#[test]
fn the_turns_of_a_caller_do_not_depend_on_the_number_of_calls_of_another() {
    model::check(Timers::Never, || {
        let (scheduler, turns) = (scheduler(1), Arc::new(AtomicUsize::new(0)));
        let greedy = || {
            let (scheduler, turns) = (scheduler.clone(), Arc::clone(&turns));
            Box::new(move || {
                call(|| {
                    for _ in 0..2 {
                        assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
                        turns.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                });
            }) as Box<dyn FnOnce() + Send>
        };
        let modest = {
            let (scheduler, turns) = (scheduler.clone(), Arc::clone(&turns));
            Box::new(move || {
                call_of(CallerKey::Address(2), || {
                    assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
                    let before = turns.load(Ordering::Relaxed);
                    assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
                    let between = turns.load(Ordering::Relaxed) - before;
                    assert!(between <= 1, "{between} turns of another caller");
                });
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![greedy(), greedy(), greedy(), modest]);
        assert_is_unused(&scheduler);
    });
}

#[test]
fn no_more_calls_begin_than_there_are_places_and_each_gets_one() {
    model::check(Timers::Never, || {
        let places = Some(SlowPlaces { most: 2, spare: 1 });
        let scheduler = SlowQueryScheduler::new(SlowQueryLimits {
            slow_after: Duration::ZERO,
            max_computing: 2,
            max_wait: HOUR,
            turn: Duration::ZERO,
            places,
            ..Default::default()
        });
        make_slow(&scheduler);
        let (of_all, of_one) = (Occupancy::at_most(2), Occupancy::at_most(1));
        let slow = |caller: u128| {
            let (scheduler, of_all, of_one) = (scheduler.clone(), Arc::clone(&of_all), Arc::clone(&of_one));
            Box::new(move || {
                call_of(CallerKey::Address(caller), || {
                    assert_eq!(scheduler.begin(SHAPE, &CancellationToken::default()), GOES_ON);
                    idle(|| {
                        of_all.visit();
                        if caller == 1 {
                            of_one.visit();
                        }
                    });
                });
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![slow(1), slow(1), slow(1), slow(2)]);
        assert_is_unused(&scheduler);
    });
}

#[test]
fn slow_calls_in_processes_take_turns_and_lower_the_processes_only() {
    model::check(Timers::Never, || {
        let (scheduler, computing) = (scheduler(1), Occupancy::at_most(1));
        let slow = |processes: [u32; 2], pauses: bool| {
            let (scheduler, computing) = (scheduler.clone(), Arc::clone(&computing));
            Box::new(move || {
                let canceled = CancellationToken::default();
                call(|| {
                    assert_eq!(scheduler.begin(SHAPE, &canceled), GOES_ON);
                    for process in processes {
                        scheduler.computes_in(process);
                        if pauses {
                            assert_eq!(scheduler.pause(), GOES_ON);
                        }
                        assert_eq!(scheduler.go_on(&canceled), GOES_ON);
                        computing.visit();
                        idle(thread::yield_now);
                        assert!(scheduler.returned() && model::is_process_lowered(process));
                    }
                    // A process that computes only shortly is not lowered.
                    let last = processes[1] + 10;
                    scheduler.computes_in(last);
                    assert!(!scheduler.returned() && !model::is_process_lowered(last));
                });
                assert!(!model::is_lowered() && !priority::is_lowered());
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![slow([1, 2], false), slow([3, 4], true), slow([5, 6], false)]);
        assert_is_unused(&scheduler);
    });
}

#[test]
fn calls_that_wait_take_all_turns_that_become_free() {
    model::check(Timers::Never, || {
        let (scheduler, both_compute) = (scheduler(2), Arc::new(Barrier::new(2)));
        let slow = |meets: bool| {
            let (scheduler, both_compute) = (scheduler.clone(), Arc::clone(&both_compute));
            Box::new(move || {
                call(|| {
                    assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
                    if meets {
                        both_compute.wait();
                    }
                });
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![slow(false), slow(false), slow(true), slow(true)]);
        assert_is_unused(&scheduler);
    });
}

#[test]
fn a_place_without_a_wait_is_given_or_refused() {
    model::check(Timers::Never, || {
        let scheduler = SlowQueryScheduler::new(SlowQueryLimits {
            slow_after: Duration::ZERO,
            max_computing: 2,
            max_calls: 2,
            places: Some(SlowPlaces { most: 1, spare: 0 }),
            max_wait: Duration::ZERO,
            ..Default::default()
        });
        make_slow(&scheduler);
        let computing = Occupancy::at_most(1);
        let slow = || {
            let (scheduler, computing) = (scheduler.clone(), Arc::clone(&computing));
            Box::new(move || {
                call(|| {
                    if scheduler.begin(SHAPE, &CancellationToken::default()).is_continue() {
                        computing.visit();
                    }
                });
            }) as Box<dyn FnOnce() + Send>
        };
        model::run_together(vec![slow(), slow(), slow()]);
        assert_is_unused(&scheduler);
    });
}

#[test]
fn a_canceled_call_stops_waiting_and_the_next_one_has_its_turn() {
    model::check(Timers::AnyTime, || {
        let (scheduler, canceled) = (scheduler(1), Arc::new(CancellationToken::default()));
        call(|| {
            assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
            let (other, token) = (scheduler.clone(), Arc::clone(&canceled));
            let waits = thread::spawn(move || call(|| other.go_on(&token)));
            let other = scheduler.clone();
            let next = thread::spawn(move || call(|| other.go_on(&CancellationToken::default())));
            thread::yield_now();
            canceled.cancel();
            assert_eq!(waits.join().unwrap(), ControlFlow::Break(()));
            idle(|| assert_eq!(next.join().unwrap(), GOES_ON));
        });
        assert_is_unused(&scheduler);
    });
}

#[test]
fn a_watchdog_never_touches_the_next_call_of_a_thread() {
    model::check(Timers::Never, || {
        let limits = SlowQueryLimits { slow_after: HOUR, max_computing: 1, max_wait: HOUR, ..Default::default() };
        let scheduler = SlowQueryScheduler::new(limits);
        let watchdog = call(|| {
            let call = scheduler.call().unwrap();
            let watchdog = thread::spawn(move || call.make_slow());
            assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
            watchdog
        });
        // The watchdog touches the thread only while it runs the watched call.
        assert_eq!(priority::is_lowered(), model::is_lowered());
        // A thread that knows that its priority is lowered ends. Otherwise it runs the next call.
        if !priority::is_lowered() {
            call(|| {
                thread::yield_now();
                assert!(!model::is_lowered(), "the next call runs at a lowered priority");
            });
        }
        watchdog.join().unwrap();
        assert_eq!(priority::is_lowered(), model::is_lowered());
        assert_is_unused(&scheduler);
    });
}

/// Computes in a process until it is returned. Returns `true` if the process was lowered.
fn go_on_in(process: u32, scheduler: &SlowQueryScheduler) -> bool {
    assert_eq!(scheduler.go_on(&CancellationToken::default()), GOES_ON);
    let is_lowered = scheduler.returned();
    assert_eq!(is_lowered, model::is_process_lowered(process));
    is_lowered
}

#[test]
fn a_watchdog_never_touches_a_process_that_has_been_returned() {
    model::check(Timers::Never, || {
        let limits = SlowQueryLimits { slow_after: HOUR, max_computing: 1, max_wait: HOUR, ..Default::default() };
        let scheduler = SlowQueryScheduler::new(limits);
        let watch = || {
            let call = scheduler.call().unwrap();
            thread::spawn(move || call.make_slow())
        };
        let thread_is_watched = model::either();
        let (watchdog, are_lowered) = call(|| {
            let early = thread_is_watched.then(watch);
            scheduler.computes_in(1);
            let watchdog = early.unwrap_or_else(watch);
            let first = go_on_in(1, &scheduler);
            scheduler.computes_in(2);
            (watchdog, [first, go_on_in(2, &scheduler)])
        });
        assert_eq!(priority::is_lowered(), model::is_lowered());
        watchdog.join().unwrap();
        // The watchdog touches a process only while the call computes there, and the thread only while it runs the call.
        assert_eq!(priority::is_lowered(), model::is_lowered());
        assert_eq!(are_lowered, [1, 2].map(model::is_process_lowered));
        assert!(are_lowered[1] || !are_lowered[0], "a slow call remains slow");
        assert!(thread_is_watched || !are_lowered[0] || !model::is_lowered(), "the thread only waited");
        assert_is_unused(&scheduler);
    });
}

#[test]
fn a_call_that_a_watchdog_makes_slow_while_it_waits_for_its_client_holds_up_no_other() {
    model::check(Timers::Never, || {
        let scheduler = scheduler(1);
        let watchdog = call(|| {
            let watched = scheduler.call().unwrap();
            let watchdog = thread::spawn(move || watched.make_slow());
            let other = scheduler.clone();
            // The client of this call waits for the other one.
            let other = thread::spawn(move || call(|| other.go_on(&CancellationToken::default())));
            idle(|| assert_eq!(other.join().unwrap(), GOES_ON));
            watchdog
        });
        watchdog.join().unwrap();
        assert_is_unused(&scheduler);
    });
}
