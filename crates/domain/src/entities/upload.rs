//! Upload sessions: a file on its way into an import.

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

/// A part of the file that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPart {
    /// From 1.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// MD5 of the bytes, as the contract's checksum wants it.
    pub md5: [u8; 16],
}

/// A session that collects the parts of one file.
#[derive(Debug, Clone)]
pub struct Upload {
    /// Its id, public: the key of its contents.
    pub id: UploadId,
    /// The database it is for.
    pub database_id: DatabaseId,
    /// Who opened it.
    pub user_id: AccountId,
    /// SHA-256 of the secret that lets an import use it.
    pub secret_hash: [u8; 32],
    /// Announced size in bytes.
    pub content_length: u64,
    /// Announced number of parts.
    pub num_parts: u32,
    /// Announced format.
    pub file_type: FileType,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it is thrown away.
    pub expires_at: Timestamp,
    /// The import that used it.
    pub used_by: Option<OperationId>,
    /// What has arrived, by number.
    pub parts: Vec<UploadPart>,
}
