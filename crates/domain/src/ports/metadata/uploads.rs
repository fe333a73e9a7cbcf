//! Upload sessions.

use super::Result;
use crate::entities::{Upload, UploadPart};
use crate::values::{AccountId, OperationId, Timestamp, UploadId};

/// The repository of upload sessions.
pub trait UploadRepository {
    /// Adds an upload session.
    fn add(&mut self, upload: &Upload) -> Result<()>;
    /// Returns an upload session with its parts.
    fn get(&mut self, id: UploadId) -> Result<Option<Upload>>;
    /// Records an uploaded part. Replaces an earlier part with the same number.
    fn put_part(&mut self, id: UploadId, part: &UploadPart) -> Result<()>;
    /// Marks an upload session as used by an import. Returns `false` if it is already used or does not exist.
    fn bind(&mut self, id: UploadId, operation: OperationId) -> Result<bool>;
    /// Counts the unused, unexpired upload sessions of a user.
    fn count_open(&mut self, user: AccountId, now: Timestamp) -> Result<u64>;
    /// Removes an upload session.
    fn remove(&mut self, id: UploadId) -> Result<()>;
    /// Lists upload sessions to clean up: unused ones that expired, and those whose import is settled or gone.
    fn abandoned(&mut self, now: Timestamp, limit: usize) -> Result<Vec<UploadId>>;
}
