//! The state that all handlers share.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpRequest;
use tokio::sync::Semaphore;

use crate::answer_budget::answer_budget;
use crate::caller::address_of;
use crate::config::{HttpConfig, QUEUED_READS_PER_CALLER};
use crate::idempotency::InFlight;
use crate::keys::ServerKeys;
use crate::last_use::LastUses;
use crate::live_streams::LiveStreams;
use crate::made_files::MadeFiles;
use crate::rate::Rates;
use crate::results::Results;
use crate::services::Services;
use branchyard_executor::{BodyBudget, CallerKey, FairShares, Pool};

/// Maximum bytes of a form of the pages. Fits statements of one megabyte, most of whose bytes take three bytes each when
/// percent-encoded.
pub const MAX_FORM_BYTES: usize = 4 << 20;

/// The state that all handlers share. Cheap to clone. A process has one, shared by all workers.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// The fields of [`AppState`].
pub struct Shared {
    /// The domain services.
    pub services: Services,
    /// Pool for lookups.
    pub reads: Pool,
    /// Pool for changes.
    pub writes: Pool,
    /// Pool for parts of uploads, each of which waits for its client.
    pub uploads: Pool,
    /// Pool for SQL reads, shared fairly among callers.
    pub sql: Pool,
    /// Pool for the chunks of remotes.
    pub remotes: Pool,
    /// Room for the chunks of answers that are being sent, in KiB.
    pub remote_kib: Arc<Semaphore>,
    /// Cache for results of SQL reads.
    pub results: Results,
    /// Files that were made for downloads.
    pub made_files: MadeFiles,
    /// Keys for tokens, signatures and entity tags.
    pub keys: ServerKeys,
    /// The configuration.
    pub config: HttpConfig,
    /// Whether the server is shutting down. Long polls then end at once.
    pub draining: AtomicBool,
    /// Whether an administrator drained this node of a cluster. Requests are served, and no new ones should be sent here.
    pub drained: AtomicBool,
    /// The streams that tell open pages when to look again.
    pub live: LiveStreams,
    /// Memory budget of request bodies.
    pub bodies: Arc<BodyBudget>,
    /// Memory budget of long responses that are being sent.
    pub answers: Arc<BodyBudget>,
    pub(crate) in_flight: InFlight,
    pub(crate) last_uses: LastUses,
    pub(crate) rates: Rates,
}

impl AppState {
    /// Creates the state. Create one and clone it for each worker.
    pub fn new(services: Services, config: HttpConfig, keys: ServerKeys) -> Self {
        let pools = &config.pools;
        let pool = |size| Pool::new(size, pools.queue, pools.wait);
        let sql = &config.sql;
        Self(Arc::new(Shared {
            reads: pool(pools.reads),
            writes: pool(pools.writes),
            uploads: pool(pools.uploads),
            sql: Pool::new(sql.max_concurrent_reads, sql.read_queue_length, sql.read_queue_wait)
                .computing(sql.max_computing_reads)
                .shared_fairly(FairShares {
                    while_others_wait: sql.max_concurrent_reads_per_caller,
                    queued: QUEUED_READS_PER_CALLER,
                }),
            remotes: Pool::new(config.remotes.max_concurrent, pools.queue, config.remotes.hold)
                .computing(sql.max_computing_reads),
            remote_kib: Arc::new(Semaphore::new(config.max_bytes_in_flight >> 10)),
            results: Results::new(sql.result_cache_bytes),
            made_files: MadeFiles::default(),
            services,
            keys,
            draining: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            live: LiveStreams::new(config.live_connections),
            bodies: BodyBudget::new(config.max_bytes_in_flight, config.max_json_body_bytes.max(MAX_FORM_BYTES)),
            answers: answer_budget(config.max_bytes_in_flight, config.sql.max_response_bytes),
            in_flight: InFlight::default(),
            rates: Rates::new(config.rate_limits.as_ref()),
            last_uses: LastUses::new(config.token_use_seconds),
            config,
        }))
    }

    /// Returns `true` if no blocking call is running, including calls whose request has ended.
    pub fn is_idle(&self) -> bool {
        [&self.reads, &self.writes, &self.uploads, &self.sql, &self.remotes].iter().all(|pool| pool.is_idle())
    }
}

impl AppState {
    /// Returns `true` if the server is shutting down, or if an administrator has drained its node. Nothing that takes long should start then.
    pub fn is_stopping(&self) -> bool {
        self.draining.load(Ordering::Relaxed) || self.drained.load(Ordering::Relaxed)
    }

    /// Returns the network address of the client. Takes the reports of trusted proxies into account.
    pub fn client_address(&self, request: &HttpRequest) -> Option<IpAddr> {
        address_of(self, request)
    }

    /// Returns the key by which limits count a client before it is authenticated.
    pub fn address_key(&self, request: &HttpRequest) -> CallerKey {
        CallerKey::of_address(self.client_address(request))
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
