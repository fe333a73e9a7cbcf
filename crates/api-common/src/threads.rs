//! Threads for blocking calls.
//!
//! A call that computes for long has its thread run at a lower priority, so that the system prefers short calls and the server's own work.
//! Only a privileged process may raise a priority again. So such a thread ends with its call, which is why these are not the runtime's.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How long a thread waits for its next call before it ends.
const KEPT: Duration = Duration::from_secs(10);
/// What is added to the niceness of a thread that gives way; Linux then gives it about a tenth of the time it gives another one.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// As many threads as there are calls at once; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// There are always as many threads waiting as `idle` and `next` say together.
#[derive(Default)]
struct State {
    /// Calls, each for a thread that waits.
    next: VecDeque<Work>,
    /// Threads that wait and have no call coming.
    idle: usize,
}

thread_local! {
    /// Whether this thread gave way; `None` for threads of others.
    static GAVE_WAY: Cell<Option<bool>> = const { Cell::new(None) };
}

/// From here on this thread gives way to others, until its call has ended. Nothing happens to threads that are not of this module, and where the
/// system has no priorities of single threads.
pub(crate) fn give_way() {
    if GAVE_WAY.get() == Some(false) {
        GAVE_WAY.set(Some(lower_priority()));
    }
}

#[cfg(target_os = "linux")]
fn lower_priority() -> bool {
    use rustix::process::{getpriority_process, setpriority_process};
    use rustix::thread::gettid;
    let thread = Some(gettid());
    // A thread that keeps its priority computes all the same.
    getpriority_process(thread).and_then(|now| setpriority_process(thread, (now + NICER).min(19))).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() -> bool {
    false
}

impl Threads {
    /// Runs a blocking call on a thread that waits, or on a new one. A panic ends the call only.
    ///
    /// # Errors
    /// When the system has no further thread; the call is dropped.
    pub(crate) fn run(&self, work: Work) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.idle > 0 {
            state.idle -= 1;
            state.next.push_back(work);
            drop(state);
            self.0.changed.notify_one();
            return Ok(());
        }
        drop(state);
        let shared = Arc::clone(&self.0);
        Builder::new().name("call".to_owned()).spawn(move || shared.serve(work)).map(drop)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, first: Work) {
        GAVE_WAY.set(Some(false));
        let mut work = first;
        loop {
            // It was reported by the hook for panics, and whoever waits for the call learns that it is lost.
            let _ = catch_unwind(AssertUnwindSafe(work));
            if GAVE_WAY.get() == Some(true) {
                return;
            }
            let Some(next) = self.next() else { return };
            work = next;
        }
    }

    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        state.idle += 1;
        let nothing = |state: &mut State| state.next.is_empty();
        let waited = self.changed.wait_timeout_while(state, KEPT, nothing);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let next = state.next.pop_front();
        if next.is_none() {
            state.idle -= 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use super::{Threads, give_way};

    /// Runs it to its end; gives the thread and its priority.
    fn run(threads: &Threads, work: fn()) -> (ThreadId, i32) {
        let (done, is_done) = mpsc::channel();
        let call = move || {
            work();
            done.send((thread::current().id(), priority())).unwrap();
        };
        threads.run(Box::new(call)).unwrap();
        is_done.recv().unwrap()
    }

    #[cfg(target_os = "linux")]
    fn priority() -> i32 {
        rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap()
    }

    #[cfg(not(target_os = "linux"))]
    fn priority() -> i32 {
        0
    }

    fn until_idle(threads: &Threads, idle: usize) {
        while threads.0.lock().idle != idle {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_that_is_done_takes_the_next_call_also_after_a_panic() {
        let threads = Threads::default();
        let (first, _) = run(&threads, || {});
        until_idle(&threads, 1);
        assert_eq!(run(&threads, || {}).0, first);
        until_idle(&threads, 1);
        threads.run(Box::new(|| panic!("expected by the test"))).unwrap();
        until_idle(&threads, 1);
        assert_eq!(run(&threads, || {}).0, first);
    }

    #[test]
    fn calls_at_once_have_threads_of_their_own() {
        let threads = Threads::default();
        let (meet, met) = mpsc::channel();
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let (go, gone) = mpsc::channel::<()>();
                let meet = meet.clone();
                let call = move || {
                    meet.send(thread::current().id()).unwrap();
                    gone.recv().unwrap();
                };
                threads.run(Box::new(call)).unwrap();
                go
            })
            .collect();
        let ids: std::collections::HashSet<_> = met.iter().take(3).collect();
        assert_eq!(ids.len(), 3);
        for go in calls {
            go.send(()).unwrap();
        }
        until_idle(&threads, 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_gave_way_has_a_lower_priority_and_ends_with_its_call() {
        let (threads, usual) = (Threads::default(), priority());
        let (first, lowered) = run(&threads, give_way);
        assert_eq!(lowered, (usual + super::NICER).min(19));
        let (second, priority) = run(&threads, || {});
        assert_eq!((second == first, priority), (false, usual));
    }

    #[test]
    fn threads_of_others_do_not_give_way() {
        let before = priority();
        give_way();
        assert_eq!(priority(), before);
    }
}
