//! The dispatcher that turns events into webhook deliveries, and the threads that make the attempts.
//!
//! All due work is in the store; only the attempts under way are in memory. A single thread reads and writes the store, in few
//! transactions. Attempts run on their own threads, up to the configured concurrency. These threads are started on demand.

use std::collections::{HashMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::entities::DisabledReason;
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{CancellationToken, Lease};
use branchyard_domain::usecases::{Room, Run, Turn};
use branchyard_domain::values::HookId;
use parking_lot::Mutex;

use crate::observer::Observer;

/// Maximum sleep of an idle dispatcher. Bounds how late the dispatcher finds events of another process and deliveries that became
/// due.
const IDLE: Duration = Duration::from_millis(250);
/// How long a completed attempt waits for others, so that they are recorded in one transaction.
const GATHER: Duration = Duration::from_millis(2);
/// Duration of the last attempt, or of the attempt under way, above which a hook counts as slow.
const SLOW: Duration = Duration::from_secs(2);
/// Maximum number of slow hooks to remember. A forgotten hook is classified again by its next attempt.
const SLOW_KNOWN: usize = 1_000;

/// Handle of the dispatcher.
pub(crate) struct Dispatcher {
    hub: Hub,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Dispatcher {
    /// Starts the dispatcher. `holder` distinguishes its leases from those of other processes and must stay the same across
    /// restarts.
    pub(crate) fn start(
        hub: &Hub,
        concurrency: usize,
        holder: String,
        observer: Arc<dyn Observer>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (for_thread, flag) = (hub.clone(), Arc::clone(&stop));
        let work = move || DispatchLoop::new(for_thread, concurrency, holder, observer, Arc::clone(&flag)).work(&flag);
        let thread = thread::Builder::new().name("hooks".to_owned()).spawn(work)?;
        Ok(Self { hub: hub.clone(), stop, thread })
    }

    /// Returns the handle that ends attempts under way.
    pub(crate) fn cutoff(&self) -> AttemptCutoff {
        AttemptCutoff { hub: self.hub.clone(), stop: Arc::clone(&self.stop) }
    }

    /// Waits for attempts under way, records them, and starts no new ones. Leases of attempts that were cut off are released.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.hub.dispatch().wake();
        if self.thread.join().is_err() {
            tracing::error!("the webhook dispatcher panicked");
        }
    }
}

/// Cuts off the webhook attempts of a service that stops.
#[derive(Clone)]
pub struct AttemptCutoff {
    hub: Hub,
    stop: Arc<AtomicBool>,
}

impl AttemptCutoff {
    /// Ends the attempts under way and starts no new ones. Their deliveries stay due, and their leases are released.
    pub fn end_attempts(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.hub.dispatch().abort();
        self.hub.dispatch().wake();
    }
}

/// The ended attempts under one lease. `run` is `None` if they panicked or could not be made.
struct EndedAttempts {
    hook: HookId,
    took: Duration,
    run: Option<Run>,
}

/// Progress of the attempts under one lease, shared between the dispatch loop and the thread that makes them.
#[derive(Default)]
struct AttemptProgress {
    /// Time at which a thread started the attempts. Unset while the lease waits for a thread.
    began: OnceLock<Instant>,
    canceled: CancellationToken,
}

/// A lease whose attempts run or wait for a thread.
struct RunningLease {
    progress: Arc<AttemptProgress>,
    /// Whether the hook's last attempt failed or was slow.
    is_held_back: bool,
}

impl RunningLease {
    fn has_begun(&self) -> bool {
        self.progress.began.get().is_some()
    }

    /// Returns `true` if the lease counts against the share of failing and slow hooks.
    fn counts_as_held_back(&self) -> bool {
        self.is_held_back || self.progress.began.get().is_some_and(|began| began.elapsed() > SLOW)
    }
}

/// Hooks whose last attempt was slow, ordered from least to most recently found.
#[derive(Default)]
struct SlowHooks(VecDeque<HookId>);

impl SlowHooks {
    fn note(&mut self, hook: HookId, is_slow: bool) {
        self.0.retain(|known| *known != hook);
        if is_slow {
            if self.0.len() == SLOW_KNOWN {
                self.0.pop_front();
            }
            self.0.push_back(hook);
        }
    }
}

/// State of the dispatch loop.
struct DispatchLoop {
    hub: Hub,
    holder: String,
    concurrency: usize,
    observer: Arc<dyn Observer>,
    /// Leases whose attempts run or wait for a thread.
    under_way: HashMap<HookId, RunningLease>,
    slow: SlowHooks,
    /// Ended attempts that are not recorded yet.
    done: Vec<Run>,
    pool: AttemptThreads,
    ended: Receiver<EndedAttempts>,
}

impl DispatchLoop {
    fn new(hub: Hub, concurrency: usize, holder: String, observer: Arc<dyn Observer>, stop: Arc<AtomicBool>) -> Self {
        let (tell, ended) = mpsc::channel();
        let pool = AttemptThreads::new(hub.clone(), tell, stop, Arc::clone(&observer));
        let (under_way, slow, done) = (HashMap::new(), SlowHooks::default(), Vec::new());
        Self { hub, holder, concurrency, observer, under_way, slow, done, pool, ended }
    }

    fn work(mut self, stop: &AtomicBool) {
        loop {
            let seen = self.hub.dispatch().signals();
            self.collect();
            let stopping = stop.load(Ordering::Relaxed);
            if stopping && self.under_way.is_empty() && self.done.is_empty() {
                break;
            }
            match self.turn(stopping) {
                Ok(true) => {}
                Ok(false) => self.hub.dispatch().wait(seen, IDLE),
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "webhook deliveries are delayed: the metadata store failed"
                    );
                    // Nothing is lost: deliveries that were attempted are repeated with the same id after the lease expires.
                    if stopping && self.under_way.is_empty() {
                        break;
                    }
                    self.hub.dispatch().wait(seen, IDLE);
                }
            }
        }
        self.pool.stop();
    }

    /// Collects ended attempts. If there are any, waits up to [`GATHER`] for others, so that they share one durable commit.
    fn collect(&mut self) {
        let until = Instant::now() + GATHER;
        loop {
            let patience = match self.done.len() {
                0 => Duration::ZERO,
                done if done >= self.under_way.len() => Duration::ZERO,
                _ => until.saturating_duration_since(Instant::now()),
            };
            let Ok(EndedAttempts { hook, took, run }) = self.ended.recv_timeout(patience) else { break };
            self.under_way.remove(&hook);
            // Attempts after the first start within moments, so the last one accounts for a long total.
            self.slow.note(hook, took > SLOW);
            self.done.extend(run);
        }
        self.observer.attempts_in_flight(self.attempts());
    }

    /// Returns the number of attempts being made. Leases beyond the concurrency limit wait for a thread.
    fn attempts(&self) -> usize {
        self.under_way.len().min(self.concurrency)
    }

    /// Returns the number of leases to take. Besides the free threads, this counts the attempts that ended since the last turn,
    /// whose threads will be free before the next turn. With slow receivers few attempts end per turn, so few leases wait for a
    /// thread.
    fn places(&self) -> usize {
        let ahead = self.done.len().min(self.concurrency);
        (self.concurrency + ahead).saturating_sub(self.under_way.len())
    }

    /// Returns the maximum number of threads for hooks that fail or are slow.
    fn half(&self) -> usize {
        self.concurrency.div_ceil(2)
    }

    fn held_back(&self) -> usize {
        self.under_way.values().filter(|lease| lease.counts_as_held_back()).count()
    }

    /// Cancels attempts of hooks that were not held back and turned out slow, if such hooks exceed their share and other hooks
    /// wait. The canceled hooks then count as slow. Their deliveries are retried, without being cut short, within the share of
    /// slow hooks.
    fn make_room(&mut self) -> Result<(), PortError> {
        // Canceled attempts that have not ended yet will release their threads soon.
        let leaving = self.under_way.values().filter(|lease| lease.progress.canceled.is_canceled()).count();
        let surplus = self.held_back().saturating_sub(self.half() + leaving);
        if surplus == 0 || self.under_way.len() < self.concurrency || !self.others_wait()? {
            return Ok(());
        }
        let is_cut = |lease: &&RunningLease| !lease.is_held_back && !lease.progress.canceled.is_canceled();
        let slow = self.under_way.values().filter(is_cut).filter(|lease| lease.counts_as_held_back());
        slow.take(surplus).for_each(|lease| lease.progress.canceled.cancel());
        Ok(())
    }

    /// Returns `true` if a hook that is not held back waits for a thread or for a lease.
    fn others_wait(&mut self) -> Result<bool, PortError> {
        if self.under_way.values().any(|lease| !lease.is_held_back && !lease.has_begun()) {
            return Ok(true);
        }
        self.hub.dispatch().is_due(Room { hooks: 1, held_back: 0, slow: self.slow.0.make_contiguous() })
    }

    /// Creates deliveries for events, records ended attempts, and leases due deliveries. Returns `true` if there was anything to
    /// do.
    fn turn(&mut self, stopping: bool) -> Result<bool, PortError> {
        let hub = self.hub.clone();
        let dispatch = hub.dispatch();
        let events = if stopping { Vec::new() } else { dispatch.fan_out()? };
        events.iter().for_each(|event| self.observer.event_dispatched(*event));
        let fanned = !events.is_empty();
        let hooks = if stopping { 0 } else { self.places() };
        if !stopping {
            self.make_room()?;
        }
        // Hooks that fail or are slow never take all threads from the others.
        let held_back = self.half().saturating_sub(self.held_back());
        let room = Room { hooks, held_back, slow: self.slow.0.make_contiguous() };
        if self.done.is_empty() && (hooks == 0 || !dispatch.is_due(room)?) {
            return Ok(fanned);
        }
        let turn = dispatch.turn(&self.holder, &self.done, room)?;
        self.observer.deliveries_turned(&turn);
        let attempted = self.done.iter().flat_map(|run| &run.attempted);
        attempted.for_each(|attempted| self.observer.delivery_attempted(attempted));
        let Turn { leases, disabled, .. } = turn;
        for (hook, reason) in disabled {
            match reason {
                DisabledReason::Gone => {
                    tracing::warn!(hook_id = %hook, "a webhook was disabled: its receiver answered 410 (Gone)")
                }
                DisabledReason::Failing => {
                    tracing::warn!(hook_id = %hook, "a webhook was disabled: its attempts failed for too long")
                }
            }
        }
        let progress = fanned || !self.done.is_empty() || !leases.is_empty();
        self.done.clear();
        for lease in leases {
            let (hook, progress) = (lease.hook.id, Arc::<AttemptProgress>::default());
            let is_held_back = lease.hook.failing_since.is_some() || self.slow.0.contains(&hook);
            self.under_way.insert(hook, RunningLease { progress: Arc::clone(&progress), is_held_back });
            self.pool.attempt((lease, progress), self.attempts());
        }
        self.observer.attempts_in_flight(self.attempts());
        Ok(progress)
    }
}

/// A lease whose deliveries are to be attempted, with its progress.
type LeasedAttempts = (Lease, Arc<AttemptProgress>);

/// The threads that make attempts.
struct AttemptThreads {
    hub: Hub,
    give: Sender<LeasedAttempts>,
    take: Arc<Mutex<Receiver<LeasedAttempts>>>,
    tell: Sender<EndedAttempts>,
    stop: Arc<AtomicBool>,
    observer: Arc<dyn Observer>,
    threads: Vec<JoinHandle<()>>,
}

impl AttemptThreads {
    fn new(hub: Hub, tell: Sender<EndedAttempts>, stop: Arc<AtomicBool>, observer: Arc<dyn Observer>) -> Self {
        let (give, take) = mpsc::channel();
        Self { hub, give, take: Arc::new(Mutex::new(take)), tell, stop, observer, threads: Vec::new() }
    }

    /// Queues a lease for the attempt threads. Starts another thread if there are fewer than `running`.
    fn attempt(&mut self, lease: LeasedAttempts, running: usize) {
        if self.threads.len() < running {
            let (hub, take, tell) = (self.hub.clone(), Arc::clone(&self.take), self.tell.clone());
            let (stop, observer) = (Arc::clone(&self.stop), Arc::clone(&self.observer));
            let name = format!("hooks-{}", self.threads.len());
            match thread::Builder::new()
                .name(name)
                .spawn(move || attempts(&hub, &take, &tell, &stop, observer.as_ref()))
            {
                Ok(thread) => self.threads.push(thread),
                // Another thread takes the lease when it is free.
                Err(error) => tracing::error!(%error, "cannot start another webhook thread"),
            }
        }
        // Sending fails only if the receiver is gone, and `self.take` keeps the receiver alive.
        let _ = self.give.send(lease);
    }

    fn stop(self) {
        drop(self.give);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a webhook thread panicked");
            }
        }
    }
}

fn attempts(
    hub: &Hub,
    take: &Mutex<Receiver<LeasedAttempts>>,
    tell: &Sender<EndedAttempts>,
    stop: &AtomicBool,
    observer: &dyn Observer,
) {
    let go_on = || !stop.load(Ordering::Relaxed);
    loop {
        let next = take.lock().recv();
        let Ok((lease, progress)) = next else { return };
        let hook = lease.hook.id;
        let began = *progress.began.get_or_init(Instant::now);
        let span = observer.delivery_span(&lease);
        let attempt = || hub.dispatch().attempt_observed(lease, &progress.canceled, go_on, span.as_ref());
        let ended = panic::catch_unwind(AssertUnwindSafe(attempt));
        span.within(&mut || match &ended {
            Ok(Some(_)) => {}
            Ok(None) => {
                tracing::error!(
                    "the key ring lacks the key of a webhook's secret; rotate the secret, and give the new one to its receiver"
                );
            }
            Err(_) => tracing::error!("a delivery attempt panicked"),
        });
        let run = ended.ok().flatten();
        if tell.send(EndedAttempts { hook, took: began.elapsed(), run }).is_err() {
            return;
        }
        hub.dispatch().wake();
    }
}
