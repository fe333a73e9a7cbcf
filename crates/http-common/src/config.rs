//! What the HTTP side can be told. The names in the configuration file are in the contract (v2 §8).

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::rate::SignInLimits;

/// How many requests a caller may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests of a user per hour, over all their tokens; 0 = no limit.
    pub user_per_hour: u32,
    /// Requests without a credential per minute and address (IPv6: per /64); 0 = no limit.
    pub anonymous_per_minute: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { user_per_hour: 0, anonymous_per_minute: 600 }
    }
}

/// The header in which trusted proxies say for whom they forward. Only one is believed: a proxy that sets one of them passes
/// the other on as the client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239)
    Forwarded,
}

/// Proxies in front of the server.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// Networks whose word is believed; none by default.
    pub trusted: Vec<IpNet>,
    /// What they say it in.
    pub header: ForwardedHeader,
}

impl Proxies {
    /// Returns `true` if the address is a trusted proxy's.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// How long clients may take to send.
#[derive(Debug, Clone)]
pub struct BodyTimeouts {
    /// For a whole body that is read into memory.
    pub body: Duration,
    /// Before the pace counts.
    pub grace: Duration,
    /// Bytes per second of any body on average, once `grace` has passed.
    pub bytes_per_second: u64,
    /// Without a byte of a body that is passed on as it arrives.
    pub stall: Duration,
}

impl Default for BodyTimeouts {
    fn default() -> Self {
        let (body, stall) = (Duration::from_secs(30), Duration::from_secs(30));
        Self { body, grace: Duration::from_secs(5), bytes_per_second: 1 << 10, stall }
    }
}

/// Limits of SQL reads over HTTP.
#[derive(Debug, Clone)]
pub struct SqlLimits {
    /// Rows when the request does not say.
    pub default_limit: u64,
    /// Rows at most, whatever the request says.
    pub row_cap: u64,
    /// Milliseconds when the request does not say.
    pub default_timeout_ms: u64,
    /// Milliseconds at most.
    pub timeout_cap_ms: u64,
    /// Bytes of a JSON answer.
    pub max_response_bytes: usize,
    /// Bytes of results that are kept, to answer the same read at the same commit again; 0 = none.
    pub result_cache_bytes: u64,
    /// Bytes of a statement in a body.
    pub max_statement_bytes: usize,
    /// Bytes of a statement in a query string.
    pub max_statement_bytes_get: usize,
    /// Reads at once, over all callers, also those that wait for their client.
    pub max_concurrent_reads: usize,
    /// Of them, those that compute at once.
    pub max_computing_reads: usize,
    /// Reads at once of one caller, or of one address without a credential.
    pub max_concurrent_reads_per_caller: usize,
    /// Reads waiting for one of those places.
    pub read_queue_length: usize,
    /// How long one waits.
    pub read_queue_wait: Duration,
    /// How long a client may take nothing of a streamed result.
    pub stream_stall: Duration,
}

impl Default for SqlLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            default_limit: 1_000,
            row_cap: 10_000,
            default_timeout_ms: 30_000,
            timeout_cap_ms: 60_000,
            max_response_bytes: 15 << 20,
            result_cache_bytes: 16 << 20,
            max_statement_bytes: 1 << 20,
            max_statement_bytes_get: 32 << 10,
            max_concurrent_reads: 64,
            max_computing_reads: 2 * cores,
            max_concurrent_reads_per_caller: 8,
            read_queue_length: 256,
            read_queue_wait: Duration::from_secs(5),
            stream_stall: Duration::from_secs(30),
        }
    }
}

/// Sizes of the pools that blocking calls run on.
#[derive(Debug, Clone)]
pub struct PoolSizes {
    /// Look-ups at once.
    pub reads: usize,
    /// Changes at once.
    pub writes: usize,
    /// Parts of uploads at once; each waits for its client.
    pub uploads: usize,
    /// Calls waiting for a place, per pool.
    pub queue: usize,
    /// How long one waits.
    pub wait: Duration,
}

impl Default for PoolSizes {
    fn default() -> Self {
        Self { reads: 32, writes: 16, uploads: 64, queue: 1_024, wait: Duration::from_secs(5) }
    }
}

/// Everything the HTTP side can be told.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Origin that clients use, without a slash at the end.
    pub public_url: String,
    /// Where the pages of the error codes are.
    pub errors_url: String,
    /// Origins that browsers may call from; `*` = all; none = no CORS headers.
    pub allowed_origins: Vec<String>,
    /// Bytes of a JSON request body.
    pub max_json_body_bytes: usize,
    /// Bytes of all bodies that are read into memory at once.
    pub max_bytes_in_flight: usize,
    /// Bytes of a request line with its headers.
    pub max_head_bytes: usize,
    /// Requests of a caller; `None` = limits are off.
    pub rate_limits: Option<RateLimits>,
    /// Attempts to sign in.
    pub sign_ins: SignInLimits,
    /// Proxies in front of the server.
    pub proxies: Proxies,
    /// How long clients may take to send.
    pub patience: BodyTimeouts,
    /// Items of a page when the request does not say.
    pub default_page_size: usize,
    /// Items of a page at most.
    pub max_page_size: usize,
    /// Both of the above for forks and comments, whose published clients read one page only.
    pub long_page_size: usize,
    /// Bytes at which a page is cut.
    pub max_page_bytes: usize,
    /// Seconds a part URL is good for.
    pub part_url_seconds: i64,
    /// Seconds between two notes of a token's last use.
    pub token_use_seconds: i64,
    /// SQL reads.
    pub sql: SqlLimits,
    /// Pools.
    pub pools: PoolSizes,
}

impl HttpConfig {
    /// The defaults for a server reached at `public_url`.
    pub fn new(public_url: String) -> Self {
        let public_url = public_url.trim_end_matches('/').to_owned();
        Self {
            errors_url: format!("{public_url}/docs/errors"),
            public_url,
            allowed_origins: Vec::new(),
            max_json_body_bytes: 2 << 20,
            max_bytes_in_flight: 64 << 20,
            max_head_bytes: 128 << 10,
            rate_limits: Some(RateLimits::default()),
            sign_ins: SignInLimits::default(),
            proxies: Proxies::default(),
            patience: BodyTimeouts::default(),
            default_page_size: 30,
            max_page_size: 100,
            long_page_size: 1_000,
            max_page_bytes: 8 << 20,
            part_url_seconds: 600,
            token_use_seconds: 30,
            sql: SqlLimits::default(),
            pools: PoolSizes::default(),
        }
    }
}
