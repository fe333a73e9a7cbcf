//! Models of the threads: jobs that arrive while threads become idle, end or fail to start.

use shuttle::future::block_on;
use shuttle::thread;
use tokio::sync::oneshot;

use super::Threads;
use crate::model::{self, Timers};
use crate::priority;

/// Submits a job that may lower the priority of its thread. The receiver fails if the job is dropped.
fn submit(threads: &Threads, lowers: bool) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    threads.run(move || {
        if !model::spawns_fail() {
            assert!(!model::is_lowered(), "a thread with lowered priority took a job");
        }
        if lowers {
            priority::lower();
        }
        thread::yield_now();
        sender.send(()).unwrap();
    });
    receiver
}

/// Two threads submit jobs, some of which lower the priority of their thread.
fn submit_all(threads: &Threads, check: fn(bool)) {
    let submitter = |lowers: [bool; 2]| {
        let threads = threads.clone();
        Box::new(move || {
            for lowers in lowers {
                check(block_on(submit(&threads, lowers)).is_ok());
            }
        }) as Box<dyn FnOnce() + Send>
    };
    model::run_together(vec![submitter([true, false]), submitter([false, false]), submitter([true, true])]);
}

#[test]
fn every_job_runs() {
    model::check(Timers::Never, || {
        let threads = Threads::default();
        submit_all(&threads, |ran| assert!(ran));
        model::wait_until(|| threads.are_idle());
    });
}

#[test]
fn every_job_runs_also_when_idle_threads_end() {
    model::check(Timers::AnyTime, || {
        let threads = Threads::default();
        submit_all(&threads, |ran| assert!(ran));
        model::wait_until(|| threads.0.state.lock().threads == 0);
    });
}

#[test]
fn where_threads_fail_to_start_each_job_runs_or_is_dropped() {
    model::check(Timers::Never, || {
        model::let_spawns_fail();
        let threads = Threads::default();
        submit_all(&threads, |_| ());
        model::wait_until(|| threads.are_idle());
    });
}
