//! The process of an instance: serves its databases to clients, and answers its server on the control channel.

mod address;
mod callers;
mod control;
mod counters;
mod cursor;
pub(crate) mod databases;
mod http;
mod keep;
pub(crate) mod log;
mod pipeline;
mod procfs;
mod resources;
mod slots;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::rt::System;
use branchyard_deployments::values::Setting;
use branchyard_domain::ports::{Clock, EngineError, Ids, SessionEngine};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry};

use crate::confined_dir::ConfinedDir;
use crate::folder::{self, InstanceFolder};
use crate::spec::{self, Spec};
use log::{ChildLog, LineWriter, LogLevel};
use state::Child;

/// Number of the signal that a too long file raises; ended by it, the process could not say that the volume is full.
const SIGXFSZ: i32 = 25;
/// Time running requests get when the process is to end.
const DRAIN: Duration = Duration::from_secs(10);

/// How large an engine may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSize {
    /// Bytes of its heap.
    pub heap_bytes: u64,
    /// Page cache of each session, in KiB.
    pub session_cache_kib: usize,
    /// Idle sessions it keeps.
    pub idle_sessions: usize,
}

/// What a process needs from whoever composes it.
pub struct Tools {
    /// Opens the engine on a folder.
    #[expect(clippy::type_complexity, reason = "one function, named once")]
    pub open_engine: Box<dyn Fn(PathBuf, EngineSize) -> Result<Arc<dyn SessionEngine>, EngineError>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes ids.
    pub ids: Arc<dyn Ids>,
}

/// The process could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder does not hold what it should.
    #[error("{path}: {why}")]
    Spec {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another process serves the folder.
    #[error("another process serves {0}")]
    Taken(PathBuf),
    /// The system refused something.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The engine does not open.
    #[error("the engine does not open")]
    Engine(#[source] EngineError),
    /// It served, and ended to be started anew with less memory in use.
    #[error("more memory was in use than the instance has")]
    Memory,
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Io { what, source }
}

/// Serves the instance whose folder `run` is given, until it is told to end.
///
/// # Errors
/// [`ServeError`] when it cannot begin.
pub fn serve(run: &Path, tools: Tools) -> Result<(), ServeError> {
    let run = std::path::absolute(run).map_err(io_error("name the folder"))?;
    let path = run.join(folder::SPEC);
    let wrong = |why: String| ServeError::Spec { path: path.clone(), why };
    let folder = InstanceFolder::of_run(&run).ok_or_else(|| wrong("it has no folder above it".into()))?;
    // Not confined yet: what an earlier process of the instance left there is not followed.
    let bytes = ConfinedDir::open(&run).and_then(|run| run.read(folder::SPEC, folder::MOST_BYTES));
    let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
    let spec: Spec = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;

    resources::confine(spec.memory_gb, spec.volume_gb).map_err(io_error("limit this process"))?;
    #[cfg(target_os = "linux")]
    let confined = resources::confine_files(folder.path()).map_err(|error| ServeError::Io {
        what: "confine this process to its folder",
        source: io::Error::other(error),
    })?;
    #[cfg(not(target_os = "linux"))]
    let confined = false;
    let lock = std::fs::File::create(folder.lock()).map_err(io_error("open the lock"))?;
    lock.try_lock().map_err(|_| ServeError::Taken(folder.path().to_owned()))?;
    // The control socket is reached by a short name: paths of sockets have to be.
    std::env::set_current_dir(&run).map_err(io_error("enter the folder"))?;

    let log = ChildLog::open(folder.log(), Arc::clone(&tools.clock)).map_err(io_error("open the log"))?;
    let level = Arc::new(LogLevel::default());
    tell_log(Arc::new(log), &level);
    tracing::info!(pid = std::process::id(), confined, "starting");

    let settings = spec::settings(&spec.settings);
    let threads =
        usize::try_from(settings.number(Setting::QueryThreads).unwrap_or_else(|| u64::from(spec.cpus.max(1))))
            .unwrap_or(1);
    let served = System::new().block_on(begin(spec, folder, tools, level, threads));
    if let Err(error) = &served
        && !matches!(error, ServeError::Memory)
    {
        tracing::error!(error = %chain(error), "cannot serve");
    }
    drop(lock);
    served
}

fn chain(error: &ServeError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Sends events to the log, panics among them.
fn tell_log(log: Arc<ChildLog>, level: &Arc<LogLevel>) {
    let least = Arc::clone(level);
    let writer = tracing_subscriber::fmt::layer()
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_writer(move || LineWriter::new(Arc::clone(&log)))
        .with_filter(tracing_subscriber::filter::dynamic_filter_fn(move |metadata, _| {
            least.lets_through(*metadata.level()) && metadata.target().starts_with("branchyard")
        }));
    // Only the first call of a process counts; there is one.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(writer));
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(panic = %panic, "a thread panicked");
        usual(panic);
    }));
}

async fn begin(
    spec: Spec,
    folder: InstanceFolder,
    tools: Tools,
    level: Arc<LogLevel>,
    threads: usize,
) -> Result<(), ServeError> {
    let settings = spec::settings(&spec.settings);
    let listener = control::listen().map_err(io_error("listen on the control socket"))?;
    let size = engine_size(&spec, &settings);
    let engine = (tools.open_engine)(folder.db(), size).map_err(ServeError::Engine)?;
    let db = ConfinedDir::open(&folder.db()).map_err(io_error("open the folder of the databases"))?;
    let databases = databases::ServedDatabases::open(db).map_err(io_error("read the list of databases"))?;
    for database in databases.all() {
        // What cannot be opened is found out now, not by the first client.
        engine.heads(database.id).map_err(ServeError::Engine)?;
    }
    let (port, count) = (spec.port, databases.all().len());
    let address = (spec.bind, spec.port);
    let child =
        Arc::new(Child::new(spec, folder, settings, engine, databases, tools, level, threads).ok_or_else(|| {
            ServeError::Spec { path: PathBuf::from("spec.json"), why: "the baton key is not one".into() }
        })?);
    let server = http::server(Arc::clone(&child), address, threads).map_err(io_error("listen"))?;
    let handle = server.handle();
    // Registered, it no longer ends the process; the write fails and says so.
    let _too_long = signal(SignalKind::from_raw(SIGXFSZ)).map_err(io_error("watch for a signal"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(io_error("watch for a signal"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(io_error("watch for a signal"))?;

    actix_web::rt::spawn(server);
    actix_web::rt::spawn(control::serve(Arc::clone(&child), listener));
    actix_web::rt::spawn(keep::house(Arc::clone(&child)));
    child.is_ready.store(true, Ordering::Release);
    child.tell(crate::control::FromProcess::Ready);
    tracing::info!(port, databases = count, engine = %child.engine.version(), "ready");

    tokio::select! {
        () = child.drained.notified() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("draining");
    child.is_draining.store(true, Ordering::Release);
    let ended = async {
        while child.running.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(DRAIN, ended).await.is_ok();
    child.canceled.cancel();
    // Their transactions are rolled back as they are dropped.
    let idle = child.streams.drain();
    let dropped = actix_web::rt::task::spawn_blocking(move || drop(idle)).await;
    handle.stop(true).await;
    tracing::info!(in_time, rolled_back = dropped.is_ok(), "ended");
    if child.is_over_memory.load(Ordering::Acquire) { Err(ServeError::Memory) } else { Ok(()) }
}

/// A quarter of the memory for caches, unless a setting says otherwise, for as many sessions as are kept at most.
fn engine_size(spec: &Spec, settings: &branchyard_deployments::values::Settings) -> EngineSize {
    const IDLE: usize = 16;
    let cache = settings
        .number(Setting::EngineCacheMb)
        .map_or_else(|| resources::memory(spec.memory_gb) / 4, |megabytes| megabytes << 20);
    let each = usize::try_from(cache >> 10).unwrap_or(usize::MAX) / IDLE;
    EngineSize {
        heap_bytes: resources::engine_heap(spec.memory_gb),
        session_cache_kib: each.clamp(512, 1 << 20),
        idle_sessions: IDLE,
    }
}
