//! Uploads in flight.

use super::Result;
use crate::entities::{Upload, UploadPart};
use crate::values::{AccountId, OperationId, Timestamp, UploadId};

/// Uploads in flight.
pub trait UploadRepository {
    /// Opens a session.
    fn add(&mut self, upload: &Upload) -> Result<()>;
    /// A session with its parts.
    fn get(&mut self, id: UploadId) -> Result<Option<Upload>>;
    /// Notes a part that has arrived, replacing an earlier one of its number.
    fn put_part(&mut self, id: UploadId, part: &UploadPart) -> Result<()>;
    /// Marks a session as used by an import; gives whether it was unused.
    fn bind(&mut self, id: UploadId, operation: OperationId) -> Result<bool>;
    /// How many unused, unexpired sessions a user has.
    fn count_open(&mut self, user: AccountId, now: Timestamp) -> Result<u64>;
    /// Removes a session.
    fn remove(&mut self, id: UploadId) -> Result<()>;
    /// Sessions to collect: unused ones that expired, and those whose import is settled or gone.
    fn abandoned(&mut self, now: Timestamp, limit: usize) -> Result<Vec<UploadId>>;
}
