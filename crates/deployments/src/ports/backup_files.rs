//! Where backups are kept.

use std::io::Read;

use branchyard_domain::ports::{BlobsError, ReadSeek};

use super::BackupFile;
use crate::values::{BackupId, DeploymentId};

/// The files of backups.
pub trait BackupFiles: Send + Sync {
    /// Keeps a file of a backup, replacing an earlier one whole. The bytes are on disk when this returns; cut short, nothing
    /// changes.
    ///
    /// # Errors
    /// [`BlobsError`], also when `bytes` fails.
    fn put_backup(&self, file: &BackupFile, bytes: &mut dyn Read) -> Result<u64, BlobsError>;

    /// Reads a file of a backup.
    ///
    /// # Errors
    /// [`BlobsError`] when it is missing or unreadable.
    fn open_backup(&self, file: &BackupFile) -> Result<Box<dyn ReadSeek>, BlobsError>;

    /// Removes all files of a backup; removing nothing is fine.
    ///
    /// # Errors
    /// [`BlobsError`].
    fn remove_backup(&self, deployment: DeploymentId, backup: BackupId) -> Result<(), BlobsError>;
}
