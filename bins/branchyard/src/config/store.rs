//! Configuration of the store of databases.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_object_store::{StoreOptions, StoreUrl};
use branchyard_sealed_store::{KeyCommand, MasterKey, MasterKeys};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::list::list;
use super::{Config, Span};
use crate::master_key::read_secret;

/// How the store of databases is reached, and how long it keeps what nothing refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// URL of the service, if it is not the cloud's own.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// Access key of S3, or account of Azure. If absent, the credentials are those of the environment or of the machine.
    pub access_key_id: Option<String>,
    /// The secret that belongs to the access key.
    #[serde(skip_serializing)]
    pub secret_access_key: Option<Secret>,
    /// File that holds this secret.
    pub secret_access_key_file: Option<PathBuf>,
    /// File with the 32 bytes of the master key of what is in the store. Without one, objects are stored as they are.
    pub encryption_key_file: Option<PathBuf>,
    /// Command that wraps and unwraps keys, instead of that file.
    #[serde(deserialize_with = "list")]
    pub encryption_key_command: Vec<String>,
    /// File of another master key, under which nothing new is sealed.
    pub encryption_previous_key_file: Option<PathBuf>,
    /// Command of another master key, instead of that file.
    #[serde(deserialize_with = "list")]
    pub encryption_previous_key_command: Vec<String>,
    /// Whether the endpoint may be reached without TLS.
    pub allow_http: bool,
    /// PEM file with root certificates besides those of the system.
    pub extra_ca_file: Option<PathBuf>,
    /// How long objects stay after the last reference to them is gone, and uploads without a session after their last part.
    pub grace: Span,
    /// How long changes of branches and tags are recorded, and what they leave behind is kept.
    pub history: Span,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access_key_id: None,
            secret_access_key: None,
            secret_access_key_file: None,
            encryption_key_file: None,
            encryption_key_command: Vec::new(),
            encryption_previous_key_file: None,
            encryption_previous_key_command: Vec::new(),
            allow_http: false,
            extra_ca_file: None,
            grace: Span::seconds(86_400),
            history: Span::seconds(7 * 86_400),
        }
    }
}

impl StoreConfig {
    /// Returns the options of the store.
    ///
    /// # Errors
    /// Fails if the file of the secret cannot be read.
    pub fn options(&self) -> anyhow::Result<StoreOptions> {
        Ok(StoreOptions {
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret()?,
            allow_http: self.allow_http,
            extra_ca_file: self.extra_ca_file.clone(),
            ..StoreOptions::default()
        })
    }

    /// Returns the master keys of what is in the store.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or does not hold a key.
    pub fn master_keys(&self) -> anyhow::Result<MasterKeys> {
        Ok(MasterKeys {
            current: master_key(KEY, self.encryption_key_file.as_deref(), &self.encryption_key_command)?,
            previous: master_key(
                PREVIOUS_KEY,
                self.encryption_previous_key_file.as_deref(),
                &self.encryption_previous_key_command,
            )?,
        })
    }

    fn secret(&self) -> anyhow::Result<Option<SecretString>> {
        let Some(file) = &self.secret_access_key_file else {
            return Ok(self.secret_access_key.as_ref().map(|secret| secret.0.clone()));
        };
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("configuration: store.secret_access_key_file {}", file.display()))?;
        Ok(Some(text.trim().into()))
    }
}

/// What the settings of master keys begin with.
const KEY: &str = "store.encryption_key";
const PREVIOUS_KEY: &str = "store.encryption_previous_key";

fn master_key(setting: &str, file: Option<&Path>, command: &[String]) -> anyhow::Result<Option<MasterKey>> {
    let Some(file) = file else { return Ok(KeyCommand::new(command).map(MasterKey::from)) };
    let secret = read_secret(file).with_context(|| format!("configuration: {setting}_file"))?;
    Ok(Some(MasterKey::from_secret(&secret)))
}

/// Checks the settings of the store that do not depend on others, without reading a file.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    config.store_url()?;
    let StoreConfig { secret_access_key: secret, secret_access_key_file: file, .. } = &config.store;
    if secret.is_some() && file.is_some() {
        bail!("configuration: set store.secret_access_key or store.secret_access_key_file, not both");
    }
    let store = &config.store;
    for (setting, file, command) in [
        (KEY, &store.encryption_key_file, &store.encryption_key_command),
        (PREVIOUS_KEY, &store.encryption_previous_key_file, &store.encryption_previous_key_command),
    ] {
        if file.is_some() && !command.is_empty() {
            bail!("configuration: set {setting}_file or {setting}_command, not both");
        }
        if !command.is_empty() && KeyCommand::new(command).is_none() {
            bail!("configuration: {setting}_command begins with an empty text; it is a program with its arguments");
        }
        if (file.is_some() || !command.is_empty()) && config.store_url.is_none() {
            let end = if file.is_some() { "file" } else { "command" };
            bail!(
                "configuration: {setting}_{end} is for a store of objects; set store_url, or remove it. Files of the data folder are not encrypted"
            );
        }
    }
    match config.node_id.as_deref() {
        Some(id) if !is_node_id(id) => {
            bail!(
                "configuration: node_id is '{id}'; it has 1 to {NODE_ID_MAX} of the characters A-Z, a-z, 0-9, _ and -, and names \
                 this server among those that share its metadata store"
            )
        }
        _ => Ok(()),
    }
}

impl Config {
    /// Returns the URL of the store of databases, or `None` if databases are kept in the data folder.
    ///
    /// # Errors
    /// Fails if it is not the URL of a store.
    pub fn store_url(&self) -> anyhow::Result<Option<StoreUrl>> {
        let url = self.store_url.as_deref().map(StoreUrl::parse).transpose();
        url.map_err(|error| anyhow::anyhow!("configuration: store_url: {error}"))
    }
}

/// Longest id of a node. It is part of the holder of a lease, and of the keys of objects.
const NODE_ID_MAX: usize = 64;

fn is_node_id(id: &str) -> bool {
    (1..=NODE_ID_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// A setting that is not printed.
#[derive(Clone)]
pub struct Secret(SecretString);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The errors of the default methods would quote the value. In the environment, a text of digits is a number.
        struct Secrets;
        impl<'de> Visitor<'de> for Secrets {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text in quotation marks")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
                Ok(text.into())
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_i128<E: de::Error>(self, _: i128) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_u128<E: de::Error>(self, _: u128) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_char<E: de::Error>(self, _: char) -> Result<Secret, E> {
                Err(not_text())
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, _: A) -> Result<Secret, A::Error> {
                Err(not_text())
            }

            fn visit_map<A: de::MapAccess<'de>>(self, _: A) -> Result<Secret, A::Error> {
                Err(not_text())
            }
        }
        deserializer.deserialize_str(Secrets)
    }
}

fn not_text<E: de::Error>() -> E {
    E::custom("a text in quotation marks is expected, also in the environment")
}
