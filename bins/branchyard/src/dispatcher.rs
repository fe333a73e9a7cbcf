//! The thread that brings events to hooks, and those that make the attempts.
//!
//! All that is to be done is in the store; in memory there are the attempts under way and nothing else. One thread asks the store and tells
//! it, in few transactions; attempts run on threads of their own, so many at once as are configured, begun when they are first needed.

use std::collections::{HashMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::entities::DisabledReason;
use branchyard_domain::errors::Fault;
use branchyard_domain::ports::{CancellationToken, Lease};
use branchyard_domain::usecases::{Room, Run, Turn};
use branchyard_domain::values::HookId;

use crate::metrics::Metrics;

/// How long an idle dispatcher sleeps at most: what another process recorded, and what became due, is found this late.
const IDLE: Duration = Duration::from_millis(250);
/// How long what ended waits for others to be recorded with.
const GATHER: Duration = Duration::from_millis(2);
/// A hook is slow when its last attempt took longer, or the one under way has.
const SLOW: Duration = Duration::from_secs(2);
/// Slow hooks that are remembered. One that is forgotten shows again how long it takes.
const SLOW_KNOWN: usize = 1_000;

/// The dispatcher of a server.
pub(crate) struct Dispatcher {
    hub: Hub,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Dispatcher {
    /// Starts it. `holder` tells its leases from those of other processes, and stays the same when this one is started again.
    pub(crate) fn start(hub: &Hub, concurrency: usize, holder: String, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (for_thread, flag) = (hub.clone(), Arc::clone(&stop));
        let work = move || DispatchLoop::new(for_thread, concurrency, holder, metrics, Arc::clone(&flag)).work(&flag);
        let thread = thread::Builder::new().name("hooks".to_owned()).spawn(work)?;
        Ok(Self { hub: hub.clone(), stop, thread })
    }

    /// Lets attempts under way end and records them; begins no more. Those that [`Dispatch::abort`] cuts short are handed back.
    ///
    /// [`Dispatch::abort`]: branchyard_domain::usecases::Dispatch::abort
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.hub.dispatch().wake();
        if self.thread.join().is_err() {
            tracing::error!("the dispatcher of hooks panicked");
        }
    }
}

/// Attempts to a hook that ended; without a result when they panicked or could not be made.
struct EndedAttempts {
    hook: HookId,
    took: Duration,
    run: Option<Run>,
}

/// Attempts to a hook, as the threads that make them and the desk see them.
#[derive(Default)]
struct AttemptProgress {
    /// Unset while they wait for a thread.
    began: OnceLock<Instant>,
    canceled: CancellationToken,
}

/// A lease that a thread holds, or that waits for one.
struct RunningLease {
    progress: Arc<AttemptProgress>,
    /// Whether its last attempt failed or was slow.
    is_held_back: bool,
}

impl RunningLease {
    fn has_begun(&self) -> bool {
        self.progress.began.get().is_some()
    }

    /// Whether it has one of the places for hooks that fail or are slow.
    fn counts_as_held_back(&self) -> bool {
        self.is_held_back || self.progress.began.get().is_some_and(|began| began.elapsed() > SLOW)
    }
}

/// Hooks whose last attempt took long and succeeded, those found last at the end.
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

/// What the dispatcher knows.
struct DispatchLoop {
    hub: Hub,
    holder: String,
    concurrency: usize,
    metrics: Arc<Metrics>,
    /// Leases that threads hold, or that wait for one.
    under_way: HashMap<HookId, RunningLease>,
    slow: SlowHooks,
    /// What ended and is not recorded yet.
    done: Vec<Run>,
    pool: AttemptThreads,
    ended: Receiver<EndedAttempts>,
}

impl DispatchLoop {
    fn new(hub: Hub, concurrency: usize, holder: String, metrics: Arc<Metrics>, stop: Arc<AtomicBool>) -> Self {
        let (tell, ended) = mpsc::channel();
        let pool = AttemptThreads::new(hub.clone(), tell, stop);
        let (under_way, slow, done) = (HashMap::new(), SlowHooks::default(), Vec::new());
        Self { hub, holder, concurrency, metrics, under_way, slow, done, pool, ended }
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
                    tracing::error!(error = &error as &dyn std::error::Error, "hooks wait for the metadata store");
                    // Nothing is lost: what ran is repeated under the same id when its lease has ended.
                    if stopping && self.under_way.is_empty() {
                        break;
                    }
                    self.hub.dispatch().wait(seen, IDLE);
                }
            }
        }
        self.pool.stop();
    }

    /// Takes what ended. Where something did, what is about to end is waited for, shortly: they share a commit to disk.
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
            // Attempts after the first begin within moments: one that took long was the last.
            self.slow.note(hook, took > SLOW);
            self.done.extend(run);
        }
        self.metrics.hooks.in_flight(self.attempts());
    }

    /// Attempts that are being made: a lease for which no thread is free waits.
    fn attempts(&self) -> usize {
        self.under_way.len().min(self.concurrency)
    }

    /// How many more leases to take: for the threads that are free, and as many as have ended since the last turn, which will be free before the
    /// next. Where receivers are slow few have, so few leases wait for a thread.
    fn places(&self) -> usize {
        let ahead = self.done.len().min(self.concurrency);
        (self.concurrency + ahead).saturating_sub(self.under_way.len())
    }

    /// The share of hooks that fail or are slow.
    fn half(&self) -> usize {
        self.concurrency.div_ceil(2)
    }

    fn held_back(&self) -> usize {
        self.under_way.values().filter(|lease| lease.counts_as_held_back()).count()
    }

    /// Cuts attempts short that began as those of good hooks and take long, where there are more of such than their share and others wait for
    /// their places. Their hooks are known to be slow from then on, and are tried again, to the end, in the places that such have.
    fn make_room(&mut self) -> Result<(), Fault> {
        // Those that were cut short and have not ended yet leave their places soon.
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

    /// Whether a good hook waits for a thread or for a lease.
    fn others_wait(&mut self) -> Result<bool, Fault> {
        if self.under_way.values().any(|lease| !lease.is_held_back && !lease.has_begun()) {
            return Ok(true);
        }
        self.hub.dispatch().is_due(Room { hooks: 1, held_back: 0, slow: self.slow.0.make_contiguous() })
    }

    /// Makes deliveries of events, records what ended, begins what is due. Gives whether there was anything to do.
    fn turn(&mut self, stopping: bool) -> Result<bool, Fault> {
        let hub = self.hub.clone();
        let dispatch = hub.dispatch();
        let events = if stopping { Vec::new() } else { dispatch.fan_out()? };
        events.iter().for_each(|event| self.metrics.hooks.recorded(*event));
        let fanned = !events.is_empty();
        let hooks = if stopping { 0 } else { self.places() };
        if !stopping {
            self.make_room()?;
        }
        // Hooks that fail or are slow never take all places from those that work.
        let held_back = self.half().saturating_sub(self.held_back());
        let room = Room { hooks, held_back, slow: self.slow.0.make_contiguous() };
        if self.done.is_empty() && (hooks == 0 || !dispatch.is_due(room)?) {
            return Ok(fanned);
        }
        let turn = dispatch.turn(&self.holder, &self.done, room)?;
        self.metrics.hooks.turned(&turn);
        let attempted = self.done.iter().flat_map(|run| &run.attempted);
        attempted.for_each(|attempted| self.metrics.hooks.attempted(attempted));
        let Turn { leases, disabled, .. } = turn;
        for (hook, reason) in disabled {
            match reason {
                DisabledReason::Gone => tracing::warn!(%hook, "a hook was switched off: its receiver is gone (410)"),
                DisabledReason::Failing => tracing::warn!(%hook, "a hook was switched off: it did nothing but fail"),
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
        self.metrics.hooks.in_flight(self.attempts());
        Ok(progress)
    }
}

/// A lease whose deliveries are to be attempted.
type LeasedAttempts = (Lease, Arc<AttemptProgress>);

/// The threads that make attempts.
struct AttemptThreads {
    hub: Hub,
    give: Sender<LeasedAttempts>,
    take: Arc<Mutex<Receiver<LeasedAttempts>>>,
    tell: Sender<EndedAttempts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl AttemptThreads {
    fn new(hub: Hub, tell: Sender<EndedAttempts>, stop: Arc<AtomicBool>) -> Self {
        let (give, take) = mpsc::channel();
        Self { hub, give, take: Arc::new(Mutex::new(take)), tell, stop, threads: Vec::new() }
    }

    /// Has an attempt made, by the `running`th thread at the latest.
    fn attempt(&mut self, lease: LeasedAttempts, running: usize) {
        if self.threads.len() < running {
            let (hub, take, tell) = (self.hub.clone(), Arc::clone(&self.take), self.tell.clone());
            let stop = Arc::clone(&self.stop);
            let name = format!("hooks-{}", self.threads.len());
            match thread::Builder::new().name(name).spawn(move || attempts(&hub, &take, &tell, &stop)) {
                Ok(thread) => self.threads.push(thread),
                // Others take it when they are free.
                Err(error) => tracing::error!(%error, "no further thread for hooks"),
            }
        }
        // It fails only when the other end is gone, which this holds.
        let _ = self.give.send(lease);
    }

    fn stop(self) {
        drop(self.give);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of hooks panicked");
            }
        }
    }
}

fn attempts(hub: &Hub, take: &Mutex<Receiver<LeasedAttempts>>, tell: &Sender<EndedAttempts>, stop: &AtomicBool) {
    let go_on = || !stop.load(Ordering::Relaxed);
    loop {
        let next = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((lease, progress)) = next else { return };
        let hook = lease.hook.id;
        let began = *progress.began.get_or_init(Instant::now);
        let attempt = || hub.dispatch().attempt(lease, &progress.canceled, go_on);
        let run = match panic::catch_unwind(AssertUnwindSafe(attempt)) {
            Ok(Some(run)) => Some(run),
            Ok(None) => {
                tracing::error!(%hook, "the secret of a hook cannot be read with this server.key; rotate it");
                None
            }
            Err(_) => {
                tracing::error!(%hook, "an attempt to deliver panicked");
                None
            }
        };
        if tell.send(EndedAttempts { hook, took: began.elapsed(), run }).is_err() {
            return;
        }
        hub.dispatch().wake();
    }
}
