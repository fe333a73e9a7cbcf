//! What this version of the API can be told. The names in the configuration file are in the contract (v1alpha1 §1.1, §4.1).

use std::time::Duration;

use actix_web::{HttpRequest, web};

/// Limits and dates of this version of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacySettings {
    /// Rows of a read.
    pub row_limit: u64,
    /// Time of a read.
    pub read_timeout: Duration,
    /// Time of a download, without waiting for the client.
    pub export_timeout: Duration,
    /// Bytes of an uploaded file.
    pub upload_max_bytes: u64,
    /// Since when the API is deprecated, in seconds since 1970.
    pub deprecated_at: i64,
    /// When it will go, in seconds since 1970.
    pub sunset_at: Option<i64>,
    /// A page about that.
    pub deprecation_url: Option<String>,
}

impl Default for LegacySettings {
    fn default() -> Self {
        Self {
            row_limit: 1_000,
            read_timeout: Duration::from_secs(55),
            export_timeout: Duration::from_secs(600),
            upload_max_bytes: 100 << 20,
            deprecated_at: 1_767_225_600,
            sunset_at: None,
            deprecation_url: None,
        }
    }
}

impl LegacySettings {
    /// Those of the application; the defaults where it has none.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.app_data::<web::Data<Self>>().map(|settings| settings.get_ref().clone()).unwrap_or_default()
    }
}
