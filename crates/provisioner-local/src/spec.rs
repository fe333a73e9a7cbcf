//! The specification of a process: `run/spec.json`, readable by its owner only.

use std::collections::BTreeMap;
use std::net::IpAddr;

use branchyard_deployments::ports::InstanceSpec;
use branchyard_deployments::values::{InstanceId, Setting, Settings};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rand::RngCore as _;
use serde::{Deserialize, Serialize};

use crate::local::LocalSettings;

/// Size of a secret in bytes.
const SECRET: usize = 32;

/// A secret of an instance, in hexadecimal. Its `Debug` output is redacted.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

impl Secret {
    /// Generates a secret with a cryptographically secure generator.
    pub(crate) fn fresh() -> Self {
        let mut bytes = [0; SECRET];
        rand::rng().fill_bytes(&mut bytes);
        Self(HEXLOWER.encode(&bytes))
    }

    pub(crate) fn bytes(&self) -> Option<[u8; SECRET]> {
        HEXLOWER_PERMISSIVE.decode(self.0.as_bytes()).ok()?.try_into().ok()
    }
}

/// The content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) instance: String,
    pub(crate) label: String,
    pub(crate) bind: IpAddr,
    pub(crate) port: u16,
    pub(crate) cpus: u32,
    pub(crate) memory_gb: u32,
    pub(crate) volume_gb: u32,
    pub(crate) settings: BTreeMap<String, String>,
    /// Revision of the settings. Later settings have a higher one.
    #[serde(default)]
    pub(crate) settings_revision: i64,
    pub(crate) expose_stats: bool,
    /// Seconds for which the process goes on serving while the server is away.
    pub(crate) orphan_grace: u64,
    /// Whether the process serves if the system does not confine it.
    #[serde(default)]
    pub(crate) allow_unconfined: bool,
    /// The secret with which the server and the process authenticate each other.
    pub(crate) secret: Secret,
    /// The key that authenticates batons. Kept across restarts.
    pub(crate) baton_key: Secret,
}

impl Spec {
    pub(crate) fn new(of: &InstanceSpec, settings: &LocalSettings, keys: (Secret, Secret)) -> Self {
        Self {
            instance: of.instance.to_string(),
            label: of.label.clone(),
            bind: settings.bind,
            port: of.port,
            cpus: of.cpus,
            memory_gb: of.memory_gb,
            volume_gb: of.volume_gb,
            settings: settings_map(&of.settings),
            settings_revision: of.settings_revision,
            expose_stats: of.expose_stats,
            orphan_grace: settings.orphan_grace.as_secs(),
            allow_unconfined: settings.allow_unconfined,
            secret: keys.0,
            baton_key: keys.1,
        }
    }

    pub(crate) fn instance(&self) -> Option<InstanceId> {
        InstanceId::parse(&self.instance).ok()
    }
}

/// Returns the explicit values by key.
pub(crate) fn settings_map(settings: &Settings) -> BTreeMap<String, String> {
    settings.overrides().map(|(setting, value)| (setting.key().to_owned(), value.to_owned())).collect()
}

/// Parses settings. Skips keys that this build does not know and values that break their rule: a newer server may
/// configure an older process.
pub(crate) fn settings(map: &BTreeMap<String, String>) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in map {
        let known = Setting::by_key(key).is_some_and(|setting| settings.set(setting, Some(value.clone())).is_ok());
        if !known {
            tracing::warn!(key, "ignoring an unknown setting");
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hex_and_do_not_print() {
        let secret = Secret::fresh();
        assert_eq!(secret.bytes().map(|bytes| HEXLOWER.encode(&bytes)), Some(secret.0.clone()));
        assert_ne!(secret.0, Secret::fresh().0);
        assert!(!format!("{secret:?}").contains(&secret.0));
        let bytes = |text: &str| Secret(text.to_owned()).bytes();
        assert_eq!(bytes(&"fF".repeat(SECRET)), Some([255; SECRET]));
        for wrong in ["0g".repeat(SECRET), "0".repeat(2 * SECRET - 1), "00".repeat(SECRET - 1), "00".repeat(SECRET + 1)]
        {
            assert_eq!(bytes(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn settings_go_through_and_unknown_ones_are_left_out() {
        let mut settings = Settings::default();
        settings.set(Setting::QueryThreads, Some("3".into())).unwrap();
        let mut map = settings_map(&settings);
        assert_eq!(self::settings(&map), settings);
        map.insert("from_the_future".into(), "1".into());
        map.insert("query_timeout_millis".into(), "1".into());
        assert_eq!(self::settings(&map), settings);
    }
}
