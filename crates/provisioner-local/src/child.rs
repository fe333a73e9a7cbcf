//! The process of an instance. It serves the instance's databases to clients, and the server over the control channel.

mod address;
mod callers;
pub(crate) mod confinement;
mod control;
mod counters;
mod cursor;
pub(crate) mod databases;
mod http;
mod keep;
pub(crate) mod log;
mod pipeline;
mod requests;
mod resource_usage;
pub(crate) mod resources;
mod slots;
mod state;
mod statement_turns;
mod volume_fill;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::rt::System;
use branchyard_confinement::ConfinementError;
use branchyard_deployments::values::Setting;
use branchyard_domain::ports::{Clock, EngineError, Ids, SessionEngine};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry};

use crate::confined_dir::ConfinedDir;
use crate::folder::{self, InstanceFolder};
use crate::spec::{self, Spec};
use log::{ChildLog, LineWriter, LogLevel};
use resource_usage::UsageFiles;
use state::Child;
pub use statement_turns::{LongStatement, StatementTurns};

/// The signal raised when a file exceeds its size limit. Its default action would end the process before the process
/// could report a full volume.
const SIGXFSZ: i32 = 25;
/// Time that running requests have when the process is to end.
const DRAIN: Duration = Duration::from_secs(10);

/// The memory limits of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSize {
    /// Size of the heap in bytes.
    pub heap_bytes: u64,
    /// Page cache of each session in KiB.
    pub session_cache_kib: usize,
    /// Maximum number of idle sessions kept open.
    pub idle_sessions: usize,
}

/// The dependencies of a process.
pub struct Tools {
    /// Opens the engine on a folder.
    #[expect(clippy::type_complexity, reason = "one function, named once")]
    pub open_engine: Box<dyn Fn(PathBuf, EngineSize) -> Result<Arc<dyn SessionEngine>, EngineError>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids and randomness.
    pub ids: Arc<dyn Ids>,
}

/// An error that prevents a process from serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file of the folder is missing or malformed.
    #[error("{path}: {why}")]
    Spec {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The system does not confine the process, and the server's configuration does not allow it to run unconfined.
    #[error("cannot confine this process; hosted.allow_unconfined would let it run all the same")]
    Unconfined(#[source] ConfinementError),
    /// A limit on resources cannot be set.
    #[error("cannot limit this process")]
    Unlimited(#[source] ConfinementError),
    /// Another process serves the folder.
    #[error("another process serves {0}")]
    Taken(PathBuf),
    /// An operation of the system failed.
    #[error("cannot {what}")]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The engine does not open.
    #[error("cannot open the engine")]
    Engine(#[source] EngineError),
    /// The process served, and ended because it used too much memory. It should be started again.
    #[error("the process used more memory than the instance has")]
    Memory,
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Io { what, source }
}

/// Serves the instance with the folder `run` until the process is asked to end.
///
/// # Errors
/// [`ServeError`] if the process cannot start to serve, or if it used too much memory.
pub fn serve(run: &Path, tools: Tools) -> Result<(), ServeError> {
    let run = std::path::absolute(run).map_err(io_error("name the folder"))?;
    let path = run.join(folder::SPEC);
    let wrong = |why: String| ServeError::Spec { path: path.clone(), why };
    let folder = InstanceFolder::of_run(&run).ok_or_else(|| wrong("it has no folder above it".into()))?;
    // The process is not confined yet, so links that an earlier process of the instance left must not be followed.
    let bytes = ConfinedDir::open(&run).and_then(|run| run.read(folder::SPEC, folder::MOST_BYTES));
    let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
    let spec: Spec = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;

    resources::limit(spec.memory_gb, spec.volume_gb).map_err(ServeError::Unlimited)?;
    // Paths of sockets are limited in length, so the control socket is reached by a relative path. If the folder is a link, the
    // confined process cannot use where it leads.
    std::env::set_current_dir(&run).map_err(io_error("enter the folder"))?;
    // The confined process cannot open these files.
    let usage = UsageFiles::open();
    let unconfined = confinement::confine(folder.path(), spec.port).err();
    let unconfined = match unconfined {
        Some(error) if !spec.allow_unconfined => return Err(ServeError::Unconfined(error)),
        unconfined => unconfined,
    };
    let lock = std::fs::File::create(folder.lock()).map_err(io_error("open the lock"))?;
    lock.try_lock().map_err(|_| ServeError::Taken(folder.path().to_owned()))?;

    let log = ChildLog::open(folder.log(), Arc::clone(&tools.clock)).map_err(io_error("open the log"))?;
    let level = Arc::new(LogLevel::default());
    tell_log(Arc::new(log), &level);
    tracing::info!(pid = std::process::id(), "starting");
    if let Some(error) = unconfined {
        tracing::warn!(error = %chain(&error), "this process is not confined");
    }

    let settings = spec::settings(&spec.settings);
    let threads =
        usize::try_from(settings.number(Setting::QueryThreads).unwrap_or_else(|| u64::from(spec.cpus.max(1))))
            .unwrap_or(1);
    let served = System::new().block_on(begin(spec, folder, tools, usage, level, threads));
    if let Err(error) = &served
        && !matches!(error, ServeError::Memory)
    {
        tracing::error!(error = %chain(error), "cannot serve");
    }
    drop(lock);
    served
}

/// Returns an error with its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Sends events and panics to the log.
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
    // Fails only if a subscriber is set already; the process sets it once.
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
    usage: UsageFiles,
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
        // A database that cannot be opened fails the start, rather than the first request.
        engine.heads(database.id).map_err(ServeError::Engine)?;
    }
    let (port, count) = (spec.port, databases.all().len());
    let address = (spec.bind, spec.port);
    let child =
        Arc::new(Child::new(spec, folder, settings, engine, databases, tools, usage, level, threads).ok_or_else(
            || ServeError::Spec { path: PathBuf::from("spec.json"), why: "the baton key is not one".into() },
        )?);
    let server = http::server(Arc::clone(&child), address, threads).map_err(io_error("listen"))?;
    let handle = server.handle();
    // With a handler registered, the signal does not end the process: the write fails with an error instead.
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
        while child.requests.count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(DRAIN, ended).await.is_ok();
    child.requests.cancel_all();
    // Dropping the streams rolls their transactions back.
    let idle = child.streams.drain();
    let dropped = actix_web::rt::task::spawn_blocking(move || drop(idle)).await;
    handle.stop(true).await;
    tracing::info!(in_time, rolled_back = dropped.is_ok(), "ended");
    if child.is_over_memory.load(Ordering::Acquire) { Err(ServeError::Memory) } else { Ok(()) }
}

/// Returns the memory limits: a quarter of the memory for page caches, unless a setting overrides it, divided by the
/// number of idle sessions.
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
