//! Upload sessions, which collect a file for an import.

use crate::values::{AccountId, DatabaseId, OperationId, Timestamp, UploadId};

/// Format of an imported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// Comma-separated values.
    Csv,
    /// Pipe-separated values.
    Psv,
    /// Excel workbook.
    Xlsx,
    /// JSON.
    Json,
    /// SQL script.
    Sql,
    /// YAML.
    Yaml,
    /// Parquet.
    Parquet,
    /// SQLite database.
    Sqlite,
}

/// An uploaded part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPart {
    /// Number of the part, starting at 1.
    pub number: u32,
    /// Size in bytes.
    pub size: u64,
    /// MD5 of the bytes, as the checksum in the wire contract requires.
    pub md5: [u8; 16],
}

/// An upload session, which collects the parts of one file.
#[derive(Debug, Clone)]
pub struct Upload {
    /// Id of the session. Public, because it is the storage key of the file.
    pub id: UploadId,
    /// The target database.
    pub database_id: DatabaseId,
    /// The user who opened the session.
    pub user_id: AccountId,
    /// SHA-256 of the secret that authorizes an import to use the file.
    pub secret_hash: [u8; 32],
    /// Announced size in bytes.
    pub content_length: u64,
    /// Announced number of parts.
    pub num_parts: u32,
    /// Announced format.
    pub file_type: FileType,
    /// When the session was opened.
    pub created_at: Timestamp,
    /// When the session expires and its parts are removed.
    pub expires_at: Timestamp,
    /// The import that used the session. `None` if unused.
    pub used_by: Option<OperationId>,
    /// The uploaded parts, by number.
    pub parts: Vec<UploadPart>,
}
