//! Settings of this version of the API. The contract (v1alpha1 §1.1, §4.1) specifies the names in the configuration file.

use std::time::Duration;

use actix_web::{HttpRequest, web};

/// Limits and dates of this version of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacySettings {
    /// Maximum rows of a read.
    pub row_limit: u64,
    /// Maximum time of a read.
    pub read_timeout: Duration,
    /// Maximum time of a download, without waiting for the client.
    pub export_timeout: Duration,
    /// Maximum bytes of an uploaded file.
    pub upload_max_bytes: u64,
    /// Date of the deprecation, in seconds since 1970.
    pub deprecated_at: i64,
    /// Date of the removal, in seconds since 1970; `None` if it is not known.
    pub sunset_at: Option<i64>,
    /// URL of a page about the deprecation.
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
    /// Returns the settings in the application's data, or the defaults if there are none.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.app_data::<web::Data<Self>>().map(|settings| settings.get_ref().clone()).unwrap_or_default()
    }
}
