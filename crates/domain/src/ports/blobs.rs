//! Bytes in flight, and kept: parts of uploads, files of backups.

use std::io::{Read, Seek};

use crate::values::UploadId;

/// The blob store failed; the text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("the blob store failed: {context}")]
pub struct BlobsError {
    /// What was tried.
    pub context: String,
    /// Whether there was no room left.
    pub full: bool,
    /// What went wrong.
    #[source]
    pub source: std::io::Error,
}

/// Bytes that can be read from anywhere: some formats keep at their end what is where in them.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A store for the parts of uploads and the files of backups.
pub trait Blobs: Send + Sync {
    /// Keeps a part, replacing an earlier one whole. The bytes are on disk when this returns; cut short, nothing changes.
    ///
    /// # Errors
    /// [`BlobsError`], also when `bytes` fails.
    fn put_part(&self, upload: UploadId, number: u32, bytes: &mut dyn Read) -> Result<u64, BlobsError>;

    /// Reads parts `1..=parts` as one file.
    ///
    /// # Errors
    /// [`BlobsError`] when a part is missing or unreadable.
    fn open(&self, upload: UploadId, parts: u32) -> Result<Box<dyn ReadSeek>, BlobsError>;

    /// Removes all parts of an upload; removing nothing is fine.
    ///
    /// # Errors
    /// [`BlobsError`].
    fn remove(&self, upload: UploadId) -> Result<(), BlobsError>;

    /// The uploads that have bytes here.
    ///
    /// # Errors
    /// [`BlobsError`].
    fn list(&self) -> Result<Vec<UploadId>, BlobsError>;
}
