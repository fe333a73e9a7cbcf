//! Tests of calls that compute in other processes.

use std::ops::ControlFlow;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;
use rustix::process::{Pid, getpriority_process};

use super::call::ThreadCall;
use super::{SlowQueryLimits, SlowQueryScheduler, run};
use crate::caller_key::CallerKey;
use crate::pool::{Pool, PoolSlot};
use crate::sync::{NICE_INCREMENT, OsProcess};

const GOES_ON: ControlFlow<()> = ControlFlow::Continue(());
const HOUR: Duration = Duration::from_secs(3_600);
const SHAPE: u64 = 1;
/// No process has this id.
const NO_PROCESS: u32 = u32::MAX;

/// A child process, which ends when it is dropped.
struct TestProcess(Child);

impl TestProcess {
    /// Starts a process whose main thread computes.
    fn computing() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }

    /// Starts a process that does nothing.
    fn sleeping() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn priority(&self) -> i32 {
        getpriority_process(Pid::from_raw(self.id().cast_signed())).unwrap()
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.end();
    }
}

fn scheduler(slow_after: Duration) -> SlowQueryScheduler {
    SlowQueryScheduler::new(SlowQueryLimits { slow_after, ..SlowQueryLimits::default() })
}

fn pool() -> Pool {
    Pool::new(1, 0, Duration::ZERO)
}

fn admit(pool: &Pool) -> PoolSlot {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(pool.admit(CallerKey::Address(1))).unwrap().0
}

/// Runs `work` as a call of a pool of its own, on a thread of its own.
fn call<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(|| run(admit(&pool()), work)).join()).unwrap()
}

fn own_priority() -> i32 {
    getpriority_process(None).unwrap()
}

fn lowered(priority: i32) -> i32 {
    (priority + NICE_INCREMENT).min(19)
}

fn go_on(scheduler: &SlowQueryScheduler) -> ControlFlow<()> {
    scheduler.go_on(&CancellationToken::default())
}

fn begin(scheduler: &SlowQueryScheduler) -> ControlFlow<()> {
    scheduler.begin(SHAPE, &CancellationToken::default())
}

/// Returns the processor time that counts for the call of this thread.
fn used() -> Duration {
    let call = ThreadCall::take().unwrap();
    let used = call.used();
    call.put_back();
    used
}

fn wait_until(condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_call_that_computes_in_a_process_becomes_slow_and_lowers_the_process() {
    let limit = Duration::from_millis(200);
    let (scheduler, pool, process) = (scheduler(limit), pool(), TestProcess::computing());
    let (own, before) = (own_priority(), process.priority());
    let computed = OsProcess::new(process.id());
    run(admit(&pool), || {
        let began = computed.computed().unwrap();
        scheduler.computes_in(process.id());
        assert_eq!((go_on(&scheduler), pool.load().busy), (GOES_ON, 1));
        assert_eq!(process.priority(), before);
        wait_until(|| {
            assert_eq!(go_on(&scheduler), GOES_ON);
            pool.load().busy == 0
        });
        assert!(used() >= limit, "the time of both counts");
        assert!(computed.computed().unwrap() - began >= limit / 2, "the thread did little");
        assert_eq!((own_priority(), process.priority()), (own, lowered(before)));
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert_eq!(process.priority(), lowered(before), "it is lowered once");
        assert!(scheduler.returned());
        assert!(!scheduler.returned(), "the call computes on its thread");
        assert_eq!(own_priority(), own);
    });
}

#[test]
fn time_that_a_process_sleeps_does_not_count() {
    let (scheduler, process) = (scheduler(Duration::from_millis(200)), TestProcess::sleeping());
    call(|| {
        let before = process.priority();
        scheduler.computes_in(process.id());
        thread::sleep(Duration::from_millis(300));
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert!(!scheduler.returned());
        assert_eq!(process.priority(), before);
    });
}

#[test]
fn the_time_in_several_processes_adds_up() {
    let (scheduler, limit) = (scheduler(HOUR), Duration::from_millis(100));
    let (first, mut second, third) = (TestProcess::sleeping(), TestProcess::computing(), TestProcess::computing());
    wait_until(|| OsProcess::new(second.id()).computed().unwrap() >= 2 * limit);
    call(|| {
        scheduler.computes_in(first.id());
        assert!(used() < limit);
        assert!(!scheduler.returned());
        scheduler.computes_in(second.id());
        assert!(used() < limit, "what it computed before does not count");
        wait_until(|| used() >= limit);
        assert!(!scheduler.returned());
        second.end();
        let before = used();
        assert!(before >= limit);
        thread::sleep(limit);
        scheduler.computes_in(third.id());
        assert!(used() >= before);
        wait_until(|| used() >= before + limit);
        // A process that follows another one without `returned` adds up too.
        scheduler.computes_in(first.id());
        assert!(used() >= before + limit);
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert!(!scheduler.returned(), "the call is short");
    });
}

#[test]
fn the_time_that_passes_counts_if_the_kernel_has_no_figure() {
    let limit = Duration::from_millis(30);
    let (scheduler, pool) = (scheduler(limit), pool());
    run(admit(&pool), || {
        scheduler.computes_in(NO_PROCESS);
        thread::sleep(limit);
        assert_eq!((go_on(&scheduler), pool.load().busy), (GOES_ON, 0));
        assert!(!scheduler.returned(), "there was nothing to lower");
        assert!(used() >= limit);
    });
}

#[test]
fn a_process_that_has_ended_is_not_lowered() {
    let (scheduler, mut process) = (scheduler(HOUR), TestProcess::sleeping());
    call(|| {
        scheduler.computes_in(process.id());
        process.end();
        scheduler.call().unwrap().make_slow();
        assert!(!scheduler.returned());
    });
}

#[test]
fn a_process_of_a_slow_call_is_lowered_once_it_computes_for_long() {
    let (scheduler, process, own) = (scheduler(HOUR), TestProcess::sleeping(), own_priority());
    scheduler.0.shapes.record_slow(SHAPE);
    let before = process.priority();
    call(|| {
        assert_eq!(begin(&scheduler), GOES_ON);
        scheduler.computes_in(process.id());
        assert_eq!((own_priority(), process.priority()), (own, before));
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert_eq!((own_priority(), process.priority()), (own, lowered(before)));
        assert!(scheduler.returned());
        assert_eq!(own_priority(), own);
    });
}

#[test]
fn a_short_call_of_a_slow_shape_leaves_its_process_as_it_is() {
    let (scheduler, process, own) = (scheduler(HOUR), TestProcess::sleeping(), own_priority());
    scheduler.0.shapes.record_slow(SHAPE);
    let before = process.priority();
    call(|| {
        scheduler.computes_in(process.id());
        assert_eq!(begin(&scheduler), GOES_ON);
        assert!(!scheduler.returned());
        assert_eq!((own_priority(), process.priority()), (own, before));
    });
}

#[test]
fn a_call_that_waits_for_memory_or_does_not_ask_lowers_its_process() {
    let (scheduler, own) = (scheduler(HOUR), own_priority());
    let lowers = |make_slow: fn(&SlowQueryScheduler)| {
        let process = TestProcess::sleeping();
        let before = process.priority();
        call(|| {
            scheduler.computes_in(process.id());
            make_slow(&scheduler);
            assert_eq!((own_priority(), process.priority()), (own, lowered(before)));
            assert!(scheduler.returned());
            assert_eq!(own_priority(), own);
        });
    };
    lowers(|scheduler| assert_eq!(scheduler.pause(), GOES_ON));
    lowers(|scheduler| {
        let call = scheduler.call().unwrap();
        thread::spawn(move || call.make_slow()).join().unwrap();
    });
}

#[test]
fn a_call_that_is_slow_from_its_beginning_lowers_its_thread_once_it_computes_there() {
    let (scheduler, own) = (scheduler(HOUR), own_priority());
    scheduler.0.shapes.record_slow(SHAPE);
    let lowers = |compute: fn(&SlowQueryScheduler)| {
        call(|| {
            assert_eq!(begin(&scheduler), GOES_ON);
            assert_eq!(own_priority(), own);
            compute(&scheduler);
            assert_eq!(own_priority(), lowered(own));
            compute(&scheduler);
            assert_eq!(own_priority(), lowered(own), "it is lowered once");
        });
    };
    lowers(|scheduler| assert_eq!(go_on(scheduler), GOES_ON));
    lowers(|scheduler| scheduler.call().unwrap().make_slow());
}

#[test]
fn a_slow_call_that_moves_from_its_thread_to_a_process_lowers_both() {
    let (scheduler, process, own) = (scheduler(Duration::ZERO), TestProcess::sleeping(), own_priority());
    let before = process.priority();
    call(|| {
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert_eq!(own_priority(), lowered(own));
        scheduler.computes_in(process.id());
        assert_eq!(process.priority(), before);
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert_eq!(process.priority(), lowered(before));
        assert!(scheduler.returned());
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert_eq!(own_priority(), lowered(own), "it is lowered once");
    });
}

#[test]
fn a_thread_that_waited_for_a_process_serves_the_next_call() {
    let (scheduler, pool, process) = (scheduler(Duration::ZERO), pool(), TestProcess::sleeping());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let id = process.id();
    let first = pool.run(CallerKey::Address(1), move || {
        scheduler.computes_in(id);
        assert_eq!(go_on(&scheduler), GOES_ON);
        assert!(scheduler.returned());
        thread::current().id()
    });
    let first = runtime.block_on(first);
    wait_until(|| pool.is_idle());
    assert_eq!(runtime.block_on(pool.run(CallerKey::Address(1), || thread::current().id())), first);
}

#[test]
fn outside_a_pool_a_process_is_not_touched() {
    let (scheduler, process) = (scheduler(Duration::ZERO), TestProcess::sleeping());
    let before = process.priority();
    scheduler.computes_in(process.id());
    assert_eq!(go_on(&scheduler), GOES_ON);
    assert!(!scheduler.returned());
    assert_eq!(process.priority(), before);
}
