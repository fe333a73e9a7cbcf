//! The configuration of the HTTP side. The contract (v2 §8) specifies the names in the configuration file.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// Request quotas of one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests of a user per hour over all the user's tokens; 0 disables the limit.
    pub user_per_hour: u32,
    /// Requests without a credential per minute and address (IPv6: per /64); 0 disables the limit.
    pub anonymous_per_minute: u32,
    /// Whether several servers count the requests of users together. They then exceed the limit by a tenth at most, as long as there are
    /// no more than 16 of them.
    pub is_shared: bool,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { user_per_hour: 0, anonymous_per_minute: 600, is_shared: false }
    }
}

/// The header in which trusted proxies report the client's address. Only one header is trusted: a proxy that sets one of them
/// passes the other on as the client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Proxies in front of the server.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// Networks whose reports are trusted; none by default.
    pub trusted: Vec<IpNet>,
    /// The header that carries their reports.
    pub header: ForwardedHeader,
}

impl Proxies {
    /// Returns `true` if the address belongs to a trusted proxy.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// Time limits for request bodies.
#[derive(Debug, Clone)]
pub struct BodyTimeouts {
    /// Deadline of a body that is read into memory.
    pub body: Duration,
    /// Time before `bytes_per_second` applies.
    pub grace: Duration,
    /// Minimum average rate of any body after `grace`.
    pub bytes_per_second: u64,
    /// Maximum pause of a body that is passed on as it arrives.
    pub stall: Duration,
}

impl Default for BodyTimeouts {
    fn default() -> Self {
        let (body, stall) = (Duration::from_secs(30), Duration::from_secs(30));
        Self { body, grace: Duration::from_secs(5), bytes_per_second: 1 << 10, stall }
    }
}

/// Limits of SQL reads.
#[derive(Debug, Clone)]
pub struct SqlLimits {
    /// Row limit of a request without one.
    pub default_limit: u64,
    /// Maximum row limit of a request.
    pub row_cap: u64,
    /// Timeout in milliseconds of a request without one.
    pub default_timeout_ms: u64,
    /// Maximum timeout in milliseconds of a request.
    pub timeout_cap_ms: u64,
    /// Maximum bytes of a JSON response.
    pub max_response_bytes: usize,
    /// Bytes of the cache for results of a read at a commit; 0 disables the cache.
    pub result_cache_bytes: u64,
    /// Maximum bytes of a statement in a request body.
    pub max_statement_bytes: usize,
    /// Maximum bytes of a statement in a query string.
    pub max_statement_bytes_get: usize,
    /// Maximum concurrent reads of all callers that are not slow, including reads that wait for their client. A caller's share is
    /// this number divided by the number of active callers.
    pub max_concurrent_reads: usize,
    /// Maximum reads that compute at the same time.
    pub max_computing_reads: usize,
    /// Maximum concurrent reads of one caller, or of one address without a credential, while reads of other callers wait.
    pub max_concurrent_reads_per_caller: usize,
    /// Maximum reads in the queue.
    pub read_queue_length: usize,
    /// Maximum time in the queue.
    pub read_queue_wait: Duration,
    /// Maximum time for which the client of a streamed result may read nothing.
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

/// Maximum reads of one caller in the queue.
pub const QUEUED_READS_PER_CALLER: usize = 64;

/// Limits of remotes.
#[derive(Debug, Clone)]
pub struct RemoteLimits {
    /// Whether databases can be cloned, fetched and pushed to.
    pub enabled: bool,
    /// Maximum concurrent requests for chunks.
    pub max_concurrent: usize,
    /// Maximum time that a request waits, for its turn or for a push, before it is answered 503.
    pub hold: Duration,
    /// Maximum number of bytes of an uploaded chunk.
    pub max_chunk_bytes: usize,
    /// Names of hosts, besides that of the public address, for which clients of the engine make credentials.
    pub extra_audiences: Vec<String>,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            max_concurrent: 32,
            hold: Duration::from_secs(20),
            max_chunk_bytes: 64 << 20,
            extra_audiences: Vec::new(),
        }
    }
}

/// Sizes of the pools that run blocking calls.
#[derive(Debug, Clone)]
pub struct PoolSizes {
    /// Maximum concurrent lookups.
    pub reads: usize,
    /// Maximum concurrent changes.
    pub writes: usize,
    /// Maximum concurrent parts of uploads. Each waits for its client.
    pub uploads: usize,
    /// Maximum queued calls per pool.
    pub queue: usize,
    /// Maximum time in the queue.
    pub wait: Duration,
}

impl Default for PoolSizes {
    fn default() -> Self {
        Self { reads: 32, writes: 16, uploads: 64, queue: 1_024, wait: Duration::from_secs(5) }
    }
}

/// The configuration of the HTTP side.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Public origin of the server, without a trailing slash.
    pub public_url: String,
    /// Base address of the error codes' pages.
    pub errors_url: String,
    /// Origins that may use the API from a browser (CORS). `*` allows all; an empty list sends no CORS headers.
    pub allowed_origins: Vec<String>,
    /// Maximum bytes of a JSON request body.
    pub max_json_body_bytes: usize,
    /// Maximum bytes of all request bodies in memory. A second budget of this size holds long responses.
    pub max_bytes_in_flight: usize,
    /// Maximum bytes of a request line with its headers.
    pub max_head_bytes: usize,
    /// Request quotas; `None` disables rate limits.
    pub rate_limits: Option<RateLimits>,
    /// Proxies in front of the server.
    pub proxies: Proxies,
    /// Time limits for request bodies.
    pub patience: BodyTimeouts,
    /// Page size of a request without one.
    pub default_page_size: usize,
    /// Maximum page size of a request.
    pub max_page_size: usize,
    /// Default and maximum page size of forks and comments, whose published clients read one page only.
    pub long_page_size: usize,
    /// Bytes at which a page is cut.
    pub max_page_bytes: usize,
    /// Lifetime of a part's URL in seconds.
    pub part_url_seconds: i64,
    /// Minimum seconds between two recordings of a token's last use.
    pub token_use_seconds: i64,
    /// Limits of SQL reads.
    pub sql: SqlLimits,
    /// Limits of remotes.
    pub remotes: RemoteLimits,
    /// Sizes of the pools.
    pub pools: PoolSizes,
    /// Statements that fill an empty database with sample data. Pages offer none if it is empty.
    pub sample_script: &'static str,
    /// Maximum number of streams to open pages; 0 means that pages poll.
    pub live_connections: usize,
}

impl HttpConfig {
    /// Returns `true` if clients reach the server over https.
    pub fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }

    /// Returns the default configuration of a server reached at `public_url`.
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
            proxies: Proxies::default(),
            patience: BodyTimeouts::default(),
            default_page_size: 30,
            max_page_size: 100,
            long_page_size: 1_000,
            max_page_bytes: 8 << 20,
            part_url_seconds: 600,
            token_use_seconds: 30,
            sql: SqlLimits::default(),
            remotes: RemoteLimits::default(),
            pools: PoolSizes::default(),
            sample_script: "",
            live_connections: 1_000,
        }
    }
}
