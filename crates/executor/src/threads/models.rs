//! Models of the threads: jobs that arrive while threads become idle, end or fail to start.

use shuttle::future::block_on;
use shuttle::thread;
use tokio::sync::oneshot;

use super::Threads;
use crate::model::{self, Timers};
use crate::priority;

/// Submits a job that may lower the priority of its thread. Returns `true` if the job was accepted, and a receiver of its end.
fn submit(threads: &Threads, lowers: bool) -> (bool, oneshot::Receiver<()>) {
    let (sender, receiver) = oneshot::channel();
    let accepted = threads.run(move || {
        if !model::spawns_fail() {
            assert!(!model::is_lowered(), "a thread with lowered priority took a job");
        }
        if lowers {
            priority::lower();
        }
        thread::yield_now();
        sender.send(()).unwrap();
    });
    (accepted, receiver)
}

/// Two threads submit jobs, some of which lower the priority of their thread.
fn submit_all(threads: &Threads, check: fn(bool, bool)) {
    let submitter = |lowers: [bool; 2]| {
        let threads = threads.clone();
        Box::new(move || {
            for lowers in lowers {
                let (accepted, receiver) = submit(&threads, lowers);
                check(accepted, block_on(receiver).is_ok());
            }
        }) as Box<dyn FnOnce() + Send>
    };
    model::run_together(vec![submitter([true, false]), submitter([false, false]), submitter([true, true])]);
}

#[test]
fn every_job_runs() {
    model::check(Timers::Never, || {
        let threads = Threads::default();
        submit_all(&threads, |accepted, ran| assert!(accepted && ran));
        model::wait_until(|| threads.are_idle());
    });
}

#[test]
fn every_job_runs_also_when_idle_threads_end() {
    model::check(Timers::AnyTime, || {
        let threads = Threads::default();
        submit_all(&threads, |accepted, ran| assert!(accepted && ran));
        model::wait_until(|| threads.0.state.lock().threads == 0);
    });
}
