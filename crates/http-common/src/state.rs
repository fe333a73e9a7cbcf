//! What all handlers share.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix_web::HttpRequest;

use crate::answer_budget::answer_budget;
use crate::caller::address_of;
use crate::config::HttpConfig;
use crate::idempotency::InFlight;
use crate::keys::ServerKeys;
use crate::last_use::LastUses;
use crate::rate::{Attempts, Rates};
use crate::results::Results;
use crate::services::Services;
use branchyard_executor::BodyBudget;
use branchyard_executor::CallerKey;
use branchyard_executor::ConcurrencyLimiter;
use branchyard_executor::Pool;

/// Bytes of a form of a page: a megabyte of statements, most of whose bytes take three in a form.
pub const MAX_FORM_BYTES: usize = 4 << 20;

/// What all handlers share. Cheap to clone; one per process, also when there are many workers.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// The parts of [`AppState`].
pub struct Shared {
    /// The domains.
    pub hub: Services,
    /// Pool for look-ups.
    pub reads: Pool,
    /// Pool for changes.
    pub writes: Pool,
    /// Pool for parts of uploads, which wait for their clients.
    pub uploads: Pool,
    /// Pool for SQL reads.
    pub sql: Pool,
    /// Counts SQL reads per caller.
    pub sql_slots: ConcurrencyLimiter,
    /// Results of SQL reads.
    pub results: Results,
    /// Keys.
    pub keys: ServerKeys,
    /// Limits and addresses.
    pub config: HttpConfig,
    /// Whether the server is about to end: nobody is to be kept waiting.
    pub draining: AtomicBool,
    /// Memory of the bodies of requests.
    pub bodies: Arc<BodyBudget>,
    /// Memory of long answers that are being sent.
    pub answers: Arc<BodyBudget>,
    pub(crate) in_flight: InFlight,
    pub(crate) last_uses: LastUses,
    pub(crate) rates: Rates,
    /// Counts attempts to sign in.
    pub sign_ins: Attempts,
}

impl AppState {
    /// Over the domains; make one and clone it for each worker.
    pub fn new(hub: Services, config: HttpConfig, keys: ServerKeys) -> Self {
        let pools = &config.pools;
        let pool = |size| Pool::new(size, pools.queue, pools.wait);
        let sql = &config.sql;
        Self(Arc::new(Shared {
            reads: pool(pools.reads),
            writes: pool(pools.writes),
            uploads: pool(pools.uploads),
            sql: Pool::new(sql.max_concurrent_reads, sql.read_queue_length, sql.read_queue_wait)
                .computing(sql.max_computing_reads),
            results: Results::new(sql.result_cache_bytes),
            sql_slots: ConcurrencyLimiter::new(sql.max_concurrent_reads_per_caller),
            hub,
            keys,
            draining: AtomicBool::new(false),
            bodies: BodyBudget::new(config.max_bytes_in_flight, config.max_json_body_bytes.max(MAX_FORM_BYTES)),
            answers: answer_budget(config.max_bytes_in_flight, config.sql.max_response_bytes),
            in_flight: InFlight::default(),
            sign_ins: Attempts::new(config.sign_ins),
            rates: Rates::new(config.rate_limits.as_ref()),
            last_uses: LastUses::new(config.token_use_seconds),
            config,
        }))
    }

    /// Whether no blocking call is under way, whoever waits for it.
    pub fn is_idle(&self) -> bool {
        [&self.reads, &self.writes, &self.uploads, &self.sql].iter().all(|pool| pool.is_idle())
    }
}

impl AppState {
    /// The network address of the client, as far as proxies that are trusted tell it.
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
