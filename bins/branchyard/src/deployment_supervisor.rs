//! Threads that supervise the instances of deployments: one per deployment that is not stopped, which the capacity of the
//! catalogue bounds, and a few that run operations on deployments.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_deployments::values::DeploymentId;
use branchyard_deployments::{Deployments, Next};
use parking_lot::Mutex;

use crate::logging::{DeploymentSpan, Traces};

/// Maximum wait of a step for an event of a process, and of an idle thread for work that another process queued.
const WAIT: Duration = Duration::from_millis(250);
/// Delay before a retry after an error.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of threads that run operations on deployments.
const OPERATORS: usize = 2;
/// Interval at which the shutdown checks whether to hurry.
const HURRY: Duration = Duration::from_millis(50);
const TIDY: Duration = Duration::from_secs(60);

/// Ids of the deployments that a thread works on.
type TakenDeployments = Arc<Mutex<BTreeSet<DeploymentId>>>;

/// The supervision threads of a server.
pub(crate) struct Fleet {
    deployments: Deployments,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A claim of one thread on a deployment. Dropping the claim releases the deployment, also during a panic.
struct DeploymentClaim {
    taken: TakenDeployments,
    id: DeploymentId,
}

impl DeploymentClaim {
    fn take(taken: &TakenDeployments, id: DeploymentId) -> Option<Self> {
        let free = taken.lock().insert(id);
        free.then(|| Self { taken: Arc::clone(taken), id })
    }
}

impl Drop for DeploymentClaim {
    fn drop(&mut self) {
        self.taken.lock().remove(&self.id);
    }
}

impl Fleet {
    /// Adopts the processes of an earlier server and starts the threads.
    pub(crate) fn start(deployments: &Deployments, traces: &Traces) -> anyhow::Result<Self> {
        deployments.serve_instances();
        let recovered = deployments.supervisor().recover()?;
        if recovered.adopted + recovered.gone > 0 {
            tracing::info!(
                adopted = recovered.adopted,
                gone = recovered.gone,
                "recovered the instances of an earlier server process"
            );
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let (for_thread, flag, spans) = (deployments.clone(), Arc::clone(&stop), traces.clone());
        let thread = thread::Builder::new().name("fleet".to_owned());
        threads.push(thread.spawn(move || supervise(&for_thread, &flag, &spans))?);
        let operated = TakenDeployments::default();
        for number in 0..OPERATORS {
            let (deployments, flag, taken) = (deployments.clone(), Arc::clone(&stop), Arc::clone(&operated));
            let thread = thread::Builder::new().name(format!("fleet-operations-{number}")).stack_size(8 << 20);
            let traces = traces.clone();
            threads.push(thread.spawn(move || operate(&deployments, &flag, &taken, &traces))?);
        }
        Ok(Self { deployments: deployments.clone(), stop, threads })
    }

    /// Stops the threads, then drains all instances in parallel, or leaves them running for the next server if `leave` is set.
    /// Once `in_haste` returns `true`, drains are cut short.
    pub(crate) fn stop(self, leave: bool, in_haste: impl Fn() -> bool + Sync) {
        self.stop.store(true, Ordering::Relaxed);
        self.deployments.supervisor().wake();
        let (deployments, is_done) = (&self.deployments, AtomicBool::new(false));
        let (in_haste, is_done) = (&in_haste, &is_done);
        thread::scope(|scope| {
            if !leave {
                scope.spawn(move || hurry(deployments, in_haste, is_done));
            }
            for thread in self.threads {
                if thread.join().is_err() {
                    tracing::error!("a deployment supervisor thread panicked");
                }
            }
            end(deployments, leave, in_haste);
            is_done.store(true, Ordering::Relaxed);
        });
    }
}

/// Drains the instances of all deployments, or leaves them running.
fn end(deployments: &Deployments, leave: bool, in_haste: &(impl Fn() -> bool + Sync)) {
    let busy = deployments.supervisor().busy().unwrap_or_else(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "cannot determine which instances run; leaving them as they are"
        );
        Vec::new()
    });
    thread::scope(|scope| {
        for id in busy {
            scope.spawn(move || {
                let ended = if leave { deployments.supervisor().leave(id) } else { deployments.supervisor().rest(id, in_haste()) };
                if let Err(error) = ended {
                    tracing::error!(deployment = %id, error = &error as &dyn std::error::Error, "cannot end the supervision of an instance");
                }
            });
        }
    });
}

/// Cuts drains short once `in_haste` returns `true`. Repeats this until the shutdown is done, because a thread that is still
/// running may start another process.
fn hurry(deployments: &Deployments, in_haste: &impl Fn() -> bool, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        if in_haste()
            && let Err(error) = deployments.supervisor().cut_short()
        {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot kill an instance");
        }
        thread::sleep(HURRY);
    }
}

/// Keeps one thread running for each busy deployment, and removes expired data.
fn supervise(deployments: &Deployments, stop: &Arc<AtomicBool>, traces: &Traces) {
    let taken = TakenDeployments::default();
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut tidied = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let seen = deployments.supervisor().signals();
        match deployments.supervisor().busy() {
            Ok(busy) => {
                for hold in busy.into_iter().filter_map(|id| DeploymentClaim::take(&taken, id)) {
                    let (deployments, stop, traces) = (deployments.clone(), Arc::clone(stop), traces.clone());
                    // The engine copies databases on this thread, which therefore gets more stack than the default.
                    let thread = thread::Builder::new().name(format!("fleet-{}", hold.id)).stack_size(8 << 20);
                    match thread.spawn(move || keep(&deployments, &stop, &hold, &traces)) {
                        Ok(thread) => threads.push(thread),
                        Err(error) => tracing::error!(%error, "cannot start a thread for a deployment"),
                    }
                }
            }
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "deployments are delayed: the metadata store failed"
            ),
        }
        if tidied.elapsed() >= TIDY {
            tidied = Instant::now();
            if let Err(error) = deployments.supervisor().tidy() {
                tracing::error!(error = &error as &dyn std::error::Error, "cleanup of deployments failed");
            }
        }
        threads.retain(|thread| !thread.is_finished());
        deployments.supervisor().wait(seen, WAIT);
    }
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("the thread of a deployment panicked");
        }
    }
}

/// Runs the steps of one deployment until none is left.
fn keep(deployments: &Deployments, stop: &AtomicBool, hold: &DeploymentClaim, traces: &Traces) {
    while !stop.load(Ordering::Relaxed) {
        let seen = deployments.supervisor().signals();
        let span = DeploymentSpan::begin(traces, hold.id);
        let step = || span.within(|| deployments.supervisor().step(hold.id, WAIT));
        match panic::catch_unwind(AssertUnwindSafe(step)) {
            Ok(Ok(stepped)) => {
                if let Some(warning) = stepped.warning {
                    span.within(|| tracing::warn!("{warning}"));
                }
                span.ended(matches!(stepped.next, Next::Now), false);
                match stepped.next {
                    Next::Now => {}
                    Next::In(time) => deployments.supervisor().wait(seen, time.min(AGAIN)),
                    Next::Never => return,
                }
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                span.within(|| tracing::error!(error, "a supervision step failed"));
                span.ended(true, true);
                thread::sleep(AGAIN);
            }
            Err(_) => {
                span.within(|| tracing::error!("a supervision step panicked"));
                span.ended(true, true);
                thread::sleep(AGAIN);
            }
        }
    }
}

/// Runs operations on deployments, at most one at a time per deployment.
fn operate(deployments: &Deployments, stop: &AtomicBool, taken: &TakenDeployments, traces: &Traces) {
    while !stop.load(Ordering::Relaxed) {
        let seen = deployments.supervisor().signals();
        let mut progress = false;
        let busy = deployments.supervisor().busy().unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the deployments to operate on could not be listed");
            thread::sleep(AGAIN);
            Vec::new()
        });
        for id in busy {
            let Some(hold) = DeploymentClaim::take(taken, id) else { continue };
            let span = DeploymentSpan::begin(traces, id);
            let note = |operation: &_| span.note(operation);
            let operate = || span.within(|| deployments.supervisor().operate_noting(hold.id, &note));
            match panic::catch_unwind(AssertUnwindSafe(operate)) {
                Ok(Ok(done)) => {
                    span.ended(done, false);
                    progress |= done;
                }
                Ok(Err(error)) => {
                    let error = &error as &dyn std::error::Error;
                    span.within(|| tracing::error!(error, "a fault interrupted a deployment operation"));
                    span.ended(true, true);
                    thread::sleep(AGAIN);
                }
                Err(_) => {
                    span.within(|| tracing::error!("a deployment operation panicked"));
                    span.ended(true, true);
                }
            }
        }
        if !progress {
            deployments.supervisor().wait(seen, WAIT);
        }
    }
}
