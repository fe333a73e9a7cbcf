//! The life of a server: open, recover, listen; on the first signal drain, on the second hurry.

use std::io::IsTerminal as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use anyhow::Context as _;
use branchyard_api_common::{AppState, ServerKeys, head_limit};
use branchyard_domain::Hub;

use crate::commands::print;
use crate::compose::{Pending, Stores, World};
use crate::config::Config;
use crate::data_dir::DataDirLock;
use crate::dispatcher::Dispatcher;
use crate::fleet::Fleet;
use crate::workers::Workers;
use crate::{data_dir::DataDir, gateway, pages};

/// How long requests under way may take once the server drains.
const DRAIN_SECONDS: u64 = 30;
/// Connections at once; more wait in the kernel.
const MAX_CONNECTIONS: usize = 10_000;

/// Runs a server until a signal ends it.
///
/// # Errors
/// When it cannot start, or did not end cleanly.
pub fn run(config: &Config, no_migrate: bool) -> anyhow::Result<()> {
    start_logging();
    let pending = if no_migrate { Pending::Refuse } else { Pending::Migrate };
    let running = Running::start(config, &World::default(), pending)?;
    print(format!("listening on {}", running.address()))?;
    running.until_stopped()
}

/// Logs to standard error: lines for people on a terminal, JSON elsewhere. `RUST_LOG` chooses what.
pub(crate) fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call, as in tests, keeps the first.
    let _ = if std::io::stderr().is_terminal() { lines.try_init() } else { lines.json().try_init() };
}

/// A server that accepts connections.
pub struct Running {
    /// What it serves; the demo and tests work on it directly.
    pub hub: Hub,
    address: SocketAddr,
    draining: Arc<AtomicBool>,
    workers: Workers,
    dispatcher: Dispatcher,
    fleet: Fleet,
    leaves_instances: bool,
    runtime: tokio::runtime::Runtime,
    handle: ServerHandle,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
    #[expect(dead_code, reason = "held until the server has ended")]
    lock: DataDirLock,
}

impl Running {
    /// Opens the stores, recovers what a crash left, and listens.
    ///
    /// # Errors
    /// Says what is in the way.
    pub fn start(config: &Config, world: &World, pending: Pending) -> anyhow::Result<Self> {
        let lock = DataDir::open(&config.data_dir)?.lock()?;
        let stores = Stores::open(config, world, pending)?;
        stores.bind(world)?;
        stores.engine.clear_temporary().context("cannot remove what a crash left half made")?;
        let secret = stores.dir.secret(world.ids.as_ref())?;
        let hub = stores.hub.clone();
        let freed = hub.operations().recover().context("cannot recover interrupted operations")?;
        if freed > 0 {
            tracing::info!(operations = freed, "operations that were interrupted are resumed");
        }
        let swept = hub.operations().sweep().context("cannot remove what a crash left behind")?;
        if swept > 0 {
            tracing::info!(files = swept, "files that nothing refers to were removed");
        }
        let node = stores.dir.node(&hub.fresh_id().to_string())?;
        hub.dispatch().recover(&node).context("cannot recover interrupted deliveries")?;
        if !config.hosted.address()?.is_loopback() {
            tracing::warn!(bind = config.hosted.bind, "instances listen beyond this machine, and speak plain HTTP");
        }
        // Before anything listens: each process of an earlier server is taken over or known to be gone.
        let fleet = Fleet::start(&hub).context("cannot take over the instances of deployments")?;
        let listener =
            TcpListener::bind(&config.listen).with_context(|| format!("cannot listen on {}", config.listen))?;
        let address = listener.local_addr()?;
        let public_url = config.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        let hosted = config.hosted.adapter(config.hosted_public_url.as_deref().unwrap_or(&public_url));
        let state = AppState::new(hub.clone(), config.http_config(public_url)?, ServerKeys::from_secret(secret));
        let draining = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let head_timeout = Duration::from_millis(config.http.head_timeout_ms);
        let alpha = config.v1alpha1.settings()?;
        let apis = Apis { state, alpha, hosted };
        let server = runtime.block_on(async { listen(listener, apis, Arc::clone(&draining), head_timeout) })?;
        let handle = server.handle();
        let server = runtime.spawn(server);
        let count = match config.operations.workers {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            count => count,
        };
        let instance = world.ids.uuid(world.clock.now());
        let workers = Workers::start(&hub, count, &instance.to_string()).context("cannot start the workers")?;
        let dispatcher =
            Dispatcher::start(&hub, config.hooks.concurrency, node).context("cannot start the dispatcher of hooks")?;
        Ok(Self {
            hub,
            address,
            draining,
            workers,
            dispatcher,
            fleet,
            leaves_instances: config.hosted.leaves(),
            runtime,
            handle,
            server,
            lock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until SIGTERM or SIGINT, then drains; a second signal hurries.
    ///
    /// # Errors
    /// When the server ended by itself.
    pub fn until_stopped(self) -> anyhow::Result<()> {
        self.runtime.block_on(wait_for_signal())?;
        self.drain(true)
    }

    /// Stops accepting, lets requests and operations under way end.
    ///
    /// # Errors
    /// When the server had failed.
    pub fn stop(self) -> anyhow::Result<()> {
        self.drain(false)
    }

    fn drain(self, signals: bool) -> anyhow::Result<()> {
        self.draining.store(true, Ordering::Relaxed);
        let (handle, server) = (self.handle, self.server);
        self.runtime.block_on(async {
            let graceful = handle.stop(true);
            if signals {
                tokio::select! {
                    () = graceful => {}
                    _ = wait_for_signal() => handle.stop(false).await,
                }
            } else {
                graceful.await;
            }
            server.await.context("the server task was lost")?.context("the server failed")
        })?;
        self.workers.stop();
        self.dispatcher.stop();
        self.fleet.stop(self.leaves_instances);
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        Ok(())
    }
}

/// What the adapters are given.
struct Apis {
    state: AppState,
    alpha: branchyard_api_v1alpha1::Settings,
    hosted: branchyard_api_hosted_v1::Settings,
}

fn listen(
    listener: TcpListener,
    apis: Apis,
    draining: Arc<AtomicBool>,
    head_timeout: Duration,
) -> std::io::Result<Server> {
    let draining = web::Data::from(draining);
    let Apis { state, alpha, hosted } = apis;
    let has_gateway = hosted.gateway;
    let server = HttpServer::new(move || {
        App::new()
            .wrap(from_fn(head_limit))
            .app_data(web::Data::new(state.clone()))
            .app_data(web::Data::new(alpha.clone()))
            .app_data(web::Data::new(hosted.clone()))
            .app_data(draining.clone())
            .configure(|config| {
                if has_gateway {
                    gateway::configure(config);
                }
            })
            .configure(branchyard_api_v2::configure)
            .configure(branchyard_api_v1alpha1::configure)
            .configure(branchyard_api_hosted_v1::configure)
            .configure(pages::configure)
    });
    let server = server
        .max_connections(MAX_CONNECTIONS)
        // Who closes their side has gone away: what they asked for ends (a SQL read above all).
        .h1_allow_half_closed(false)
        .client_request_timeout(head_timeout)
        .shutdown_timeout(DRAIN_SECONDS)
        .disable_signals()
        .listen(listener)?;
    Ok(server.run())
}

async fn wait_for_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
