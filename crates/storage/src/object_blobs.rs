//! The blob ports on a store of objects, which several servers may share.
//!
//! An object is immutable, and its key is used once. A file that is stored again is therefore a further *version*, under the key
//! `<folder>/<name>.<sequence>.<uuid>`: the sequence is one above that of the versions that exist, and the version that is last in the
//! order of keys is in force. A request whose answer was lost, and which takes effect later, so never replaces a version that was
//! stored in the meantime. Of versions that are stored at the same time, any one is in force, the same for every reader. If objects are
//! sealed, `.sealed-<length>-<data key>` follows.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchyard_deployments::ports::{BackupFile, BackupFiles};
use branchyard_deployments::values::{BackupId, DeploymentId};
use branchyard_domain::ports::{Blobs, BlobsError, Clock, DatabaseStore, Ids, ObjectInfo, ReadSeek, StoreError};
use branchyard_domain::values::{DataKeyScope, ObjectKey, ObjectSeal, Timestamp, UploadId};
use tempfile::SpooledTempFile;

use crate::backup_files::{backup_file, stored_name};
use crate::blobs::failed;

/// Folders of the objects.
const UPLOADS: &str = "uploads";
const BACKUPS: &str = "backups";
/// Length in bytes up to which a file is stored from memory. A longer one is written to a temporary file first, because the store
/// has to know its length.
const IN_MEMORY_MAX: usize = 64 << 10;
/// How many objects are listed at once.
const PAGE: usize = 1_000;
/// How many versions of one file are listed at once. There is rarely more than one.
const VERSIONS: usize = 10;
/// Bytes that a reader fetches at once: at first and after each seek, and at most if it goes on reading.
const FETCH_MIN: u64 = 64 << 10;
const FETCH_MAX: u64 = 4 << 20;

/// Uploads in progress and files of backups, in a store of objects.
pub struct ObjectBlobs {
    store: Arc<dyn DatabaseStore>,
    spool: PathBuf,
    grace_seconds: i64,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// The objects of one file of an upload or backup.
struct Slot {
    scope: DataKeyScope,
    folder: ObjectKey,
    name: String,
}

/// The key of a version, without its folder.
struct VersionName<'a> {
    name: &'a str,
    sequence: u64,
}

impl<'a> VersionName<'a> {
    /// Parses the last segment of a key. Returns `None` if it is not that of a version.
    fn of(key: &'a ObjectKey) -> Option<Self> {
        let (_, last) = key.as_str().rsplit_once('/')?;
        let mut parts = last.split('.');
        let (name, sequence) = (parts.next()?, parts.next()?);
        let expected = if key.seal().is_some() { 2 } else { 1 };
        (parts.count() == expected).then_some(())?;
        Some(Self { name, sequence: sequence.parse().ok()? })
    }
}

impl ObjectBlobs {
    /// Creates the ports on a store. `spool` is a local folder for temporary files; it is created if it does not exist. An upload
    /// without a session counts as abandoned once all its parts are older than `grace_seconds`, by the clocks of this server and of
    /// the store.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn open(
        store: Arc<dyn DatabaseStore>,
        spool: PathBuf,
        grace_seconds: i64,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(&spool)?;
        Ok(Self { store, spool, grace_seconds, clock, ids })
    }

    fn put(&self, slot: &Slot, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let (mut file, length) = spooled(&self.spool, bytes)?;
        let earlier = self.versions(&slot.folder, &slot.name)?;
        let last = earlier.last().and_then(VersionName::of).map_or(0, |version| version.sequence);
        let id = self.ids.uuid(self.clock.now());
        let clear = key(slot.folder.join(&format!("{}.{:010}.{id}", slot.name, last.saturating_add(1))))?;
        let key = match self.store.data_key(slot.scope).map_err(not_stored("store a file"))? {
            Some(data_key) => key(clear.sealed(ObjectSeal { length, key: data_key }))?,
            None => clear,
        };
        if let Err(error) = self.store.put_from(&key, length, &mut file) {
            // The answer may have been lost. If this fails too, the caller's next attempt replaces the version.
            let _ = self.store.remove(&[key]);
            return Err(not_stored("store a file")(error));
        }
        // They are not in force any more. If this fails, they are removed with the next version, or with the whole folder.
        let _ = self.store.remove(&earlier);
        Ok(length)
    }

    /// Returns the keys of the versions of a file. The last one is in force.
    fn versions(&self, folder: &ObjectKey, name: &str) -> Result<Vec<ObjectKey>, BlobsError> {
        let mut found: Vec<ObjectKey> = Vec::new();
        // No version has this key, and all have later ones.
        let mut after = key(folder.join(name))?;
        loop {
            let page = self.store.list(Some(folder), Some(&after), VERSIONS).map_err(not_stored("list a file"))?;
            let is_last = page.len() < VERSIONS;
            let count = page.len();
            let belongs = |info: &ObjectInfo| VersionName::of(&info.key).is_some_and(|version| version.name == name);
            let own: Vec<ObjectKey> = page.into_iter().take_while(belongs).map(|info| info.key).collect();
            let is_end = is_last || own.len() < count;
            found.extend(own);
            match found.last() {
                Some(last) if !is_end => after.clone_from(last),
                _ => return Ok(found),
            }
        }
    }

    /// Calls `each` with every object in a folder, in the order of keys.
    fn for_each(&self, folder: &ObjectKey, mut each: impl FnMut(ObjectInfo)) -> Result<(), BlobsError> {
        let mut after: Option<ObjectKey> = None;
        loop {
            let page = self.store.list(Some(folder), after.as_ref(), PAGE).map_err(not_stored("list files"))?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|info| info.key.clone());
            page.into_iter().for_each(&mut each);
            if is_last {
                return Ok(());
            }
        }
    }

    fn remove_folder(&self, folder: &ObjectKey) -> Result<(), BlobsError> {
        let mut keys = Vec::new();
        self.for_each(folder, |info| keys.push(info.key))?;
        keys.chunks(PAGE).try_for_each(|keys| self.store.remove(keys)).map_err(not_stored("remove files"))
    }

    fn reader(&self, files: Vec<ObjectInfo>) -> Box<dyn ReadSeek> {
        let mut end = 0;
        let add = |ObjectInfo { key, length, .. }| {
            end += length;
            StoredPart { key, end }
        };
        let parts = files.into_iter().map(add).collect();
        Box::new(JoinedObjects {
            store: Arc::clone(&self.store),
            parts,
            position: 0,
            fetched: Vec::new(),
            start: 0,
            next_length: FETCH_MIN,
        })
    }
}

/// Reads all bytes, and returns them for reading, with their number.
fn spooled(folder: &Path, bytes: &mut dyn Read) -> Result<(SpooledTempFile, u64), BlobsError> {
    let mut file = tempfile::spooled_tempfile_in(IN_MEMORY_MAX, folder);
    let length = io::copy(bytes, &mut file).map_err(failed("receive a file"))?;
    file.rewind().map_err(failed("read a temporary file"))?;
    Ok((file, length))
}

fn not_stored(context: &'static str) -> impl FnOnce(StoreError) -> BlobsError {
    move |error| BlobsError {
        context: context.to_owned(),
        full: error.is_full(),
        temporary: error.is_temporary(),
        source: io_error(error),
    }
}

fn io_error(error: StoreError) -> io::Error {
    match error {
        StoreError::Io(error) => error,
        StoreError::NotFound(_) => io::Error::new(io::ErrorKind::NotFound, error),
        error => io::Error::other(error),
    }
}

/// Ids and encoded names make keys of objects. An error would be a fault of this program.
fn key<E: std::error::Error + Send + Sync + 'static>(key: Result<ObjectKey, E>) -> Result<ObjectKey, BlobsError> {
    key.map_err(io::Error::other).map_err(failed("name an object"))
}

fn missing(context: &str) -> BlobsError {
    failed(context)(io::Error::new(io::ErrorKind::NotFound, "it is missing"))
}

fn upload_folder(upload: UploadId) -> Result<ObjectKey, BlobsError> {
    key(ObjectKey::parse(&format!("{UPLOADS}/{upload}")))
}

fn part_name(number: u32) -> String {
    format!("{number:010}")
}

fn backup_folder(deployment: DeploymentId, backup: BackupId) -> Result<ObjectKey, BlobsError> {
    key(ObjectKey::parse(&format!("{BACKUPS}/{deployment}/{backup}")))
}

impl Blobs for ObjectBlobs {
    fn put_part(&self, upload: UploadId, number: u32, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let slot = Slot { scope: DataKeyScope::Uploads, folder: upload_folder(upload)?, name: part_name(number) };
        self.put(&slot, bytes)
    }

    fn open(&self, upload: UploadId, parts: u32) -> Result<Box<dyn ReadSeek>, BlobsError> {
        let mut found = BTreeMap::new();
        self.for_each(&upload_folder(upload)?, |info| {
            if let Some(name) = VersionName::of(&info.key).map(|version| version.name.to_owned()) {
                found.insert(name, info);
            }
        })?;
        let part = |number| found.remove(&part_name(number)).ok_or_else(|| missing("open an upload"));
        Ok(self.reader((1..=parts).map(part).collect::<Result<_, _>>()?))
    }

    fn remove(&self, upload: UploadId) -> Result<(), BlobsError> {
        self.remove_folder(&upload_folder(upload)?)
    }

    fn list(&self) -> Result<Vec<UploadId>, BlobsError> {
        let mut newest: BTreeMap<UploadId, Timestamp> = BTreeMap::new();
        self.for_each(&key(ObjectKey::parse(UPLOADS))?, |info| {
            let id = info.key.as_str().split('/').nth(1).and_then(|id| UploadId::parse(id).ok());
            if let Some(id) = id {
                let at = newest.entry(id).or_insert(info.modified);
                *at = info.modified.max(*at);
            }
        })?;
        let abandoned_before = self.clock.now().plus_seconds(-self.grace_seconds);
        Ok(newest.into_iter().filter(|(_, at)| *at < abandoned_before).map(|(id, _)| id).collect())
    }
}

impl BackupFiles for ObjectBlobs {
    fn put_backup(&self, file: &BackupFile, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let folder = backup_folder(file.deployment, file.backup)?;
        self.put(&Slot { scope: DataKeyScope::Backups, folder, name: stored_name(&file.database) }, bytes)
    }

    fn open_backup(&self, file: &BackupFile) -> Result<Box<dyn ReadSeek>, BlobsError> {
        let folder = backup_folder(file.deployment, file.backup)?;
        let versions = self.versions(&folder, &stored_name(&file.database))?;
        let newest = versions.last().ok_or_else(|| missing("open a file of a backup"))?;
        let info = self.store.info(newest).map_err(not_stored("open a file of a backup"))?;
        Ok(self.reader(vec![info]))
    }

    fn list_backups(&self) -> Result<Vec<BackupFile>, BlobsError> {
        let mut found = Vec::new();
        self.for_each(&key(ObjectKey::parse(BACKUPS))?, |info| {
            let mut segments = info.key.as_str().split('/').skip(1);
            let deployment = segments.next().and_then(|id| DeploymentId::parse(id).ok());
            let backup = segments.next().and_then(|id| BackupId::parse(id).ok());
            if let (Some(deployment), Some(backup), Some(version)) = (deployment, backup, VersionName::of(&info.key)) {
                found.extend(backup_file(deployment, backup, version.name));
            }
        })?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn remove_backup(&self, deployment: DeploymentId, backup: BackupId) -> Result<(), BlobsError> {
        self.remove_folder(&backup_folder(deployment, backup)?)
    }
}

/// An object, and the offset of its end in the whole file.
struct StoredPart {
    key: ObjectKey,
    end: u64,
}

/// Objects as one file. A piece of one of them is in memory.
struct JoinedObjects {
    store: Arc<dyn DatabaseStore>,
    parts: Vec<StoredPart>,
    position: u64,
    /// Bytes of the file from `start` on.
    fetched: Vec<u8>,
    start: u64,
    /// How many bytes are fetched next.
    next_length: u64,
}

impl JoinedObjects {
    fn length(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// Returns the fetched bytes at the position.
    fn available(&self) -> &[u8] {
        let offset = self.position.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.fetched.get(offset..)).unwrap_or_default()
    }

    /// Fetches bytes at the position. Fetches nothing at the end of the file.
    fn fetch(&mut self) -> io::Result<()> {
        let at = self.parts.partition_point(|part| part.end <= self.position);
        let Some(part) = self.parts.get(at) else { return Ok(()) };
        let is_sequential = self.position == self.start + bytes_of(&self.fetched);
        self.next_length = if is_sequential { (self.next_length * 2).min(FETCH_MAX) } else { FETCH_MIN };
        let part_start = at.checked_sub(1).and_then(|before| self.parts.get(before)).map_or(0, |before| before.end);
        let end = part.end.min(self.position.saturating_add(self.next_length));
        self.fetched = self.store.read(&part.key, self.position - part_start..end - part_start).map_err(io_error)?;
        self.start = self.position;
        Ok(())
    }
}

fn bytes_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Read for JoinedObjects {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.available().is_empty() && !buffer.is_empty() {
            self.fetch()?;
        }
        let read = self.available().read(buffer)?;
        self.position += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}

impl Seek for JoinedObjects {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position =
            position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a place before the start"))?;
        Ok(self.position)
    }
}
