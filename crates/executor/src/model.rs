//! Runs a test under a model checker, which decides at every lock, wait and notification which thread is next. A run tries many such
//! schedules; the seed is fixed, so that each run tries the same ones. A schedule in which all threads wait is a failure.
//!
//! `BRANCHYARD_MODEL_SCHEDULES` sets the number of schedules of each kind that a model tries, and `BRANCHYARD_MODEL_SEED` the seed. A
//! failure prints its schedule. With the schedule in `BRANCHYARD_MODEL_REPLAY`, a model runs only that one.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use shuttle::current::TaskId;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Schedules of each kind that a model tries.
const SCHEDULES: usize = 1_000;
/// Number of forced changes of thread in a schedule of the kind that otherwise lets threads run by priority. Most races need two or
/// three.
const CHANGES: usize = 3;

/// What timeouts do in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timers {
    /// They never expire, so that a lost notification is a deadlock.
    Never,
    /// They expire at any time.
    AnyTime,
}

std::thread_local! {
    static TIMERS: Cell<Timers> = const { Cell::new(Timers::Never) };
    static SPAWNS_FAIL: Cell<bool> = const { Cell::new(false) };
    static LOWERED: RefCell<HashSet<TaskId>> = RefCell::default();
    static LOWERED_PROCESSES: RefCell<HashSet<u32>> = RefCell::default();
}

/// Runs a model with schedules chosen at random, and with schedules that let threads run by priority.
pub(crate) fn check(timers: Timers, model: impl Fn() + Send + Sync + Clone + 'static) {
    if let Ok(schedule) = std::env::var("BRANCHYARD_MODEL_REPLAY") {
        return run(ReplayScheduler::new_from_encoded(schedule.trim()), timers, model);
    }
    let schedules = number("BRANCHYARD_MODEL_SCHEDULES").unwrap_or(SCHEDULES);
    let seed = number("BRANCHYARD_MODEL_SEED").unwrap_or(1);
    run(RandomScheduler::new_from_seed(seed, schedules), timers, model.clone());
    run(PctScheduler::new_from_seed(seed, CHANGES, schedules), timers, model);
}

fn number<T: FromStr<Err: Debug>>(variable: &str) -> Option<T> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap())
}

fn run(scheduler: impl Scheduler + 'static, timers: Timers, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 256 * 1_024;
    Runner::new(scheduler, config).run(move || {
        TIMERS.set(timers);
        SPAWNS_FAIL.set(false);
        LOWERED.take();
        LOWERED_PROCESSES.take();
        model();
    });
}

/// Lets threads fail to start for the rest of the model.
pub(crate) fn let_spawns_fail() {
    SPAWNS_FAIL.set(true);
}

pub(crate) fn spawns_fail() -> bool {
    SPAWNS_FAIL.get()
}

pub(crate) fn timers_fire() -> bool {
    TIMERS.get() == Timers::AnyTime
}

/// Returns the task of the model that runs, or `None` outside a model.
pub(crate) fn task() -> Option<TaskId> {
    shuttle::current::try_get_current_task()
}

pub(crate) fn is_running() -> bool {
    task().is_some()
}

/// Lets the model checker choose.
pub(crate) fn either() -> bool {
    shuttle::rand::thread_rng().gen_bool(0.5)
}

/// Waits for a future until any time that the model checker chooses. Then drops the future and returns `None`.
pub(crate) async fn until_any_time<F: Future>(future: F) -> Option<F::Output> {
    let (mut future, mut alarm) = (pin!(future), pin!(shuttle::future::spawn(async {})));
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => alarm.as_mut().poll(context).map(|_| None),
    })
    .await
}

/// Records that the priority of a task was lowered. Other threads may run just before.
pub(crate) fn record_lowered(task: TaskId) {
    shuttle::thread::yield_now();
    LOWERED.with_borrow_mut(|lowered| lowered.insert(task));
}

/// Returns `true` if the priority of the task that runs was lowered.
pub(crate) fn is_lowered() -> bool {
    let task = task().unwrap();
    LOWERED.with_borrow(|lowered| lowered.contains(&task))
}

/// Records that the priority of a process was lowered. Other threads may run just before.
pub(crate) fn record_lowered_process(process: u32) {
    shuttle::thread::yield_now();
    LOWERED_PROCESSES.with_borrow_mut(|lowered| lowered.insert(process));
}

/// Returns `true` if the priority of a process was lowered.
pub(crate) fn is_process_lowered(process: u32) -> bool {
    LOWERED_PROCESSES.with_borrow(|lowered| lowered.contains(&process))
}

/// Asserts that no more than a number of threads are at one place at the same time.
pub(crate) struct Occupancy {
    present: AtomicUsize,
    limit: usize,
}

impl Occupancy {
    pub(crate) fn at_most(limit: usize) -> Arc<Self> {
        Arc::new(Self { present: AtomicUsize::new(0), limit })
    }

    /// Stays at the place while other threads run.
    pub(crate) fn visit(&self) {
        let before = self.present.fetch_add(1, Ordering::Relaxed);
        assert!(before < self.limit, "{} threads where {} may be", before + 1, self.limit);
        shuttle::thread::yield_now();
        self.present.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets other threads run until a condition holds.
pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        shuttle::thread::yield_now();
    }
}

/// Runs each of these functions on a thread, and waits for all.
pub(crate) fn run_together(works: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = works.into_iter().map(shuttle::thread::spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
