//! The life cycle of a server: open the stores, recover, listen. The first signal drains the server; the second cuts the drain
//! short.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use actix_web::dev::{Extensions, Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer, web};
use anyhow::Context as _;
use branchyard_api_oauth::OAuthEndpoints;
use branchyard_api_remotes::RemoteObserver;
use branchyard_confinement::kernel_support;
use branchyard_deployment_proxy::DeploymentProxy;
use branchyard_deployments::Deployments;
use branchyard_domain::Hub;
use branchyard_domain::entities::OperationKind;
use branchyard_http_common::{AppState, RequestLog, Services, head_limit, log_request, unknown_api_paths};
use branchyard_https::{Certificates, Limits};
use branchyard_node_calls::NodeCalls;
use branchyard_runtime::{AttemptCutoff, Background, BackgroundOptions, recover};
use branchyard_storage::Exchange;
use branchyard_web::Reference;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::background_observer::BackgroundObserver;
use crate::commands::print;
use crate::compose::{Environment, Pending, Role, Stores, refuse_newer};
use crate::config::Config;
use crate::connections::{self, ConnectionLimits, ProgressTimeouts};
use crate::data_dir::DataDirLock;
use crate::deployment_supervisor::Fleet;
use crate::durable_home::{DurableHome, Housekeeping};
use crate::logging::{self, Traces};
use crate::metrics::{self, Metrics, MetricsServer, Sources};
use crate::node_drain::DrainWatch;
use crate::origin_check::{self, OriginCheck};
use crate::repeating_thread::RepeatingThread;
use crate::sql_engine::SqlEngine;
use crate::{
    data_dir::DataDir, deployments, free_space, health, live_keys, live_streams, metadata_exchange, node_calls,
};

/// Runs a server until a signal stops it.
///
/// # Errors
/// Fails if the server cannot start, or if it stopped because of an error.
pub fn run(config: &Config, no_migrate: bool) -> anyhow::Result<()> {
    let _log = logging::start(config)?;
    let pending = if no_migrate { Pending::Refuse } else { Pending::Migrate };
    let running = Running::start(config, &Environment::default(), pending)?;
    let signals = running.watch_signals()?;
    announce(format!("listening on {}", running.origin()));
    // Not logged: the link is a credential.
    match running.administrator_link() {
        Ok(Some(link)) => announce(format!("no user exists yet; create the administrator's account at {link}")),
        Ok(None) => {}
        // The server serves already, and the metadata store may be back in a moment.
        Err(error) => {
            let error: &(dyn std::error::Error + 'static) = error.as_ref();
            tracing::warn!(
                error,
                "cannot look whether a user exists; if none does, a restart prints the link for the first account"
            );
        }
    }
    running.until_stopped(signals)
}

/// Prints a line for the person or the script that started the server. A standard output that was closed is no error: scripts read
/// one line and then close it.
pub(crate) fn announce(line: String) {
    if let Err(error) = print(line) {
        tracing::warn!(error = &*error as &dyn std::error::Error, "cannot write to standard output");
    }
}

/// A server that accepts connections.
pub struct Running {
    /// The use cases of the server. The demo and tests call them directly.
    pub hub: Hub,
    /// The deployment use cases of the server.
    pub deployments: Deployments,
    /// The origin that the server listens on.
    origin: String,
    public_url: String,
    state: AppState,
    background: Background,
    free_space: RepeatingThread,
    key_ring: RepeatingThread,
    live_streams: RepeatingThread,
    exchange: Option<Exchange>,
    fleet: Fleet,
    leaves_instances: bool,
    engine: SqlEngine,
    home: Option<OpenHome>,
    traces: Traces,
    shutdown_grace: Duration,
    hooks_grace: Duration,
    runtime: tokio::runtime::Runtime,
    handle: ServerHandle,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
    metrics: Option<MetricsServer>,
    #[expect(dead_code, reason = "held until the server has ended")]
    lock: DataDirLock,
}

impl Running {
    /// Opens the stores, recovers from a previous crash, and starts to listen.
    ///
    /// # Errors
    /// Returns an error that describes what prevents the start.
    pub fn start(config: &Config, world: &Environment, pending: Pending) -> anyhow::Result<Self> {
        let started = Instant::now();
        let certificates = config.tls.files()?.map(Certificates::load).transpose()?.map(Arc::new);
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let dir = DataDir::open(&config.data_dir)?;
        refuse_newer(config, &dir)?;
        let lock = dir.lock()?;
        let traces = Traces::start(config)?;
        let stores = Stores::open(config, world, pending, Role::Node)?;
        stores.bind(world)?;
        let hub = stores.hub.clone();
        let deployments = stores.deployments.clone();
        let node = deployments.hosting().node.clone();
        logging::recovery(&traces, || recover_stores(&stores, &node))?;
        if config.limits.keep_deleted.is_some() {
            tracing::warn!("limits.keep_deleted is read as store.history, its new name; change the configuration");
        }
        if !config.hosted.address()?.is_loopback() {
            tracing::warn!(bind = config.hosted.bind, "instances accept unencrypted connections from other machines");
        }
        if let Some(warning) = deployments::confinement_warning(&config.hosted, kernel_support()) {
            tracing::warn!("{warning}");
        }
        // Runs before the server listens, so that each process of an earlier server is either adopted or known to be gone.
        let fleet = logging::recovery(&traces, || Fleet::start(&deployments, &traces));
        let fleet = fleet.context("cannot take over the instances of deployments")?;
        let listener =
            TcpListener::bind(&config.listen).with_context(|| format!("cannot listen on {}", config.listen))?;
        let origin = format!("{scheme}://{}", listener.local_addr()?);
        let public_url = config.public_url.clone().unwrap_or_else(|| origin.clone());
        let hosted = config.hosted.adapter(config.hosted_public_url.as_deref().unwrap_or(&public_url));
        let state = AppState::new(
            Services::new(hub.clone(), deployments.clone()),
            config.http_config(public_url.clone())?,
            stores.keys.tokens(),
        );
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let patience = ProgressTimeouts {
            head: Duration::from_millis(config.http.head_timeout_ms),
            write: Duration::from_millis(config.http.write_stall_ms),
        };
        let alpha = config.v1alpha1.settings()?;
        let measured = Arc::new(Metrics::new());
        let metrics = match &config.metrics.listen {
            None => None,
            Some(listen) => {
                let (engine, metadata) = (stores.engine.clone(), Arc::clone(&stores.metadata));
                let sources = Sources { state: state.clone(), engine, home: stores.home.clone(), metadata, started };
                let (metrics, server) =
                    runtime.block_on(async { metrics::start(listen, Arc::clone(&measured), sources) })?;
                tracing::info!("serving metrics on http://{}/metrics", metrics.address);
                runtime.spawn(server);
                Some(metrics)
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let proxy = hosted.gateway.then(|| DeploymentProxy::new(threads)).transpose();
        let proxy = proxy.context("cannot build the HTTP clients for deployments")?;
        let calls = node_calls::start(config, &stores, scheme, listener.local_addr()?, runtime.handle())?;
        let shared = ServerParts {
            state: state.clone(),
            alpha,
            hosted,
            scheme,
            metrics: Arc::clone(&measured),
            log: logging::request_log(config, &traces),
            threads,
            proxy,
            calls,
            home: stores.home.clone(),
            shutdown_grace: config.server.shutdown_grace.duration(),
        };
        let per_address = config.http.max_connections_per_address;
        let proxies = state.config.proxies.clone();
        let limits = ConnectionLimits::new(patience, per_address, proxies, state.clone(), Arc::clone(&measured));
        let server = runtime.block_on(async { listen(listener, shared, patience, limits, certificates.as_ref()) })?;
        if let Some(certificates) = certificates {
            runtime.spawn(certificates.follow());
        }
        let handle = server.handle();
        let server = runtime.spawn(server);
        let free_space = free_space::follow(&hub, &config.data_dir).context("cannot measure the free storage")?;
        let key_ring = live_keys::follow(&hub, Arc::clone(&stores.keys)).context("cannot follow the key ring")?;
        let live_streams = live_streams::follow(state.clone()).context("cannot follow what open pages show")?;
        let direct = Arc::clone(&measured);
        hub.on_direct_write(move |ended, took| {
            direct.operations.ran(OperationKind::SqlWrite, ended, took.as_secs_f64());
        });
        let pushes = Arc::clone(&measured);
        hub.on_push_phase(move |phase, took| pushes.remotes.pushed(phase, took));
        let exchange =
            metadata_exchange::start(&hub, &stores.metadata, &world.clock, &measured, config.metadata.listen)
                .context("cannot start the exchange with other servers")?;
        let home = match stores.home {
            Some(home) => {
                let keeping =
                    home.keep(config, &hub, &world.clock).context("cannot start the thread for copies of databases")?;
                // Before anything is leased.
                let watch = DrainWatch {
                    home: home.clone(),
                    node: node.clone(),
                    hub: hub.clone(),
                    state: state.clone(),
                    grace: config.server.shutdown_grace.duration(),
                };
                let drain_watch = watch.start()?;
                Some(OpenHome { home, keeping, drain_watch })
            }
            None => None,
        };
        let observer = Arc::new(BackgroundObserver::new(measured, traces.clone()));
        let options = BackgroundOptions { node, webhook_concurrency: config.hooks.concurrency, observer };
        let background = Background::start(&hub, options).context("cannot start the background threads")?;
        Ok(Self {
            hub,
            deployments,
            origin,
            public_url,
            state,
            background,
            free_space,
            key_ring,
            live_streams,
            exchange,
            fleet,
            leaves_instances: config.hosted.leaves(),
            engine: stores.engine,
            home,
            traces,
            shutdown_grace: config.server.shutdown_grace.duration(),
            hooks_grace: config.hooks.shutdown_grace.duration(),
            runtime,
            handle,
            server,
            metrics,
            lock,
        })
    }

    /// Returns the origin that the server listens on.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the URL of the metrics, or `None` if metrics are not served.
    pub fn metrics_address(&self) -> Option<String> {
        self.metrics.as_ref().map(|metrics| format!("http://{}/metrics", metrics.address))
    }

    /// Creates a single-use link with which the first user signs up and becomes the administrator. Returns `None` if a user
    /// exists.
    ///
    /// # Errors
    /// Fails if the metadata store fails.
    pub fn administrator_link(&self) -> anyhow::Result<Option<String>> {
        let minted = self.hub.invitations().administrator()?;
        let link = |secret: &str| format!("{}/sign-up?invitation={secret}", self.public_url);
        Ok(minted.map(|minted| link(minted.secret.expose())))
    }

    /// Watches for SIGTERM and SIGINT, which end the process at once until then. Call this before the address is announced:
    /// from then on, a supervisor may stop the server.
    ///
    /// # Errors
    /// Fails if the operating system refuses it.
    pub fn watch_signals(&self) -> anyhow::Result<StopSignals> {
        self.runtime.block_on(async { StopSignals::new() }).context("cannot watch for signals")
    }

    /// Serves until SIGTERM or SIGINT, then drains. A second signal, or the end of `server.shutdown_grace`, cuts the drain short.
    ///
    /// # Errors
    /// Fails if the HTTP server failed, or if another server runs under the id of this node, which ends this one too.
    pub fn until_stopped(self, mut signals: StopSignals) -> anyhow::Result<()> {
        let superseded = self.home.as_ref().map(|home| Arc::clone(&home.keeping.superseded));
        let is_superseded = self.runtime.block_on(async {
            let superseded = async {
                match &superseded {
                    Some(superseded) => superseded.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = signals.next() => false,
                () = superseded => true,
            }
        });
        if is_superseded {
            tracing::error!("another server runs under the id of this node (node_id); this one stops");
        }
        self.drain(Some(signals))?;
        anyhow::ensure!(
            !is_superseded,
            "another server runs under the id of this node; give each server an id of its own (node_id)"
        );
        Ok(())
    }

    /// Stops accepting connections and waits for requests and operations under way.
    ///
    /// # Errors
    /// Fails if the HTTP server failed.
    pub fn stop(self) -> anyhow::Result<()> {
        self.drain(None)
    }

    fn drain(self, signals: Option<StopSignals>) -> anyhow::Result<()> {
        self.state.draining.store(true, Ordering::Relaxed);
        let (hurry, mut hurried) = watch::channel(false);
        let (engine, grace) = (self.engine.clone(), self.shutdown_grace);
        let (cutoff, hooks_grace) = (self.background.cutoff(), self.hooks_grace);
        let after_grace = cutoff.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(hooks_grace).await;
            after_grace.iter().for_each(AttemptCutoff::end_attempts);
        });
        self.runtime.spawn(async move {
            let second = async {
                match signals {
                    Some(mut signals) => signals.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = second => tracing::info!("second signal: aborting requests in progress"),
                () = tokio::time::sleep(grace) => tracing::warn!(?grace, "aborting what did not end within server.shutdown_grace"),
            }
            cutoff.iter().for_each(AttemptCutoff::end_attempts);
            engine.close();
            hurry.send_replace(true);
            // Keeps the sender alive, so that receivers see the value instead of a closed channel.
            std::future::pending::<()>().await;
        });
        let (handle, server) = (self.handle, self.server);
        let in_haste = hurried.clone();
        self.runtime.block_on(async {
            let graceful = async {
                handle.stop(true).await;
                server.await.context("the server task panicked")?.context("the server failed")
            };
            tokio::select! {
                ended = graceful => ended,
                Ok(_) = hurried.wait_for(|hurried| *hurried) => Ok(()),
            }
        })?;
        self.background.stop(|| *in_haste.borrow());
        self.free_space.stop();
        self.key_ring.stop();
        self.live_streams.stop();
        drop(self.exchange);
        self.fleet.stop(self.leaves_instances, || *in_haste.borrow());
        if let Some(metrics) = self.metrics {
            self.runtime.block_on(metrics.handle.stop(false));
        }
        let patience = if *in_haste.borrow() { Duration::ZERO } else { Duration::from_secs(5) };
        // A call whose client has disconnected may still be running.
        let until = Instant::now() + patience;
        while !self.state.is_idle() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(OpenHome { home, keeping, drain_watch }) = self.home {
            drain_watch.stop();
            keeping.threads.into_iter().for_each(RepeatingThread::stop);
            home.release();
        }
        self.runtime.shutdown_timeout(until.saturating_duration_since(Instant::now()));
        self.traces.stop();
        Ok(())
    }
}

/// Ends what an earlier process of this node left under way.
fn recover_stores(stores: &Stores, node: &str) -> anyhow::Result<()> {
    stores.engine.clear_temporary().context("cannot remove the temporary files of the engine")?;
    stores.pushed_chunks.clear().context("cannot remove the chunks of former pushes")?;
    let recovered = recover(&stores.hub, node).context("cannot recover interrupted work")?;
    if recovered.operations > 0 {
        tracing::info!(operations = recovered.operations, "interrupted operations will run again");
    }
    if recovered.files > 0 {
        tracing::info!(files = recovered.files, "removed files that nothing refers to");
    }
    Ok(())
}

/// The store of databases, with the threads that attend to it.
struct OpenHome {
    home: DurableHome,
    keeping: Housekeeping,
    drain_watch: RepeatingThread,
}

/// State that the request handlers share.
struct ServerParts {
    state: AppState,
    alpha: branchyard_api_v1alpha1::LegacySettings,
    hosted: branchyard_api_hosted_v1::Settings,
    /// The scheme of the listener.
    scheme: &'static str,
    metrics: Arc<Metrics>,
    log: RequestLog,
    /// Number of threads that serve requests.
    threads: usize,
    /// The proxy of deployments; `None` if the gateway is disabled.
    proxy: Option<DeploymentProxy>,
    /// The calls between this node and others; `None` if there are none.
    calls: Option<web::Data<NodeCalls>>,
    home: Option<DurableHome>,
    /// Deadline for requests under way once the server drains.
    shutdown_grace: Duration,
}

fn listen(
    listener: TcpListener,
    shared: ServerParts,
    patience: ProgressTimeouts,
    limits: ConnectionLimits,
    certificates: Option<&Arc<Certificates>>,
) -> std::io::Result<Server> {
    let ServerParts { state, alpha, hosted, scheme, metrics, log, threads, proxy, calls, home, shutdown_grace } =
        shared;
    let remotes = web::Data::new(Arc::new(metrics.remotes.clone()) as Arc<dyn RemoteObserver>);
    let (metrics, log) = (web::Data::new(metrics), web::Data::new(log));
    let references = web::Data::new(references(&state.config.public_url, &hosted.base_url));
    let origins = OriginCheck::new(&state.config.public_url, &hosted.base_url, scheme, state.config.proxies.clone());
    let origins = web::Data::new(origins);
    let head_bytes = state.config.max_head_bytes;
    let oauth = OAuthEndpoints::default();
    let application = move || {
        App::new()
            .wrap(from_fn(head_limit))
            .app_data(web::Data::new(state.clone()))
            .app_data(web::Data::new(alpha.clone()))
            .app_data(web::Data::new(hosted.clone()))
            .app_data(metrics.clone())
            .app_data(log.clone())
            .app_data(remotes.clone())
            .app_data(references.clone())
            .app_data(origins.clone())
            .wrap(from_fn(origin_check::check))
            .wrap(from_fn(metrics::count))
            .wrap(from_fn(connections::note))
            .wrap(from_fn(log_request))
            .configure(|config| {
                if let Some(proxy) = &proxy {
                    proxy.configure(config);
                }
            })
            .configure(branchyard_api_v2::configure)
            .configure(branchyard_api_v1alpha1::configure)
            .configure(branchyard_api_hosted_v1::configure)
            .configure(|config| oauth.configure(config))
            .configure(branchyard_api_remotes::configure)
            .configure(|config| node_calls::configure(config, calls.as_ref(), home.as_ref()))
            .configure(unknown_api_paths)
            .configure(health::configure)
            .configure(branchyard_web::configure)
    };
    let room = connections::room(threads);
    if let Some(certificates) = certificates {
        let shared = Limits {
            workers: threads,
            connections_per_worker: room,
            http1_keep_alive: connections::REMOTE_KEEP_ALIVE,
            http2_keep_alive: connections::KEEP_ALIVE,
            head: patience.head,
            head_bytes,
            write: patience.write,
            linger: connections::LINGER,
            shutdown_grace,
        };
        let admit = move |stream: &TcpStream, data: &mut Extensions| connections::admit(stream, data, &limits);
        return branchyard_https::listen(listener, Arc::clone(certificates), shared, application, admit);
    }
    let server = HttpServer::new(application)
        .workers(threads)
        .max_connections(room)
        // The watchdog of connections ends most of them earlier.
        .keep_alive(connections::REMOTE_KEEP_ALIVE)
        // A client that closes its sending side counts as gone, so that its requests are canceled (SQL reads above all).
        .h1_allow_half_closed(false)
        .client_request_timeout(patience.head)
        // Lets a client that is rejected while it still sends read the response.
        .client_disconnect_timeout(connections::LINGER)
        .on_connect(move |stream, extensions| {
            if let Some(stream) = stream.downcast_ref::<TcpStream>() {
                connections::admit_or_answer(stream, extensions, &limits);
            }
        })
        .shutdown_timeout(shutdown_grace.as_secs())
        .disable_signals()
        .listen(listener)?;
    Ok(server.run())
}

/// Returns the API reference pages and the origin of each API.
fn references(public: &str, hosted: &str) -> Vec<Reference> {
    use {branchyard_api_hosted_v1 as hosted_v1, branchyard_api_v1alpha1 as v1alpha1, branchyard_api_v2 as v2};
    vec![
        Reference::new("v2", v2::openapi, v2::BASE, public.to_owned()),
        Reference::new("v1alpha1", v1alpha1::openapi, v1alpha1::BASE, public.to_owned()),
        Reference::new("hosted-v1", hosted_v1::openapi, hosted_v1::BASE, hosted.to_owned()),
    ]
}

/// The streams of SIGTERM and SIGINT. Keeping one value alive ensures that no signal is lost between two waits.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Watches from now on. Has to be called within a runtime.
    ///
    /// # Errors
    /// Fails if the operating system refuses it.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
