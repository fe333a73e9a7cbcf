//! Configuration of API v1alpha1.

use std::time::Duration;

use anyhow::{Context as _, bail};
use branchyard_api_v1alpha1::LegacySettings;
use chrono::{DateTime, NaiveDate, NaiveTime};
use serde::{Deserialize, Serialize};

/// Limits and deprecation of API v1alpha1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct V1alpha1 {
    /// Maximum number of rows of a read.
    pub row_limit: u64,
    /// Timeout of a read, in milliseconds.
    pub read_timeout_ms: u64,
    /// Timeout of a download in milliseconds, excluding time spent waiting for the client.
    pub export_timeout_ms: u64,
    /// Maximum size of an uploaded file in bytes.
    pub upload_max_bytes: u64,
    /// Start of the deprecation: a date or an RFC 3339 time.
    pub deprecated_at: String,
    /// Date or RFC 3339 time at which the API is removed.
    pub sunset_at: Option<String>,
    /// URL of a page about the deprecation.
    pub deprecation_url: Option<String>,
}

impl Default for V1alpha1 {
    fn default() -> Self {
        Self {
            row_limit: 1_000,
            read_timeout_ms: 55_000,
            export_timeout_ms: 600_000,
            upload_max_bytes: 104_857_600,
            deprecated_at: "2026-01-01".to_owned(),
            sunset_at: None,
            deprecation_url: None,
        }
    }
}

/// Parses a date or an RFC 3339 time into seconds since the Unix epoch. A date means midnight UTC.
fn moment(key: &str, text: &str) -> anyhow::Result<i64> {
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp());
    let date = || text.parse::<NaiveDate>().map(|date| date.and_time(NaiveTime::MIN).and_utc().timestamp());
    time.or_else(|_| date())
        .with_context(|| format!("configuration: {key} is '{text}'; write 2027-01-31 or 2027-01-31T12:00:00Z"))
}

impl V1alpha1 {
    /// Returns the settings of the adapter.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn settings(&self) -> anyhow::Result<LegacySettings> {
        let deprecated_at = moment("v1alpha1.deprecated_at", &self.deprecated_at)?;
        let sunset_at = self.sunset_at.as_deref().map(|text| moment("v1alpha1.sunset_at", text)).transpose()?;
        if sunset_at.is_some_and(|sunset| sunset < deprecated_at) {
            bail!("configuration: v1alpha1.sunset_at is earlier than v1alpha1.deprecated_at");
        }
        if let Some(url) = self.deprecation_url.as_deref() {
            let fit = (url.starts_with("https://") || url.starts_with("http://"))
                && url.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'<' | b'>'));
            if !fit {
                bail!("configuration: v1alpha1.deprecation_url is '{url}'; write the URL of a page");
            }
        }
        Ok(LegacySettings {
            row_limit: self.row_limit,
            read_timeout: Duration::from_millis(self.read_timeout_ms),
            export_timeout: Duration::from_millis(self.export_timeout_ms),
            upload_max_bytes: self.upload_max_bytes,
            deprecated_at,
            sunset_at,
            deprecation_url: self.deprecation_url.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::V1alpha1;
    use branchyard_api_v1alpha1::LegacySettings;

    #[test]
    fn the_defaults_are_those_of_the_adapter() {
        assert_eq!(V1alpha1::default().settings().unwrap(), LegacySettings::default());
    }

    #[test]
    fn dates_and_times_are_read() {
        let dated = V1alpha1 {
            deprecated_at: "2026-07-01T02:00:00+02:00".to_owned(),
            sunset_at: Some("2027-01-01".to_owned()),
            ..V1alpha1::default()
        };
        let settings = dated.settings().unwrap();
        assert_eq!((settings.deprecated_at, settings.sunset_at), (1_782_864_000, Some(1_798_761_600)));
    }
}
