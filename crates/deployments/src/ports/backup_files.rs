//! The port for the storage of backups.

use std::io::Read;

use branchyard_domain::ports::{BlobsError, ReadSeek};

use super::BackupFile;
use crate::values::{BackupId, DeploymentId};

/// The files of backups.
pub trait BackupFiles: Send + Sync {
    /// Stores a file of a backup and returns its size in bytes. An existing file is replaced as a whole. The bytes are
    /// on disk when the method returns. If the write is interrupted, nothing changes.
    ///
    /// # Errors
    /// [`BlobsError`] if the write fails, or if reading `bytes` fails.
    fn put_backup(&self, file: &BackupFile, bytes: &mut dyn Read) -> Result<u64, BlobsError>;

    /// Opens a file of a backup.
    ///
    /// # Errors
    /// [`BlobsError`] if the file is missing or unreadable.
    fn open_backup(&self, file: &BackupFile) -> Result<Box<dyn ReadSeek>, BlobsError>;

    /// Lists all files of all backups, in the order of their names.
    ///
    /// # Errors
    /// [`BlobsError`] if the store cannot be read.
    fn list_backups(&self) -> Result<Vec<BackupFile>, BlobsError>;

    /// Removes all files of a backup. Succeeds if there are none.
    ///
    /// # Errors
    /// [`BlobsError`] if a file cannot be removed.
    fn remove_backup(&self, deployment: DeploymentId, backup: BackupId) -> Result<(), BlobsError>;
}
