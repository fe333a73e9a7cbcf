//! Configuration: defaults, then the file, then `BRANCHYARD_*` from the environment (`__` nests), then flags.
//! Unknown keys are errors that name their source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use branchyard_api_common::{HttpConfig, SqlLimits};
use branchyard_domain::usecases::Limits;
use figment::Figment;
use figment::providers::{Env, Format as _, Serialized, Toml};
use serde::{Deserialize, Serialize};

use crate::cli;

/// Everything that can be configured. `docs/configuration.md` describes each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder that holds everything.
    pub data_dir: PathBuf,
    /// Address and port to listen on.
    pub listen: String,
    /// Public origin; derived from the listen address when absent.
    pub public_url: Option<String>,
    /// Base of the error pages; derived from the public origin when absent.
    pub errors_url: Option<String>,
    /// Metadata store; a file in the data folder when absent.
    pub metadata_url: Option<String>,
    /// File that holds the metadata URL, to keep its password out of the environment.
    pub metadata_url_file: Option<PathBuf>,
    /// HTTP.
    pub http: Http,
    /// Tokens.
    pub tokens: Tokens,
    /// Quotas.
    pub limits: Quotas,
    /// Operations.
    pub operations: Operations,
    /// Imports.
    pub imports: Imports,
    /// SQL.
    pub sql: Sql,
}

/// HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Bytes of a JSON body.
    pub max_json_body_bytes: usize,
}

/// Tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tokens {
    /// Live tokens of a user.
    pub max_per_user: u64,
}

/// Quotas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Databases of an owner; 0 = no limit.
    pub databases_per_owner: u64,
    /// Owner names refused besides the built-in ones.
    pub reserved_names: Vec<String>,
}

/// Operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operations {
    /// Waiting operations of a database.
    pub max_queued_per_database: u64,
    /// Threads that run operations; 0 = one per core.
    pub workers: usize,
}

/// Imports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Imports {
    /// Bytes of a file.
    pub max_bytes: u64,
    /// Parts of a file.
    pub max_parts: u32,
    /// Columns of a file.
    pub max_columns: usize,
    /// Bytes of a value.
    pub max_value_bytes: usize,
    /// Bytes the compressed parts of a file may expand to.
    pub max_expanded_bytes: u64,
    /// Unused upload sessions of a user.
    pub max_open_sessions_per_user: u64,
    /// Milliseconds an import may take.
    pub timeout_ms: u64,
}

/// SQL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sql {
    /// Rows of a read that asks for no limit.
    pub default_limit: u64,
    /// Rows of a read at most.
    pub row_cap: u64,
    /// Milliseconds of a read that asks for no limit.
    pub default_timeout_ms: u64,
    /// Milliseconds of a read at most.
    pub timeout_cap_ms: u64,
    /// Milliseconds of a write.
    pub write_timeout_ms: u64,
    /// Reads at once.
    pub max_concurrent_reads: usize,
    /// Reads at once of one caller.
    pub max_concurrent_reads_per_caller: usize,
    /// Reads that wait for a slot.
    pub read_queue_length: usize,
    /// Milliseconds a read waits for a slot.
    pub read_queue_wait_ms: u64,
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
            http: Http::default(),
            tokens: Tokens::default(),
            limits: Quotas::default(),
            operations: Operations::default(),
            imports: Imports::default(),
            sql: Sql::default(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { max_json_body_bytes: 2 << 20 }
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { max_per_user: 100 }
    }
}

impl Default for Operations {
    fn default() -> Self {
        Self { max_queued_per_database: 100, workers: 0 }
    }
}

impl Default for Imports {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 30,
            max_parts: 1_000,
            max_columns: 2_000,
            max_value_bytes: 16 << 20,
            max_expanded_bytes: 8 << 30,
            max_open_sessions_per_user: 20,
            timeout_ms: 600_000,
        }
    }
}

impl Default for Sql {
    fn default() -> Self {
        Self {
            default_limit: 1_000,
            row_cap: 10_000,
            default_timeout_ms: 30_000,
            timeout_cap_ms: 60_000,
            write_timeout_ms: 60_000,
            max_concurrent_reads: 64,
            max_concurrent_reads_per_caller: 8,
            read_queue_length: 256,
            read_queue_wait_ms: 5_000,
        }
    }
}

impl Config {
    /// Loads the configuration for a command.
    ///
    /// # Errors
    /// Names the key and where it came from.
    pub fn load(place: &cli::Place) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(file) = &place.config {
            if !file.is_file() {
                bail!("the configuration file {} does not exist", file.display());
            }
            figment = figment.merge(Toml::file_exact(file));
        }
        // BRANCHYARD_TEST_… speaks to the tests, not to the server.
        let environment =
            Env::prefixed("BRANCHYARD_").filter(|key| !key.as_str().to_ascii_lowercase().starts_with("test_"));
        let mut config: Self = figment.merge(environment.split("__")).extract().context("configuration")?;
        if let Some(dir) = &place.data_dir {
            config.data_dir.clone_from(dir);
        }
        if let Some(url) = &place.metadata_url {
            config.metadata_url = Some(url.clone());
        }
        config.validate()?;
        Ok(config)
    }

    /// Loads the configuration of a server.
    ///
    /// # Errors
    /// As [`Config::load`].
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
        let is_origin = |url: &str| {
            let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
            host.is_some_and(|host| !host.is_empty() && !host.ends_with('/') && !host.contains('?'))
        };
        if let Some(url) = self.public_url.as_deref().filter(|url| !is_origin(url)) {
            bail!("configuration: public_url is '{url}'; write it as https://host, without a slash at the end");
        }
        if self.sql.default_limit > self.sql.row_cap {
            bail!("configuration: sql.default_limit is above sql.row_cap");
        }
        if self.sql.default_timeout_ms > self.sql.timeout_cap_ms {
            bail!("configuration: sql.default_timeout_ms is above sql.timeout_cap_ms");
        }
        if self.metadata_url.is_some() && self.metadata_url_file.is_some() {
            bail!("configuration: set metadata_url or metadata_url_file, not both");
        }
        Ok(())
    }

    /// The URL of the metadata store, given where the default file is.
    ///
    /// # Errors
    /// When the file that should hold it cannot be read.
    pub fn metadata_url(&self, default: &Path) -> anyhow::Result<String> {
        if let Some(file) = &self.metadata_url_file {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("configuration: metadata_url_file {}", file.display()))?;
            return Ok(text.trim().to_owned());
        }
        let path = || default.to_str().map(str::to_owned).context("the path of the data folder is not UTF-8");
        self.metadata_url.clone().map_or_else(path, Ok)
    }

    /// What the HTTP side is told, for a server reached at `public_url`.
    pub fn http_config(&self, public_url: String) -> HttpConfig {
        let mut http = HttpConfig::new(public_url);
        if let Some(errors_url) = &self.errors_url {
            http.errors_url.clone_from(errors_url);
        }
        http.max_json_body_bytes = self.http.max_json_body_bytes;
        http.sql = SqlLimits {
            default_limit: self.sql.default_limit,
            row_cap: self.sql.row_cap,
            default_timeout_ms: self.sql.default_timeout_ms,
            timeout_cap_ms: self.sql.timeout_cap_ms,
            max_concurrent_reads: self.sql.max_concurrent_reads,
            max_concurrent_reads_per_caller: self.sql.max_concurrent_reads_per_caller,
            read_queue_length: self.sql.read_queue_length,
            read_queue_wait: Duration::from_millis(self.sql.read_queue_wait_ms),
            ..SqlLimits::default()
        };
        http
    }

    /// The domain's limits.
    pub fn domain_limits(&self) -> Limits {
        Limits {
            tokens_per_user: self.tokens.max_per_user,
            databases_per_owner: self.limits.databases_per_owner,
            queued_per_database: self.operations.max_queued_per_database,
            import_bytes: self.imports.max_bytes,
            import_parts: self.imports.max_parts,
            import_value_bytes: self.imports.max_value_bytes,
            open_uploads_per_user: self.imports.max_open_sessions_per_user,
            write_timeout_ms: self.sql.write_timeout_ms,
            import_timeout_ms: self.imports.timeout_ms,
            reserved_names: self.limits.reserved_names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, cli};

    fn load(toml: &str) -> anyhow::Result<Config> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("branchyard.toml");
        std::fs::write(&file, toml)?;
        Config::load(&cli::Place { config: Some(file), ..cli::Place::default() })
    }

    #[test]
    fn the_file_in_the_tree_is_the_defaults() {
        let config = load(include_str!("../branchyard.default.toml")).unwrap();
        assert_eq!(config, Config::default());
    }

    #[test]
    fn unknown_keys_are_named_with_their_source() {
        let error = format!("{:#}", load("[sql]\nrow_kap = 5").unwrap_err());
        assert!(error.contains("row_kap") && error.contains("branchyard.toml"), "{error}");
    }

    #[test]
    fn a_public_url_with_a_slash_is_refused() {
        let error = format!("{:#}", load("public_url = \"https://yard.test/\"").unwrap_err());
        assert!(error.contains("public_url"), "{error}");
    }
}
