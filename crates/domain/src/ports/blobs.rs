//! The blob port: parts of uploads.

use std::io::{Read, Seek};

use crate::values::UploadId;

/// An error of the blob store, for the operator.
#[derive(Debug, thiserror::Error)]
#[error("the blob store failed: {context}")]
pub struct BlobsError {
    /// The operation that failed.
    pub context: String,
    /// Whether the store ran out of space.
    pub full: bool,
    /// Whether the store was not available, and a later try may succeed.
    pub temporary: bool,
    /// The cause.
    #[source]
    pub source: std::io::Error,
}

/// Seekable bytes. Some formats have their index at the end of the file.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A store for the parts of uploads.
pub trait Blobs: Send + Sync {
    /// Stores a part and returns its size in bytes. Replaces an earlier part with the same number atomically. The
    /// bytes are durable when the call returns; an interrupted call changes nothing.
    ///
    /// # Errors
    /// [`BlobsError`], also if reading `bytes` fails.
    fn put_part(&self, upload: UploadId, number: u32, bytes: &mut dyn Read) -> Result<u64, BlobsError>;

    /// Opens parts `1..=parts` as one file.
    ///
    /// # Errors
    /// [`BlobsError`] if a part is missing or unreadable.
    fn open(&self, upload: UploadId, parts: u32) -> Result<Box<dyn ReadSeek>, BlobsError>;

    /// Removes all parts of an upload. Does nothing if there are none.
    ///
    /// # Errors
    /// [`BlobsError`].
    fn remove(&self, upload: UploadId) -> Result<(), BlobsError>;

    /// Lists the uploads that have parts in the store. A store that several servers share leaves out those of which a part is so
    /// new that another server may not have recorded the upload yet.
    ///
    /// # Errors
    /// [`BlobsError`].
    fn list(&self) -> Result<Vec<UploadId>, BlobsError>;
}
