//! The thread that brings events to hooks, and those that make the attempts.
//!
//! All that is to be done is in the store; in memory there are the attempts under way and nothing else. One thread asks the store and tells
//! it, in few transactions; attempts run on threads of their own, so many at once as are configured, begun when they are first needed.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::entities::DisabledReason;
use branchyard_domain::errors::Fault;
use branchyard_domain::ports::Lease;
use branchyard_domain::usecases::{Run, Turn};

use crate::metrics::Metrics;

/// How long an idle dispatcher sleeps at most: what another process recorded, and what became due, is found this late.
const IDLE: Duration = Duration::from_millis(250);
/// How long what ended waits for others to be recorded with.
const GATHER: Duration = Duration::from_millis(2);

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
        let work = move || Desk::new(for_thread, concurrency, holder, metrics, Arc::clone(&flag)).work(&flag);
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
struct Ended {
    failing: bool,
    run: Option<Run>,
}

/// What the dispatcher knows.
struct Desk {
    hub: Hub,
    holder: String,
    concurrency: usize,
    metrics: Arc<Metrics>,
    /// Leases that threads hold, or that wait for one.
    running: usize,
    /// How many of those are for hooks whose last attempt failed.
    failing: usize,
    /// What ended and is not recorded yet.
    done: Vec<Run>,
    pool: Pool,
    ended: Receiver<Ended>,
}

impl Desk {
    fn new(hub: Hub, concurrency: usize, holder: String, metrics: Arc<Metrics>, stop: Arc<AtomicBool>) -> Self {
        let (tell, ended) = mpsc::channel();
        let pool = Pool::new(hub.clone(), tell, stop);
        Self { hub, holder, concurrency, metrics, running: 0, failing: 0, done: Vec::new(), pool, ended }
    }

    fn work(mut self, stop: &AtomicBool) {
        loop {
            let seen = self.hub.dispatch().signals();
            self.collect();
            let stopping = stop.load(Ordering::Relaxed);
            if stopping && self.running == 0 && self.done.is_empty() {
                break;
            }
            match self.turn(stopping) {
                Ok(true) => {}
                Ok(false) => self.hub.dispatch().wait(seen, IDLE),
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "hooks wait for the metadata store");
                    // Nothing is lost: what ran is repeated under the same id when its lease has ended.
                    if stopping && self.running == 0 {
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
                done if done >= self.running => Duration::ZERO,
                _ => until.saturating_duration_since(Instant::now()),
            };
            let Ok(Ended { failing, run }) = self.ended.recv_timeout(patience) else { break };
            self.running -= 1;
            self.failing -= usize::from(failing);
            self.done.extend(run);
        }
        self.metrics.hooks.in_flight(self.under_way());
    }

    /// Attempts that are being made: a lease for which no thread is free waits.
    fn under_way(&self) -> usize {
        self.running.min(self.concurrency)
    }

    /// How many more leases to take: for the threads that are free, and as many as have ended since the last turn, which will be free before the
    /// next. Where receivers are slow few have, so few leases wait for a thread.
    fn places(&self) -> usize {
        let ahead = self.done.len().min(self.concurrency);
        (self.concurrency + ahead).saturating_sub(self.running)
    }

    /// Makes deliveries of events, records what ended, begins what is due. Gives whether there was anything to do.
    fn turn(&mut self, stopping: bool) -> Result<bool, Fault> {
        let dispatch = self.hub.dispatch();
        let events = if stopping { Vec::new() } else { dispatch.fan_out()? };
        events.iter().for_each(|event| self.metrics.hooks.recorded(*event));
        let fanned = !events.is_empty();
        let places = if stopping { 0 } else { self.places() };
        if self.done.is_empty() && (places == 0 || !dispatch.is_due()?) {
            return Ok(fanned);
        }
        // Hooks that fail, slowly perhaps, never take all places from those that work.
        let failing_places = self.concurrency.div_ceil(2).saturating_sub(self.failing);
        let turn = dispatch.turn(&self.holder, &self.done, places, failing_places)?;
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
            let failing = lease.hook.failing_since.is_some();
            self.running += 1;
            self.failing += usize::from(failing);
            self.pool.attempt(lease, self.under_way());
        }
        self.metrics.hooks.in_flight(self.under_way());
        Ok(progress)
    }
}

/// The threads that make attempts.
struct Pool {
    hub: Hub,
    give: Sender<Lease>,
    take: Arc<Mutex<Receiver<Lease>>>,
    tell: Sender<Ended>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    fn new(hub: Hub, tell: Sender<Ended>, stop: Arc<AtomicBool>) -> Self {
        let (give, take) = mpsc::channel();
        Self { hub, give, take: Arc::new(Mutex::new(take)), tell, stop, threads: Vec::new() }
    }

    /// Has an attempt made, by the `running`th thread at the latest.
    fn attempt(&mut self, lease: Lease, running: usize) {
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

fn attempts(hub: &Hub, take: &Mutex<Receiver<Lease>>, tell: &Sender<Ended>, stop: &AtomicBool) {
    let go_on = || !stop.load(Ordering::Relaxed);
    loop {
        let next = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(lease) = next else { return };
        let (failing, hook) = (lease.hook.failing_since.is_some(), lease.hook.id);
        let run = match panic::catch_unwind(AssertUnwindSafe(|| hub.dispatch().attempt(lease, go_on))) {
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
        if tell.send(Ended { failing, run }).is_err() {
            return;
        }
        hub.dispatch().wake();
    }
}
