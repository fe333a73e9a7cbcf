//! In-memory storage for upload parts and backup files.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};

use parking_lot::Mutex;

use branchyard_deployments::ports::{BackupFile, BackupFiles};
use branchyard_deployments::values::{BackupId, DeploymentId, ServedName};
use branchyard_domain::ports::{Blobs, BlobsError, ReadSeek};
use branchyard_domain::values::UploadId;

/// An in-memory blob store.
#[derive(Debug, Default)]
pub struct MemoryBlobs {
    parts: Mutex<BTreeMap<(UploadId, u32), Vec<u8>>>,
    backups: Mutex<BTreeMap<BackupFile, Vec<u8>>>,
}

/// Names that differ in case only are one name.
fn canonical(file: &BackupFile) -> BackupFile {
    let database = ServedName::parse(&file.database.key()).unwrap_or_else(|_| file.database.clone());
    BackupFile { database, ..file.clone() }
}

fn failed(context: &str, source: io::Error) -> BlobsError {
    BlobsError { context: context.to_owned(), full: false, temporary: false, source }
}

impl Blobs for MemoryBlobs {
    fn put_part(&self, upload: UploadId, number: u32, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let mut part = Vec::new();
        bytes.read_to_end(&mut part).map_err(|error| failed("take a part", error))?;
        let size = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.parts.lock().insert((upload, number), part);
        Ok(size)
    }

    fn open(&self, upload: UploadId, parts: u32) -> Result<Box<dyn ReadSeek>, BlobsError> {
        let stored = self.parts.lock();
        let mut whole = Vec::new();
        for number in 1..=parts {
            let missing = || failed("open an upload", io::Error::new(io::ErrorKind::NotFound, "a part is missing"));
            whole.extend_from_slice(stored.get(&(upload, number)).ok_or_else(missing)?);
        }
        Ok(Box::new(Cursor::new(whole)))
    }

    fn remove(&self, upload: UploadId) -> Result<(), BlobsError> {
        self.parts.lock().retain(|(id, _), _| *id != upload);
        Ok(())
    }

    fn list(&self) -> Result<Vec<UploadId>, BlobsError> {
        let mut ids: Vec<UploadId> = self.parts.lock().keys().map(|(id, _)| *id).collect();
        ids.dedup();
        Ok(ids)
    }
}

impl BackupFiles for MemoryBlobs {
    fn put_backup(&self, file: &BackupFile, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let mut content = Vec::new();
        bytes.read_to_end(&mut content).map_err(|error| failed("take a file of a backup", error))?;
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        self.backups.lock().insert(canonical(file), content);
        Ok(size)
    }

    fn open_backup(&self, file: &BackupFile) -> Result<Box<dyn ReadSeek>, BlobsError> {
        let missing = || failed("open a file of a backup", io::Error::new(io::ErrorKind::NotFound, "it is missing"));
        let content = self.backups.lock().get(&canonical(file)).cloned().ok_or_else(missing)?;
        Ok(Box::new(Cursor::new(content)))
    }

    fn list_backups(&self) -> Result<Vec<BackupFile>, BlobsError> {
        Ok(self.backups.lock().keys().cloned().collect())
    }

    fn remove_backup(&self, deployment: DeploymentId, backup: BackupId) -> Result<(), BlobsError> {
        self.backups.lock().retain(|file, _| (file.deployment, file.backup) != (deployment, backup));
        Ok(())
    }
}
