//! Configuration. Sources, each overriding those before it: defaults, the file, `BRANCHYARD_*` environment variables (`__`
//! separates sections), and flags. Unknown keys are errors that name their source.

mod hooks;
mod hosted;
mod http;
mod list;
mod log;
mod machine;
mod pools;
mod ranges;
mod span;
mod tls;
mod unknown;
mod v1alpha1;
mod web;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_domain::usecases::Limits;
use branchyard_executor::SlowPlaces;
use figment::Figment;
use figment::providers::{Env, Format as _, Serialized, Toml};
use serde::{Deserialize, Serialize};

use crate::cli;

/// Upper limit of `sql.workers`.
pub(crate) const MOST_WORKERS: usize = 64;

pub use hooks::HooksConfig;
pub use hosted::Hosted;
pub use http::{Cors, Http, Idempotency, Pagination, RateLimit};
pub use log::{LogConfig, LogFormat, OtlpConfig};
pub use pools::Pools;
pub use span::Span;
pub use tls::TlsConfig;
pub use v1alpha1::V1alpha1;
pub use web::Web;

/// The complete configuration. `docs/configuration.md` describes each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder that holds all server state.
    pub data_dir: PathBuf,
    /// Address and port to listen on.
    pub listen: String,
    /// Public origin. If absent, derived from the listen address.
    pub public_url: Option<String>,
    /// Base URL of the error pages. If absent, derived from the public origin.
    pub errors_url: Option<String>,
    /// Path or URL of the metadata store. If absent, a SQLite file in the data folder.
    pub metadata_url: Option<String>,
    /// File that holds the metadata URL, which keeps its password out of the environment.
    pub metadata_url_file: Option<PathBuf>,
    /// TLS of the listener.
    pub tls: TlsConfig,
    /// HTTP limits and reverse proxies.
    pub http: Http,
    /// Cross-origin requests (CORS).
    pub cors: Cors,
    /// Pagination of lists.
    pub pagination: Pagination,
    /// Idempotency keys.
    pub idempotency: Idempotency,
    /// Rate limits.
    pub rate_limit: RateLimit,
    /// API tokens.
    pub tokens: TokensConfig,
    /// Quotas and reserved names.
    pub limits: Quotas,
    /// Operations.
    pub operations: OperationsConfig,
    /// Imports.
    pub imports: ImportsConfig,
    /// Thread pools for blocking calls, and slow-query scheduling.
    pub pools: Pools,
    /// How users' SQL runs, and its limits.
    pub sql: SqlConfig,
    /// The server process.
    pub server: ServerConfig,
    /// Webhooks.
    pub hooks: HooksConfig,
    /// Metrics.
    pub metrics: MetricsConfig,
    /// The log.
    pub log: LogConfig,
    /// Export of traces.
    pub otlp: OtlpConfig,
    /// Limits and deprecation of API v1alpha1.
    pub v1alpha1: V1alpha1,
    /// Public origin of the hosted API. If absent, the public origin.
    pub hosted_public_url: Option<String>,
    /// Deployments.
    pub hosted: Hosted,
    /// Web pages, sign-up, and sign-in.
    pub web: Web,
}

/// API tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokensConfig {
    /// Maximum number of unexpired tokens of a user.
    pub max_per_user: u64,
    /// Minimum interval between two updates of the last-use time of a token.
    pub last_used_interval: Span,
}

/// Prometheus metrics.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address and port of the metrics listener. If absent, metrics are not served.
    pub listen: Option<String>,
}

/// Quotas and reserved names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Maximum number of databases of an owner, including forks; 0 means no limit.
    pub databases_per_owner: u64,
    /// Maximum number of bytes of an owner; 0 means no limit.
    pub bytes_per_owner: u64,
    /// Maximum number of operations of an owner in 24 hours; 0 means no limit.
    pub operations_per_day: u64,
    /// Maximum number of organizations that a user owns; 0 means no limit.
    pub organizations_per_user: u64,
    /// Free bytes of the data folder's file system below which only deletions and sign-in are served; 0 means no limit.
    pub min_free_bytes: u64,
    /// How long the commit of a deleted branch or tag is kept.
    pub keep_deleted: Span,
    /// Owner names to reject in addition to the built-in ones.
    #[serde(deserialize_with = "list::list")]
    pub reserved_names: Vec<String>,
}

/// Asynchronous operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperationsConfig {
    /// Maximum number of queued operations of a database.
    pub max_queued_per_database: u64,
    /// Number of worker threads; 0 means one per core.
    pub workers: usize,
}

/// Limits of imports and uploads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImportsConfig {
    /// Maximum size of a file in bytes.
    pub max_bytes: u64,
    /// Maximum number of parts of an upload.
    pub max_parts: u32,
    /// Maximum number of columns of a file.
    pub max_columns: usize,
    /// Maximum size of a value in bytes.
    pub max_value_bytes: usize,
    /// Maximum decompressed size in bytes of the compressed parts of a file.
    pub max_expanded_bytes: u64,
    /// Maximum number of open upload sessions of a user.
    pub max_open_sessions_per_user: u64,
    /// Deadline of an import, in milliseconds.
    pub timeout_ms: u64,
    /// Validity of the upload URL of a part.
    pub url_ttl: Span,
    /// Lifetime of an upload session.
    pub session_ttl: Span,
}

/// Where users' SQL runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In confined worker processes, which can be killed. Linux only.
    Process,
    /// In threads of the server, for trusted users.
    Thread,
}

/// The server process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Maximum time between the signal to stop and the end of the server.
    pub shutdown_grace: Span,
}

/// How users' SQL statements run, and limits of the statements and of their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SqlConfig {
    /// Where users' SQL runs.
    pub isolation: Isolation,
    /// Whether callers without a credential may run SQL, on databases that allow it.
    pub anonymous: bool,
    /// Maximum number of worker processes that have a database; 0 means 16 and two per core, at most 64.
    pub workers: usize,
    /// Whether the server refuses to start if the kernel cannot confine worker processes.
    pub require_confinement: bool,
    /// Row limit of a read that requests none.
    pub default_limit: u64,
    /// Maximum row limit of a read.
    pub row_cap: u64,
    /// Timeout in milliseconds of a read that requests none.
    pub default_timeout_ms: u64,
    /// Maximum timeout of a read, in milliseconds.
    pub timeout_cap_ms: u64,
    /// Timeout of a write, in milliseconds.
    pub write_timeout_ms: u64,
    /// Maximum number of concurrent reads.
    pub max_concurrent_reads: usize,
    /// Maximum number of concurrent reads that compute, rather than wait for their client; 0 means two per core.
    pub max_computing_reads: usize,
    /// Maximum number of concurrent reads of one caller.
    pub max_concurrent_reads_per_caller: usize,
    /// Capacity of the queue of waiting reads.
    pub read_queue_length: usize,
    /// Maximum queue wait of a read, in milliseconds.
    pub read_queue_wait_ms: u64,
    /// Maximum size in bytes of a statement in a request body.
    pub max_statement_bytes: usize,
    /// Maximum size in bytes of a statement in a URL.
    pub max_statement_bytes_get: usize,
    /// Maximum size of a JSON response in bytes.
    pub max_response_bytes: usize,
    /// Size of the result cache in bytes; 0 disables the cache.
    pub result_cache_bytes: u64,
    /// Memory limit of a statement, in bytes.
    pub max_memory_bytes: usize,
    /// Memory limit of all running statements together, in bytes; 0 means a quarter of the machine's memory, at most 1 GiB.
    pub memory_total_bytes: usize,
    /// Maximum time in milliseconds in which the client of a streamed result reads nothing. Slower clients are disconnected.
    pub stream_stall_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("branchyard-data"),
            listen: "127.0.0.1:8080".to_owned(),
            public_url: None,
            errors_url: None,
            metadata_url: None,
            metadata_url_file: None,
            tls: TlsConfig::default(),
            http: Http::default(),
            cors: Cors::default(),
            pagination: Pagination::default(),
            idempotency: Idempotency::default(),
            rate_limit: RateLimit::default(),
            tokens: TokensConfig::default(),
            limits: Quotas::default(),
            operations: OperationsConfig::default(),
            imports: ImportsConfig::default(),
            pools: Pools::default(),
            sql: SqlConfig::default(),
            server: ServerConfig::default(),
            hooks: HooksConfig::default(),
            metrics: MetricsConfig::default(),
            log: LogConfig::default(),
            otlp: OtlpConfig::default(),
            v1alpha1: V1alpha1::default(),
            hosted_public_url: None,
            hosted: Hosted::default(),
            web: Web::default(),
        }
    }
}

impl Default for TokensConfig {
    fn default() -> Self {
        Self { max_per_user: 100, last_used_interval: Span::seconds(30) }
    }
}

impl Default for OperationsConfig {
    fn default() -> Self {
        Self { max_queued_per_database: 100, workers: 0 }
    }
}

impl OperationsConfig {
    /// Returns the number of worker threads.
    pub fn workers(&self) -> usize {
        if self.workers == 0 { std::thread::available_parallelism().map_or(2, usize::from) } else { self.workers }
    }
}

impl Default for ImportsConfig {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 30,
            max_parts: 1_000,
            max_columns: 2_000,
            max_value_bytes: 16 << 20,
            max_expanded_bytes: 8 << 30,
            max_open_sessions_per_user: 20,
            timeout_ms: 600_000,
            url_ttl: Span::seconds(600),
            session_ttl: Span::seconds(3_600),
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { shutdown_grace: Span::seconds(30) }
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            databases_per_owner: 0,
            bytes_per_owner: 0,
            operations_per_day: 0,
            organizations_per_user: 0,
            min_free_bytes: 512 << 20,
            keep_deleted: Span::seconds(0),
            reserved_names: Vec::new(),
        }
    }
}

impl Default for SqlConfig {
    fn default() -> Self {
        Self {
            isolation: if cfg!(target_os = "linux") { Isolation::Process } else { Isolation::Thread },
            anonymous: true,
            workers: 0,
            require_confinement: true,
            default_limit: 1_000,
            row_cap: 10_000,
            default_timeout_ms: 30_000,
            timeout_cap_ms: 60_000,
            write_timeout_ms: 60_000,
            max_concurrent_reads: 64,
            max_computing_reads: 0,
            max_concurrent_reads_per_caller: 8,
            read_queue_length: 256,
            read_queue_wait_ms: 5_000,
            max_statement_bytes: 1 << 20,
            max_statement_bytes_get: 32 << 10,
            max_response_bytes: 15 << 20,
            result_cache_bytes: 16 << 20,
            max_memory_bytes: 256 << 20,
            memory_total_bytes: 0,
            stream_stall_ms: 30_000,
        }
    }
}

impl SqlConfig {
    /// Returns the maximum number of worker processes that have a database.
    pub fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self.workers == 0 { (16 + 2 * cores).min(MOST_WORKERS) } else { self.workers }
    }

    /// Returns the maximum number of concurrent reads that have not become slow. With worker processes, `writers` of them may be
    /// writing, and an eighth of the others is kept, so that the slow reads of one caller do not keep all others out.
    pub fn concurrent_reads(&self, writers: usize) -> usize {
        let places = self.slow_places(writers);
        places.map_or(self.max_concurrent_reads, |places| {
            self.max_concurrent_reads.min(places.most.saturating_sub(places.spare).max(1))
        })
    }

    /// Returns the limit of slow reads that have begun. With worker processes, of which `writers` may be writing, one is kept for
    /// short reads. `None` without worker processes.
    pub fn slow_places(&self, writers: usize) -> Option<SlowPlaces> {
        if self.isolation == Isolation::Thread {
            return None;
        }
        let readers = self.workers().saturating_sub(writers).max(1);
        let kept = (readers / 8).max(1);
        Some(SlowPlaces { most: (readers - 1).max(1), spare: kept - 1 })
    }

    /// Returns the memory limit of all running statements together, in bytes.
    pub fn memory_total(&self) -> usize {
        match self.memory_total_bytes {
            0 => machine::share_of_memory(),
            bytes => bytes,
        }
    }
}

impl Config {
    /// Loads the configuration of a command.
    ///
    /// # Errors
    /// Returns an error that names the invalid key and, if the key is unknown, its source.
    pub fn load(place: &cli::ServerLocation) -> anyhow::Result<Self> {
        let defaults = Figment::from(Serialized::defaults(Self::default()));
        let mut figment = defaults.clone();
        if let Some(file) = &place.config {
            if !file.is_file() {
                bail!("the configuration file {} does not exist", file.display());
            }
            figment = figment.merge(Toml::file_exact(file));
        }
        // `BRANCHYARD_TEST_*` variables configure the tests, not the server.
        let environment =
            Env::prefixed("BRANCHYARD_").filter(|key| !key.as_str().to_ascii_lowercase().starts_with("test_"));
        let figment = figment.merge(environment.split("__"));
        unknown::refuse(&defaults, &figment)?;
        let mut config: Self = figment.extract().context("configuration")?;
        if let Some(dir) = &place.data_dir {
            config.data_dir.clone_from(dir);
        }
        if let Some(url) = &place.metadata_url {
            config.metadata_url = Some(url.clone());
        }
        config.validate()?;
        Ok(config)
    }

    /// Loads the configuration of `serve`, including its own flags.
    ///
    /// # Errors
    /// Same as [`Config::load`].
    pub fn load_for_serve(serve: &cli::Serve) -> anyhow::Result<Self> {
        let mut config = Self::load(&serve.place)?;
        if let Some(listen) = &serve.listen {
            config.listen.clone_from(listen);
        }
        if let Some(url) = &serve.public_url {
            config.public_url = Some(url.clone());
        }
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> anyhow::Result<()> {
        if let Some(url) = self.public_url.as_deref().filter(|url| !is_origin(url)) {
            bail!("configuration: public_url is '{url}'; write it as https://host, without a slash at the end");
        }
        if let Some(url) = self.hosted_public_url.as_deref().filter(|url| !is_origin(url)) {
            bail!("configuration: hosted_public_url is '{url}'; write it as https://host, without a slash at the end");
        }
        ranges::check(self)?;
        self.hosted.domain()?;
        self.cors.check()?;
        self.hooks.check()?;
        self.http.proxies()?;
        self.v1alpha1.settings()?;
        self.web.sign_up()?;
        self.otlp.check()?;
        self.tls.files()?;
        if self.metadata_url.is_some() && self.metadata_url_file.is_some() {
            bail!("configuration: set metadata_url or metadata_url_file, not both");
        }
        Ok(())
    }

    /// Returns the URL of the metadata store. `default` is the path to use if none is configured.
    ///
    /// # Errors
    /// Fails if `metadata_url_file` cannot be read, or if `default` is needed and is not UTF-8.
    pub fn metadata_url(&self, default: &Path) -> anyhow::Result<String> {
        if let Some(file) = &self.metadata_url_file {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("configuration: metadata_url_file {}", file.display()))?;
            return Ok(text.trim().to_owned());
        }
        let path = || default.to_str().map(str::to_owned).context("the path of the data folder is not UTF-8");
        self.metadata_url.clone().map_or_else(path, Ok)
    }

    /// Returns the limits of the domain.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn domain_limits(&self) -> anyhow::Result<Limits> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Limits {
            sign_up: self.web.sign_up()?,
            session_seconds: self.web.session_ttl.as_seconds(),
            session_max_seconds: self.web.session_max_age.as_seconds(),
            confirm_seconds: self.web.confirm_after.as_seconds(),
            invitation_seconds: self.web.invitation_ttl.as_seconds(),
            tokens_per_user: self.tokens.max_per_user,
            anonymous_sql: self.sql.anonymous,
            min_free_bytes: self.limits.min_free_bytes,
            bytes_per_owner: self.limits.bytes_per_owner,
            operations_per_day: self.limits.operations_per_day,
            organizations_per_user: self.limits.organizations_per_user,
            keep_deleted_seconds: self.limits.keep_deleted.as_seconds(),
            databases_per_owner: self.limits.databases_per_owner,
            queued_per_database: self.operations.max_queued_per_database,
            operation_workers: self.operations.workers(),
            long_operation_places: cores,
            import_bytes: self.imports.max_bytes,
            import_parts: self.imports.max_parts,
            import_value_bytes: self.imports.max_value_bytes,
            open_uploads_per_user: self.imports.max_open_sessions_per_user,
            write_timeout_ms: self.sql.write_timeout_ms,
            import_timeout_ms: self.imports.timeout_ms,
            upload_session_seconds: self.imports.session_ttl.as_seconds(),
            answer_retention_seconds: self.idempotency.ttl.as_seconds(),
            hooks_per_database: self.hooks.max_per_database,
            hook_timeout_ms: self.hooks.timeout_ms,
            hook_retry_delays_ms: self.hooks.retry_delays_ms.clone(),
            hook_disable_after_seconds: self.hooks.disable_after.as_seconds(),
            hook_log_retention_seconds: self.hooks.log_retention.as_seconds(),
            reserved_names: self.limits.reserved_names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            ..Limits::default()
        })
    }
}

fn is_origin(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.ends_with('/') && !host.contains('?'))
}

#[cfg(test)]
mod tests {
    use super::{Config, Isolation, LogConfig, LogFormat, SqlConfig, cli};

    fn load(toml: &str) -> anyhow::Result<Config> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("branchyard.toml");
        std::fs::write(&file, toml)?;
        Config::load(&cli::ServerLocation { config: Some(file), ..cli::ServerLocation::default() })
    }

    #[test]
    fn the_settings_of_a_public_server_load() {
        let config = load(include_str!("../../../contrib/public.toml")).unwrap();
        assert!(!config.sql.anonymous);
        let limits = config.domain_limits().unwrap();
        assert_eq!((limits.anonymous_sql, limits.databases_per_owner, limits.min_free_bytes), (false, 100, 2 << 30));
    }

    #[test]
    fn the_file_in_the_tree_is_the_defaults() {
        let config = load(include_str!("../branchyard.default.toml")).unwrap();
        assert_eq!(config, Config::default());
    }

    /// Keys without a default are commented out with `#` in the file. Checks that each line loads when uncommented.
    #[test]
    fn what_the_file_leaves_out_can_be_put_in() {
        let lines: Vec<&str> = include_str!("../branchyard.default.toml").lines().collect();
        let is_key = |line: &str| {
            let name = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")).map(|(name, _)| name);
            name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        };
        let mut tried = 0;
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_key(line)) {
            let (setting, _) = line.trim_start_matches("# ").split_once("   ").unwrap_or((&line[2..], ""));
            let mut changed = lines.clone();
            changed[at] = setting;
            match load(&changed.join("\n")) {
                Ok(_) => {}
                // The one setting that not every build accepts.
                Err(error) if !cfg!(feature = "otlp") && format!("{error:#}").contains("without the feature otlp") => {
                    assert!(setting.starts_with("endpoint"), "{setting}: {error:#}");
                }
                Err(error) => panic!("{setting}: {error:#}"),
            }
            tried += 1;
        }
        assert!(tried >= 8, "{tried}");
    }

    #[test]
    fn unknown_keys_are_named_with_their_source() {
        let error = format!("{:#}", load("[sql]\nrow_kap = 5").unwrap_err());
        assert!(error.contains("sql.row_kap") && error.contains("branchyard.toml"), "{error}");
        assert!(error.contains("did you mean sql.row_cap?"), "{error}");
        let error = format!("{:#}", load("[http]\nstream_stall_ms = 5").unwrap_err());
        assert!(error.contains("did you mean sql.stream_stall_ms?"), "{error}");
        let error = format!("{:#}", load("entirely_else = 5").unwrap_err());
        assert!(error.contains("docs/configuration.md"), "{error}");
    }

    #[test]
    fn a_public_url_with_a_slash_is_refused() {
        let error = format!("{:#}", load("public_url = \"https://yard.test/\"").unwrap_err());
        assert!(error.contains("public_url"), "{error}");
    }

    #[test]
    fn values_outside_their_range_are_refused_by_name() {
        assert!(load("[limits]\nkeep_deleted = \"90d\"").is_ok());
        for (toml, key) in [
            ("[http]\nmax_head_bytes = 131073", "http.max_head_bytes"),
            ("[http]\nhead_timeout_ms = 1", "http.head_timeout_ms"),
            ("[http]\nwrite_stall_ms = 99", "http.write_stall_ms"),
            ("[http]\nmax_json_body_bytes = 10", "http.max_json_body_bytes"),
            ("[http]\nmax_bytes_in_flight = 4194303", "http.max_bytes_in_flight"),
            ("[http]\nmax_json_body_bytes = 5000000\nmax_bytes_in_flight = 4999999", "http.max_bytes_in_flight"),
            ("[http]\nmax_connections_per_address = 1000001", "http.max_connections_per_address"),
            ("[http]\ntrusted_proxies = [\"10.0.0.0/99\"]", "http.trusted_proxies"),
            ("[http]\nforwarded_header = \"x-real-ip\"", "http.forwarded_header"),
            ("[cors]\nallowed_origins = [\"https://a.test/path\"]", "cors.allowed_origins"),
            ("[pagination]\nmax_page_size = 0", "pagination.max_page_size"),
            ("[pagination]\ndefault_page_size = 101", "pagination.default_page_size"),
            ("[pagination]\nmax_page_bytes = 8388609", "pagination.max_page_bytes"),
            ("[idempotency]\nttl = \"59s\"", "idempotency.ttl"),
            ("[idempotency]\nttl = \"a day\"", "idempotency.ttl"),
            ("[limits]\nkeep_deleted = \"7776001s\"", "limits.keep_deleted"),
            ("[rate_limit]\nuser_per_hour = -1", "rate_limit.user_per_hour"),
            ("[tokens]\nlast_used_interval = 0", "tokens.last_used_interval"),
            ("[imports]\nurl_ttl = \"2h\"", "imports.url_ttl"),
            ("[sql]\nrow_cap = 10", "sql.default_limit"),
            ("[sql]\nmax_response_bytes = 15728641", "sql.max_response_bytes"),
            ("[sql]\nmax_statement_bytes = 4000000", "sql.max_statement_bytes"),
            ("[sql]\nmax_statement_bytes_get = 61441", "sql.max_statement_bytes_get"),
            ("[sql]\nmax_memory_bytes = 1", "sql.max_memory_bytes"),
            ("[sql]\nmemory_total_bytes = 33554431", "sql.memory_total_bytes"),
            ("[sql]\nmemory_total_bytes = 68719476737", "sql.memory_total_bytes"),
            ("[sql]\nstream_stall_ms = 99", "sql.stream_stall_ms"),
            ("[hooks]\nmax_per_database = 100001", "hooks.max_per_database"),
            ("[log]\naccess = 1.01", "log.access"),
            ("[log]\naccess = -0.01", "log.access"),
            ("[log]\naccess = nan", "log.access"),
            ("[log]\nformat = \"xml\"", "log.format"),
            ("[otlp]\nendpoint = \"a place\"", "otlp.endpoint"),
            ("[tls]\ncert = \"cert.pem\"", "tls.key"),
            ("[tls]\nkey = \"key.pem\"", "tls.cert"),
            ("[hooks]\nallowed_cidrs = [\"10.0.0.0/8\", \"inside\"]", "hooks.allowed_cidrs"),
            ("[hooks]\ntimeout_ms = 99", "hooks.timeout_ms"),
            ("[hooks]\nresponse_bytes = 1048577", "hooks.response_bytes"),
            ("[hooks]\nretry_delays_ms = []", "hooks.retry_delays_ms"),
            ("[hooks]\nretry_delays_ms = [0, 2592000001]", "hooks.retry_delays_ms"),
            ("[hooks]\ndisable_after = 0", "hooks.disable_after"),
            ("[hooks]\nconcurrency = 0", "hooks.concurrency"),
            ("[hooks]\nlog_retention = \"59s\"", "hooks.log_retention"),
            ("[hosted]\nbackup_hour_utc = 24", "hosted.backup_hour_utc"),
            ("[hosted]\nbackup_retention_days = 0", "hosted.backup_retention_days"),
            ("[hosted]\nstart_deadline = 0", "hosted.start_deadline"),
            ("[hosted]\norphan_grace = \"2d\"", "hosted.orphan_grace"),
            ("[hosted]\nport_range = \"80-90\"", "hosted.port_range"),
            ("[hosted.spending]\nowners = { ada = \"lots\" }", "hosted.spending.owners.ada"),
            ("hosted_public_url = \"yard.test\"", "hosted_public_url"),
            ("[web]\nsign_up = \"everybody\"", "web.sign_up"),
            ("[web]\nsession_ttl = \"59s\"", "web.session_ttl"),
            ("[web]\ninvitation_ttl = \"366d\"", "web.invitation_ttl"),
            ("[web]\nsign_in_window = 0", "web.sign_in_window"),
            ("[v1alpha1]\nrow_limit = 0", "v1alpha1.row_limit"),
            ("[v1alpha1]\nread_timeout_ms = 3600001", "v1alpha1.read_timeout_ms"),
            ("[v1alpha1]\nexport_timeout_ms = 0", "v1alpha1.export_timeout_ms"),
            ("[v1alpha1]\nupload_max_bytes = 0", "v1alpha1.upload_max_bytes"),
            ("[v1alpha1]\ndeprecated_at = \"soon\"", "v1alpha1.deprecated_at"),
            ("[v1alpha1]\nsunset_at = \"2025-12-31\"", "v1alpha1.sunset_at"),
            ("[v1alpha1]\ndeprecation_url = \"a page\"", "v1alpha1.deprecation_url"),
        ] {
            let error = format!("{:#}", load(toml).unwrap_err());
            assert!(error.contains(key), "{toml}: {error}");
        }
    }

    #[test]
    fn the_format_and_the_share_of_access_lines_are_settings() {
        for (toml, format, access) in [
            ("", LogFormat::Auto, 1.0),
            ("[log]\nformat = \"text\"\naccess = 0", LogFormat::Text, 0.0),
            ("[log]\nformat = \"json\"\naccess = 0.25", LogFormat::Json, 0.25),
        ] {
            assert_eq!(load(toml).unwrap().log, LogConfig { format, access }, "{toml}");
        }
    }

    #[test]
    fn an_endpoint_for_traces_needs_a_program_that_exports_them() {
        let loaded = load("[otlp]\nendpoint = \"http://127.0.0.1:4318\"");
        if cfg!(feature = "otlp") {
            assert!(loaded.is_ok());
        } else {
            let error = format!("{:#}", loaded.unwrap_err());
            assert!(error.contains("otlp.endpoint") && error.contains("--features otlp"), "{error}");
        }
    }

    #[test]
    fn lists_are_lists_or_text_with_json_or_commas() {
        for list in ["[\"a.test\", \"b.test\"]", "'[\"a.test\", \"b.test\"]'", "\"a.test, b.test,\""] {
            let config = load(&format!("[limits]\nreserved_names = {list}")).unwrap();
            assert_eq!(config.limits.reserved_names, ["a.test", "b.test"], "{list}");
        }
        for (key, text, got) in [
            ("hooks", "allowed_cidrs = \"10.20.0.0/16, fd00:1234::/48\"", 2),
            ("cors", "allowed_origins = \"https://a.test,https://b.test\"", 2),
            ("http", "trusted_proxies = \"10.0.0.0/8\"", 1),
            ("hooks", "retry_delays_ms = \"0, 5000,60000\"", 3),
            ("hooks", "retry_delays_ms = 0", 1),
        ] {
            let config = load(&format!("[{key}]\n{text}")).unwrap();
            let lists = match text.split_once(' ').unwrap().0 {
                "allowed_cidrs" => config.hooks.allowed_cidrs.len(),
                "allowed_origins" => config.cors.allowed_origins.len(),
                "trusted_proxies" => config.http.trusted_proxies.len(),
                _ => config.hooks.retry_delays_ms.len(),
            };
            assert_eq!(lists, got, "{text}");
        }
        assert_eq!(load("[hooks]\nallowed_cidrs = \"\"").unwrap(), Config::default());
        for text in ["[hooks]\nretry_delays_ms = \"0, soon\"", "[limits]\nreserved_names = '[\"a\"'"] {
            assert!(load(text).is_err(), "{text}");
        }
    }

    /// Each read holds a worker process, slow reads too.
    #[test]
    fn reads_leave_worker_processes_to_writes_and_to_callers_with_few_reads() {
        let sql = |workers, isolation| SqlConfig { workers, isolation, ..SqlConfig::default() };
        let sizes = |workers, writers| {
            let sql = sql(workers, Isolation::Process);
            let places = sql.slow_places(writers).unwrap();
            (sql.concurrent_reads(writers), places.most, places.spare)
        };
        assert_eq!(
            sizes(20, 2),
            (16, 17, 1),
            "18 may read: two are kept, one of them for the slow reads of other callers"
        );
        assert_eq!(sizes(64, 24), (35, 39, 4));
        assert_eq!(sizes(10, 2), (7, 7, 0));
        assert_eq!(sizes(2, 2), (1, 1, 0));
        let thread = sql(20, Isolation::Thread);
        assert_eq!((thread.concurrent_reads(2), thread.slow_places(2)), (64, None));
    }

    #[test]
    fn settings_reach_the_http_side() {
        let toml = "[http]\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\nforwarded_header = \"Forwarded\"\n\
            [rate_limit]\nuser_per_hour = 5000\n[idempotency]\nttl = \"2h\"\n[imports]\nurl_ttl = 90\n\
            [cors]\nallowed_origins = [\"https://a.test:8443\"]";
        let config = load(toml).unwrap();
        let http = config.http_config("http://x".to_owned()).unwrap();
        assert_eq!(http.proxies.trusted.len(), 2);
        assert_eq!(http.rate_limits.unwrap().user_per_hour, 5_000);
        assert_eq!(http.part_url_seconds, 90);
        assert_eq!(config.domain_limits().unwrap().answer_retention_seconds, 7_200);
        let off = load("[rate_limit]\nenabled = false").unwrap();
        assert_eq!(off.http_config("http://x".to_owned()).unwrap().rate_limits, None);
    }
}
