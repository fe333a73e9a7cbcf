//! Threads for blocking calls. They are separate from the runtime's threads, so that a thread can end: a thread that has lowered
//! its priority cannot raise it again without a privilege.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::priority;
use crate::sync::{self, Condvar, Mutex, MutexGuard};

/// Maximum time that a thread waits for its next job before it ends.
const IDLE: Duration = Duration::from_secs(10);

type ThreadJob = Box<dyn FnOnce() + Send>;

/// A pool with as many threads as there are jobs. Idle threads stay for a while. Clones share the threads.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<SharedThreads>);

#[derive(Default)]
struct SharedThreads {
    state: Mutex<ThreadsState>,
    changed: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    jobs: VecDeque<ThreadJob>,
    threads: usize,
    /// Threads that wait for a job. A waiting thread may already have been notified.
    waiting: usize,
    /// Threads that were started and have not yet looked for a job.
    starting: usize,
}

impl ThreadsState {
    /// Returns `true` if a thread is available for each queued job.
    fn has_a_thread_for_each_job(&self) -> bool {
        self.jobs.len() <= self.waiting + self.starting
    }
}

impl Threads {
    /// Runs a job on one of the threads. A panic of the job reaches only the panic hook. If there is no thread and none can be
    /// started, the job is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.run_boxed(Box::new(job));
    }

    /// Not generic, so that it and the start of a thread are compiled once and not for each kind of job.
    fn run_boxed(&self, job: ThreadJob) {
        let mut state = self.0.state.lock();
        state.jobs.push_back(job);
        if state.has_a_thread_for_each_job() {
            drop(state);
            self.0.changed.notify_one();
            return;
        }
        state.threads += 1;
        state.starting += 1;
        drop(state);
        let shared = Arc::clone(&self.0);
        if !sync::spawn(move || shared.work()) {
            self.0.record_failed_start();
        }
    }

    /// Returns `true` if no job is running or queued.
    pub(crate) fn are_idle(&self) -> bool {
        let state = self.0.state.lock();
        state.jobs.is_empty() && state.waiting == state.threads
    }
}

impl SharedThreads {
    /// Handles the failure to start a thread. Jobs stay queued for the other threads. If there are none, all queued jobs are dropped.
    fn record_failed_start(&self) {
        let mut state = self.state.lock();
        state.threads -= 1;
        state.starting -= 1;
        let dropped = if state.threads > 0 { VecDeque::new() } else { std::mem::take(&mut state.jobs) };
        drop(state);
        drop(dropped);
    }

    fn work(&self) {
        let mut state = self.state.lock();
        state.starting -= 1;
        while let Some(job) = self.next_job(state) {
            drop(catch_unwind(AssertUnwindSafe(job)));
            state = self.state.lock();
        }
    }

    /// Waits for the next job. Returns `None` if this thread has to end.
    fn next_job(&self, mut state: MutexGuard<'_, ThreadsState>) -> Option<ThreadJob> {
        loop {
            // A thread with lowered priority takes a job only if no other thread is available.
            let mut is_over = priority::is_lowered() && state.has_a_thread_for_each_job();
            if !is_over {
                if let Some(job) = state.jobs.pop_front() {
                    return Some(job);
                }
                state.waiting += 1;
                let waited = self.changed.wait_for(&mut state, IDLE);
                state.waiting -= 1;
                is_over = waited.timed_out() && state.jobs.is_empty();
            }
            if is_over {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod tests {
    use super::Threads;
    use crate::priority;
    use std::sync::mpsc;
    use std::thread::ThreadId;
    use std::time::{Duration, Instant};

    fn run(threads: &Threads, job: impl FnOnce() + Send + 'static) -> ThreadId {
        let (sender, receiver) = mpsc::channel();
        threads.run(move || {
            sender.send(std::thread::current().id()).unwrap();
            job();
        });
        receiver.recv().unwrap()
    }

    /// Waits until all threads are idle, and returns their number.
    fn settle(threads: &Threads) -> usize {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if threads.are_idle() {
                return threads.0.state.lock().threads;
            }
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_is_used_again_also_after_a_panic() {
        let threads = Threads::default();
        let first = run(&threads, || {});
        assert_eq!(settle(&threads), 1);
        assert_eq!(run(&threads, || panic!("expected by the test")), first);
        assert_eq!(settle(&threads), 1);
        assert_eq!(run(&threads, || {}), first);
    }

    #[test]
    fn jobs_at_once_have_a_thread_each() {
        let threads = Threads::default();
        let (go, wait) = mpsc::channel::<()>();
        let first = run(&threads, move || wait.recv().unwrap());
        let second = run(&threads, || {});
        assert_ne!(first, second);
        go.send(()).unwrap();
        assert_eq!(settle(&threads), 2);
    }

    #[test]
    fn a_thread_that_gave_way_ends_and_the_next_job_has_a_fresh_one() {
        let threads = Threads::default();
        let first = run(&threads, priority::lower);
        assert_eq!(settle(&threads), 0);
        assert_ne!(run(&threads, || {}), first);
    }

    #[test]
    fn a_thread_that_gave_way_does_not_take_what_comes_as_it_ends() {
        let threads = Threads::default();
        for _ in 0..200 {
            let (sender, receiver) = mpsc::channel();
            threads.run(move || {
                priority::lower();
                sender.send(std::thread::current().id()).unwrap();
            });
            let has_lowered_priority = receiver.recv().unwrap();
            assert_ne!(run(&threads, || {}), has_lowered_priority);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_thread_that_gave_way_has_a_lower_priority() {
        let threads = Threads::default();
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let (sender, receiver) = mpsc::channel();
        let both = sender.clone();
        run(&threads, move || {
            let before = nice();
            priority::lower();
            both.send((before, nice())).unwrap();
        });
        let (before, after) = receiver.recv().unwrap();
        assert_eq!(after, (before + crate::sync::NICE_INCREMENT).min(19));
        run(&threads, move || sender.send((before, nice())).unwrap());
        assert_eq!(receiver.recv().unwrap(), (before, before));
        assert_eq!(nice(), before);
    }
}
