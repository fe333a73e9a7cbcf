//! Upload sessions, which collect a file for an import.

use std::collections::BTreeMap;

use crate::values::{AccountId, DatabaseId, OperationId, Timestamp, UploadId};

/// Format of an imported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// Comma-separated values.
    Csv,
    /// Pipe-separated values.
    Psv,
    /// Tab-separated values.
    Tsv,
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

impl FileType {
    /// Returns `true` if the delimiter and the encoding of such files can be chosen.
    pub fn has_text_options(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-16 of either byte order.
    Utf16,
    /// Windows-1252.
    Windows1252,
}

/// How a file of delimited text is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// The character between two fields. `None` for the usual one of the format.
    pub delimiter: Option<char>,
    /// The encoding.
    pub encoding: TextEncoding,
}

/// A type that is chosen for a column of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportType {
    /// Whole numbers within 64 bits.
    Integer,
    /// Finite numbers.
    Real,
    /// Any values. Numbers are stored as numbers.
    Numeric,
    /// Text, unchanged.
    Text,
    /// Bytes. In text formats they are written as base64.
    Blob,
}

impl ImportType {
    /// Returns the declared type of such a column in a new table.
    pub fn declared(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Numeric => "NUMERIC",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
        }
    }
}

/// How the file of an import is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// File column → chosen type. The types of the other columns follow from their values.
    pub column_types: BTreeMap<String, ImportType>,
    /// How the file is written, for delimited text.
    pub text: TextOptions,
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
