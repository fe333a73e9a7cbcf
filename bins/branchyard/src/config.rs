//! Configuration. Sources, each overriding those before it: defaults, the file, `BRANCHYARD_*` environment variables (`__`
//! separates sections), and flags. Unknown keys are errors that name their source.

mod cluster;
mod hooks;
mod hosted;
mod http;
mod imports;
mod list;
mod log;
mod machine;
mod metadata;
mod pools;
mod quotas;
mod ranges;
mod remotes;
mod span;
mod sql;
mod store;
mod tls;
mod unknown;
mod v1alpha1;
mod web;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_domain::usecases::Limits;
use figment::Figment;
use figment::providers::{Env, Format as _, Serialized, Toml};
use serde::{Deserialize, Serialize};

use crate::cli;
use crate::master_key::MasterKey;

pub use cluster::ClusterConfig;
pub use hooks::HooksConfig;
pub use hosted::Hosted;
pub use http::{Cors, Http, Idempotency, Pagination, RateLimit};
pub use imports::ImportsConfig;
pub use log::{LogConfig, LogFormat, OtlpConfig};
pub use metadata::MetadataConfig;
pub use pools::Pools;
pub use quotas::Quotas;
pub use remotes::Remotes;
pub use span::Span;
pub(crate) use sql::MOST_WORKERS;
pub use sql::{Isolation, SqlConfig};
pub use store::{Secret, StoreConfig};
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
    /// Connections to the metadata store.
    pub metadata: MetadataConfig,
    /// URL of the store of databases. If absent, databases, uploads and backups are kept in the data folder.
    pub store_url: Option<String>,
    /// How the store of databases is reached.
    pub store: StoreConfig,
    /// File of the master key, under which the key ring is sealed and kept in the metadata store. If absent, a file of the data folder
    /// holds the ring.
    pub server_key_file: Option<PathBuf>,
    /// Id of this server among those that share its metadata store. If absent, a file of the data folder holds it.
    pub node_id: Option<String>,
    /// Servers that share their stores.
    pub cluster: ClusterConfig,
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
    /// Clones and fetches by clients of the engine.
    pub remotes: Remotes,
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

/// Asynchronous operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperationsConfig {
    /// Maximum number of queued operations of a database.
    pub max_queued_per_database: u64,
    /// Number of worker threads; 0 means one per core.
    pub workers: usize,
}

/// The server process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Maximum time between the signal to stop and the end of the server.
    pub shutdown_grace: Span,
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
            metadata: MetadataConfig::default(),
            store_url: None,
            store: StoreConfig::default(),
            server_key_file: None,
            node_id: None,
            cluster: ClusterConfig::default(),
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
            remotes: Remotes::default(),
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

    /// Returns the maximum number of operations and turns of direct writes that run at the same time.
    pub fn writers(&self) -> usize {
        self.workers() + branchyard_domain::usecases::most_direct_turns(self.workers())
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { shutdown_grace: Span::seconds(30) }
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
        if let Some(kept) = config.limits.keep_deleted
            && !is_set(&defaults, &figment, "store.history")
        {
            config.store.history = kept;
        }
        if let Some(dir) = &place.data_dir {
            config.data_dir.clone_from(dir);
        }
        if let Some(url) = &place.metadata_url {
            config.metadata_url = Some(url.clone());
        }
        if let Some(url) = &place.store_url {
            config.store_url = Some(url.clone());
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
        if let Some(url) = self.cluster.advertise.as_deref().filter(|url| !is_origin(url)) {
            bail!(
                "configuration: cluster.advertise is '{url}'; write it as http://host:port, without a slash at the end"
            );
        }
        ranges::check(self)?;
        self.hosted.domain()?;
        self.cors.check()?;
        self.hooks.check()?;
        self.remotes.check()?;
        self.http.proxies()?;
        self.v1alpha1.settings()?;
        self.web.sign_up()?;
        self.otlp.check()?;
        self.tls.files()?;
        store::check(self)?;
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

    /// Returns the master key, or `None` if the key ring is kept in the data folder.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not hold a key.
    pub fn master_key(&self) -> anyhow::Result<Option<MasterKey>> {
        let master = self.server_key_file.as_deref().map(MasterKey::read).transpose();
        master.context("configuration: server_key_file")
    }

    /// Returns the limits of the domain.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn domain_limits(&self) -> anyhow::Result<Limits> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Limits {
            sign_up: self.web.sign_up()?,
            sign_ins: self.web.sign_ins(),
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
            history_seconds: self.store.history.as_seconds(),
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
            remote_refs: self.remotes.max_refs,
            keys_per_user: self.remotes.max_keys_per_user,
            push_bytes: self.remotes.max_push_bytes,
            pushed_chunks_seconds: self.remotes.quarantine_ttl.as_seconds(),
            push_check_timeout_ms: self.remotes.check_timeout_ms,
            remote_grace_seconds: self.remotes.grace.as_seconds(),
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

/// Returns `true` if a key has a value that is not the default one.
fn is_set(defaults: &Figment, settings: &Figment, key: &str) -> bool {
    let source = |figment: &Figment| figment.find_metadata(key).map(|metadata| metadata.name.clone());
    source(defaults) != source(settings)
}

fn is_origin(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.ends_with('/') && !host.contains('?'))
}

#[cfg(test)]
mod tests;
