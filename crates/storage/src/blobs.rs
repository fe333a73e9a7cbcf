//! The blob ports on folders: uploads as `<dir>/<upload>/<part>`, and the files of backups.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use branchyard_deployments::ports::{BackupFile, BackupFiles as BackupFilesPort};
use branchyard_deployments::values::{BackupId, DeploymentId};
use branchyard_domain::ports::{Blobs, BlobsError, ReadSeek};
use branchyard_domain::values::UploadId;

use crate::backup_files::BackupFolder;

/// Uploads in progress and files of backups, in folders that only this process uses.
#[derive(Debug)]
pub struct FolderBlobs {
    dir: PathBuf,
    backups: BackupFolder,
}

impl FolderBlobs {
    /// Opens the folders `dir` for uploads and `backups` for files of backups. Creates a folder that does not exist.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be created.
    pub fn open(dir: PathBuf, backups: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, backups: BackupFolder::open(backups)? })
    }

    fn folder(&self, upload: UploadId) -> PathBuf {
        self.dir.join(upload.to_string())
    }

    fn part(&self, upload: UploadId, number: u32) -> PathBuf {
        self.folder(upload).join(number.to_string())
    }
}

pub(crate) fn failed(context: impl Into<String>) -> impl FnOnce(io::Error) -> BlobsError {
    let context = context.into();
    move |source| BlobsError { context, full: source.kind() == io::ErrorKind::StorageFull, temporary: false, source }
}

/// Makes new names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Blobs for FolderBlobs {
    fn put_part(&self, upload: UploadId, number: u32, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let folder = self.folder(upload);
        fs::create_dir_all(&folder).map_err(failed("make the folder of an upload"))?;
        // Written under a temporary name: two attempts to upload the same part may overlap, and the last complete one
        // wins.
        let mut temporary = tempfile::NamedTempFile::new_in(&folder).map_err(failed("begin a part"))?;
        let size = io::copy(bytes, temporary.as_file_mut()).map_err(failed("write a part"))?;
        temporary.as_file().sync_all().map_err(failed("sync a part"))?;
        temporary.persist(self.part(upload, number)).map_err(|error| failed("name a part")(error.error))?;
        sync_folder(&folder).and_then(|()| sync_folder(&self.dir)).map_err(failed("sync the folder of an upload"))?;
        Ok(size)
    }

    fn open(&self, upload: UploadId, parts: u32) -> Result<Box<dyn ReadSeek>, BlobsError> {
        let mut all = Vec::new();
        let mut end = 0;
        for number in 1..=parts {
            let path = self.part(upload, number);
            end += fs::metadata(&path).map_err(failed("open an upload"))?.len();
            all.push(BlobPart { path, end });
        }
        Ok(Box::new(JoinedParts { all, position: 0, current: None }))
    }

    fn remove(&self, upload: UploadId) -> Result<(), BlobsError> {
        match fs::remove_dir_all(self.folder(upload)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove an upload")(error)),
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<UploadId>, BlobsError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed("list uploads"))? {
            let name = entry.map_err(failed("list uploads"))?.file_name();
            if let Some(id) = name.to_str().and_then(|name| UploadId::parse(name).ok()) {
                found.push(id);
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

impl BackupFilesPort for FolderBlobs {
    fn put_backup(&self, file: &BackupFile, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        self.backups.put(file, bytes)
    }

    fn open_backup(&self, file: &BackupFile) -> Result<Box<dyn ReadSeek>, BlobsError> {
        self.backups.open_file(file)
    }

    fn list_backups(&self) -> Result<Vec<BackupFile>, BlobsError> {
        self.backups.list()
    }

    fn remove_backup(&self, deployment: DeploymentId, backup: BackupId) -> Result<(), BlobsError> {
        self.backups.remove(deployment, backup)
    }
}

/// A part, and the offset of its end in the whole upload.
struct BlobPart {
    path: PathBuf,
    end: u64,
}

/// All parts as one file, with at most one part open at a time.
struct JoinedParts {
    all: Vec<BlobPart>,
    position: u64,
    /// Index and file of the open part. The file is positioned at `position`.
    current: Option<(usize, File)>,
}

impl JoinedParts {
    fn length(&self) -> u64 {
        self.all.last().map_or(0, |part| part.end)
    }
}

impl Read for JoinedParts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.all.partition_point(|part| part.end <= self.position);
        let Some(part) = self.all.get(at) else { return Ok(0) };
        let file = match &mut self.current {
            Some((open, file)) if *open == at => file,
            current => {
                let start = at.checked_sub(1).map_or(0, |before| self.all[before].end);
                let mut file = File::open(&part.path)?;
                file.seek(SeekFrom::Start(self.position - start))?;
                &mut current.insert((at, file)).1
            }
        };
        let read = file.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a part is shorter than it was"));
        }
        self.position += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}

impl Seek for JoinedParts {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let position =
            position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a place before the start"))?;
        if position != self.position {
            self.position = position;
            self.current = None;
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use branchyard_domain::ports::Blobs;
    use branchyard_domain::values::UploadId;
    use branchyard_domain_testing::suites;
    use uuid::Uuid;

    use super::FolderBlobs;

    fn folder() -> (tempfile::TempDir, FolderBlobs) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(dir.path().join("uploads"), dir.path().join("backups")).unwrap();
        (dir, blobs)
    }

    #[test]
    fn folders_keep_every_promise() {
        let (_dir, blobs) = folder();
        suites::blobs::run_all(&blobs);
    }

    #[test]
    fn a_part_cut_short_changes_nothing() {
        struct Cut(bool);
        impl Read for Cut {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                if self.0 {
                    return Err(std::io::Error::other("gone"));
                }
                self.0 = true;
                buffer[0] = b'x';
                Ok(1)
            }
        }
        let (_dir, blobs) = folder();
        let id = UploadId::from_uuid(Uuid::from_u128(8));
        blobs.put_part(id, 1, &mut "whole".as_bytes()).unwrap();
        blobs.put_part(id, 1, &mut Cut(false)).unwrap_err();
        let files = std::fs::read_dir(blobs.folder(id)).unwrap().count();
        assert_eq!(files, 1, "the temporary file is gone");
    }
}
