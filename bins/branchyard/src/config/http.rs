//! Configuration of HTTP, CORS, pagination, idempotency, and rate limits.

use std::time::Duration;

use anyhow::bail;
use branchyard_http_common::{ForwardedHeader, HttpConfig, Proxies, RateLimits, SqlLimits};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::list::list;
use super::{Config, Span};

/// HTTP limits and reverse proxies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Maximum size of a JSON body in bytes.
    pub max_json_body_bytes: usize,
    /// Memory budget in bytes for all request bodies in memory.
    pub max_bytes_in_flight: usize,
    /// Maximum number of connections of a client address; 0 means no limit.
    pub max_connections_per_address: usize,
    /// Maximum size in bytes of a request line and its headers.
    pub max_head_bytes: usize,
    /// Deadline in milliseconds for receiving the request line and headers.
    pub head_timeout_ms: u64,
    /// Maximum time in milliseconds in which a client reads nothing of a response. Slower clients are disconnected.
    pub write_stall_ms: u64,
    /// Networks of the reverse proxies in front of the server.
    #[serde(deserialize_with = "list")]
    pub trusted_proxies: Vec<String>,
    /// Header in which the proxies name the client.
    pub forwarded_header: String,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            max_json_body_bytes: 2 << 20,
            max_bytes_in_flight: 64 << 20,
            max_connections_per_address: 256,
            max_head_bytes: 128 << 10,
            head_timeout_ms: 15_000,
            write_stall_ms: 30_000,
            trusted_proxies: Vec::new(),
            forwarded_header: "x-forwarded-for".to_owned(),
        }
    }
}

/// Cross-origin requests (CORS).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cors {
    /// Origins whose pages may call the API; `*` allows all. If empty, responses have no CORS headers.
    #[serde(deserialize_with = "list")]
    pub allowed_origins: Vec<String>,
}

/// Pagination of lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pagination {
    /// Page size if the request names none.
    pub default_page_size: usize,
    /// Maximum page size in items.
    pub max_page_size: usize,
    /// Size in bytes at which a page is cut off.
    pub max_page_bytes: usize,
}

impl Default for Pagination {
    fn default() -> Self {
        Self { default_page_size: 30, max_page_size: 100, max_page_bytes: 8 << 20 }
    }
}

/// Idempotency keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Idempotency {
    /// Retention of recorded responses.
    pub ttl: Span,
}

impl Default for Idempotency {
    fn default() -> Self {
        Self { ttl: Span::seconds(86_400) }
    }
}

/// Rate limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimit {
    /// Whether rate limits apply.
    pub enabled: bool,
    /// Maximum number of requests of a user per hour; 0 means no limit.
    pub user_per_hour: u32,
    /// Maximum number of requests without a credential per minute and address; 0 means no limit.
    pub anonymous_per_minute: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { enabled: true, user_per_hour: 0, anonymous_per_minute: 600 }
    }
}

impl Http {
    /// Returns the trusted proxies and the header in which they name the client.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub(super) fn proxies(&self) -> anyhow::Result<Proxies> {
        let mut trusted = Vec::new();
        for text in &self.trusted_proxies {
            // Accepts a bare address as a network of one.
            let network = text.parse::<IpNet>().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
            match network {
                Ok(network) => trusted.push(network),
                Err(_) => bail!(
                    "configuration: http.trusted_proxies holds '{text}'; write networks as 10.0.0.0/8 or fd00::/8, or addresses"
                ),
            }
        }
        let header = match self.forwarded_header.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => ForwardedHeader::XForwardedFor,
            "forwarded" => ForwardedHeader::Forwarded,
            other => {
                bail!(
                    "configuration: http.forwarded_header is '{other}'; it must be \"x-forwarded-for\" or \"forwarded\""
                )
            }
        };
        Ok(Proxies { trusted, header })
    }
}

impl Cors {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for origin in self.allowed_origins.iter().filter(|origin| *origin != "*") {
            if !super::is_origin(origin) || origin.splitn(4, '/').count() > 3 {
                bail!(
                    "configuration: cors.allowed_origins holds '{origin}'; write origins as https://host, without a path, or \"*\""
                );
            }
        }
        Ok(())
    }
}

impl Config {
    /// Returns the settings of the HTTP adapters for a server reached at `public_url`.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn http_config(&self, public_url: String) -> anyhow::Result<HttpConfig> {
        let mut http = HttpConfig::new(public_url);
        if let Some(errors_url) = &self.errors_url {
            http.errors_url.clone_from(errors_url);
        }
        http.allowed_origins.clone_from(&self.cors.allowed_origins);
        http.max_json_body_bytes = self.http.max_json_body_bytes;
        http.max_bytes_in_flight = self.http.max_bytes_in_flight;
        http.max_head_bytes = self.http.max_head_bytes;
        http.proxies = self.http.proxies()?;
        http.rate_limits = self.rate_limit.enabled.then_some(RateLimits {
            user_per_hour: self.rate_limit.user_per_hour,
            anonymous_per_minute: self.rate_limit.anonymous_per_minute,
            is_shared: self.store_url.is_some(),
        });
        http.default_page_size = self.pagination.default_page_size;
        http.max_page_size = self.pagination.max_page_size;
        http.max_page_bytes = self.pagination.max_page_bytes;
        http.part_url_seconds = self.imports.url_ttl.as_seconds();
        http.token_use_seconds = self.tokens.last_used_interval.as_seconds();
        http.pools = self.pools.sizes();
        http.live_connections = self.web.live_connections;
        http.remotes = self.remotes.limits();
        http.sample_script = include_str!("../../sample-data/trees.sql");
        http.sql = SqlLimits {
            default_limit: self.sql.default_limit,
            row_cap: self.sql.row_cap,
            default_timeout_ms: self.sql.default_timeout_ms,
            timeout_cap_ms: self.sql.timeout_cap_ms,
            max_response_bytes: self.sql.max_response_bytes,
            result_cache_bytes: self.sql.result_cache_bytes,
            max_statement_bytes: self.sql.max_statement_bytes,
            max_statement_bytes_get: self.sql.max_statement_bytes_get,
            max_concurrent_reads: self.sql.concurrent_reads(self.operations.writers()),
            max_computing_reads: match self.sql.max_computing_reads {
                0 => SqlLimits::default().max_computing_reads,
                some => some,
            },
            max_concurrent_reads_per_caller: self.sql.max_concurrent_reads_per_caller,
            read_queue_length: self.sql.read_queue_length,
            read_queue_wait: Duration::from_millis(self.sql.read_queue_wait_ms),
            stream_stall: Duration::from_millis(self.sql.stream_stall_ms),
        };
        Ok(http)
    }
}
