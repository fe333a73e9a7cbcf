//! Settings of imports.

use serde::{Deserialize, Serialize};

use super::Span;

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
