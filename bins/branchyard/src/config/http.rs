//! The sections that say how the server speaks HTTP.

use std::time::Duration;

use anyhow::bail;
use branchyard_http_common::{ForwardedHeader, HttpConfig, Proxies, RateLimits, SqlLimits};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::list::list;
use super::{Config, Span};

/// HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Bytes of a JSON body.
    pub max_json_body_bytes: usize,
    /// Bytes of all bodies that are read into memory at once.
    pub max_bytes_in_flight: usize,
    /// Connections of an address; 0 = no limit.
    pub max_connections_per_address: usize,
    /// Bytes of a request line with its headers.
    pub max_head_bytes: usize,
    /// Milliseconds a client may take for them.
    pub head_timeout_ms: u64,
    /// Milliseconds a client may take nothing of what it is sent.
    pub write_stall_ms: u64,
    /// Networks of the reverse proxies in front of the server.
    #[serde(deserialize_with = "list")]
    pub trusted_proxies: Vec<String>,
    /// The header in which they name the client.
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

/// Calls from browsers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cors {
    /// Origins that may call; `*` = all; none = no CORS headers.
    #[serde(deserialize_with = "list")]
    pub allowed_origins: Vec<String>,
}

/// Pages of lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pagination {
    /// Items of a page when the request does not say.
    pub default_page_size: usize,
    /// Items of a page at most.
    pub max_page_size: usize,
    /// Bytes at which a page is cut.
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
    /// How long answers are kept.
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
    /// Whether there are any.
    pub enabled: bool,
    /// Requests of a user per hour; 0 = no limit.
    pub user_per_hour: u32,
    /// Requests without a credential per minute and address; 0 = no limit.
    pub anonymous_per_minute: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { enabled: true, user_per_hour: 0, anonymous_per_minute: 600 }
    }
}

impl Http {
    /// The proxies whose word is believed.
    ///
    /// # Errors
    /// Names the key.
    pub(super) fn proxies(&self) -> anyhow::Result<Proxies> {
        let mut trusted = Vec::new();
        for text in &self.trusted_proxies {
            // A bare address is a network of one.
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
                bail!("configuration: http.forwarded_header is '{other}'; it is \"x-forwarded-for\" or \"forwarded\"")
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
    /// What the HTTP side is told, for a server reached at `public_url`.
    ///
    /// # Errors
    /// Names the key that is wrong.
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
        http.sign_ins = self.web.sign_ins();
        http.rate_limits = self.rate_limit.enabled.then_some(RateLimits {
            user_per_hour: self.rate_limit.user_per_hour,
            anonymous_per_minute: self.rate_limit.anonymous_per_minute,
        });
        http.default_page_size = self.pagination.default_page_size;
        http.max_page_size = self.pagination.max_page_size;
        http.max_page_bytes = self.pagination.max_page_bytes;
        http.part_url_seconds = self.imports.url_ttl.as_seconds();
        http.token_use_seconds = self.tokens.last_used_interval.as_seconds();
        http.pools = self.pools.sizes();
        http.sql = SqlLimits {
            default_limit: self.sql.default_limit,
            row_cap: self.sql.row_cap,
            default_timeout_ms: self.sql.default_timeout_ms,
            timeout_cap_ms: self.sql.timeout_cap_ms,
            max_response_bytes: self.sql.max_response_bytes,
            result_cache_bytes: self.sql.result_cache_bytes,
            max_statement_bytes: self.sql.max_statement_bytes,
            max_statement_bytes_get: self.sql.max_statement_bytes_get,
            max_concurrent_reads: self.sql.max_concurrent_reads,
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
