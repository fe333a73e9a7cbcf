//! A store in a folder, for one machine. Each object is a file.
//!
//! An object is written under a temporary name, synced, and then moved to its name, which fails if the name exists. The folders
//! on the way to it are synced, so that the name is durable, too. Folders are never removed: a process may remember that they are
//! durable.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, ObjectInfo, StoreError};
use branchyard_domain::values::{ObjectKey, Timestamp};
use parking_lot::Mutex;
use tempfile::NamedTempFile;

use crate::digest::Hasher;

/// Folder of files that are being written. No key begins with a dot.
const INCOMING: &str = ".incoming";

/// How old a file that is being written may be. An older one was left by a process that was killed.
const INCOMING_MAX_SECONDS: i64 = 24 * 60 * 60;

/// How many bytes are in memory at a time.
const PIECE: usize = 256 * 1_024;

/// How many folders are remembered as durable.
const DURABLE_MAX: usize = 100_000;

#[derive(Debug)]
pub(crate) struct FolderStore {
    root: PathBuf,
    incoming: PathBuf,
    /// The folders whose names are known to be durable.
    durable: Mutex<HashSet<PathBuf>>,
}

/// What a new file does to one that has its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Stays,
    IsReplaced,
}

impl FolderStore {
    /// Opens a store, and creates its folder if it does not exist. Removes what processes that were killed left.
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        let failed = |error| failed(&format!("cannot use the folder {}", root.display()), error);
        let created: Vec<&Path> = root.ancestors().take_while(|folder| !folder.is_dir()).collect();
        fs::create_dir_all(root.join(INCOMING)).map_err(failed)?;
        for above in created.iter().rev().filter_map(|folder| folder.parent()) {
            sync_folder(above).map_err(failed)?;
        }
        let root = root.canonicalize().map_err(failed)?;
        sync_folder(&root).map_err(failed)?;
        let store = Self { incoming: root.join(INCOMING), root, durable: Mutex::default() };
        store.remove_abandoned().map_err(failed)?;
        Ok(store)
    }

    fn remove_abandoned(&self) -> io::Result<()> {
        // The time of a new file is the present time of the file system, with whose times the others are compared.
        let now = modified(NamedTempFile::new_in(&self.incoming)?.as_file().metadata()?.modified()?);
        for entry in fs::read_dir(&self.incoming)? {
            let entry = entry?;
            // Another process may have linked or removed the file meanwhile.
            let Ok(time) = entry.metadata().and_then(|metadata| metadata.modified()) else { continue };
            if modified(time).plus_seconds(INCOMING_MAX_SECONDS) < now {
                ignore_absent(fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    fn open_file(&self, key: &ObjectKey) -> Result<(File, u64), StoreError> {
        let opened = File::open(self.path(key)).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((metadata, file)) if metadata.is_file() => Ok((file, metadata.len())),
            Ok(_) => Err(StoreError::NotFound(key.clone())),
            Err(error) if is_absent(&error) => Err(StoreError::NotFound(key.clone())),
            Err(error) => Err(failed(&format!("cannot open object {key}"), error)),
        }
    }

    /// Writes a file under a temporary name, and makes its bytes durable.
    fn write(&self, key: &ObjectKey, bytes: &mut dyn Read) -> Result<(NamedTempFile, ObjectDigest), StoreError> {
        let failed = |error| failed(&format!("cannot write object {key}"), error);
        let mut file = NamedTempFile::new_in(&self.incoming).map_err(failed)?;
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; PIECE];
        loop {
            let read = match bytes.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(StoreError::Io)?,
            };
            if read == 0 {
                break;
            }
            let piece = buffer.get(..read).unwrap_or_default();
            hasher.update(piece);
            file.write_all(piece).map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        Ok((file, hasher.finish()))
    }

    /// Moves a written file to its name, and makes the name durable.
    fn publish(&self, key: &ObjectKey, file: NamedTempFile, existing: Existing) -> Result<(), StoreError> {
        let failed = |error| failed(&format!("cannot store object {key}"), error);
        let path = self.path(key);
        let folder = path.parent().unwrap_or(&self.root);
        self.make_durable(folder).map_err(failed)?;
        let named = match existing {
            Existing::Stays => file.persist_noclobber(&path),
            Existing::IsReplaced => file.persist(&path),
        };
        match named {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                // The object may be that of a process that has not made its name durable yet.
                sync_folder(folder).map_err(failed)?;
                return Err(StoreError::Exists(key.clone()));
            }
            Err(error) => {
                self.durable.lock().remove(folder);
                return Err(failed(error.error));
            }
        }
        sync_folder(folder).map_err(failed)
    }

    /// Creates a folder of the store, and makes its name and those of the folders above it durable. Another process may have
    /// created them, and not synced them yet.
    fn make_durable(&self, folder: &Path) -> io::Result<()> {
        let is_durable = |folder: &Path| self.durable.lock().contains(folder);
        if folder == self.root || (is_durable(folder) && folder.is_dir()) {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        let made: Vec<&Path> = folder.ancestors().take_while(|above| *above != self.root).collect();
        for above in made.iter().rev().filter_map(|folder| folder.parent()) {
            sync_folder(above)?;
        }
        let mut durable = self.durable.lock();
        if durable.len() + made.len() > DURABLE_MAX {
            durable.clear();
        }
        durable.extend(made.into_iter().map(Path::to_owned));
        Ok(())
    }

    /// Lists the objects in a folder, whose keys begin with `prefix`, into `found`. `prefix` is empty or ends with `/`.
    fn list_folder(&self, prefix: &str, after: &str, limit: usize, found: &mut Vec<ObjectInfo>) -> io::Result<()> {
        let entries = match fs::read_dir(self.root.join(prefix)) {
            Err(error) if is_absent(&error) => return Ok(()),
            entries => entries?,
        };
        // A folder is ordered among its neighbors as its objects are, whose keys have a `/` after its name.
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            let is_folder = entry.file_type()?.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                names.push(format!("{prefix}{name}{}", if is_folder { "/" } else { "" }));
            }
        }
        names.sort_unstable();
        for name in names {
            if found.len() >= limit {
                break;
            }
            if let Some(folder) = name.strip_suffix('/') {
                if ObjectKey::parse(folder).is_ok() && (name.as_str() > after || after.starts_with(&name)) {
                    self.list_folder(&name, after, limit, found)?;
                }
            } else if name.as_str() > after
                && let Ok(key) = ObjectKey::parse(&name)
            {
                match fs::metadata(self.path(&key)).and_then(|metadata| info(&key, &metadata)) {
                    // Removed since the folder was read.
                    Err(error) if is_absent(&error) => {}
                    result => found.push(result?),
                }
            }
        }
        Ok(())
    }
}

fn failed(context: &str, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::rejected(
            format!("{context}: let the server's user read and write the folder of the store and all files in it"),
            error,
        ),
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            StoreError::rejected(
                format!("{context}: a file has the name of a folder of the store, or the other way around; remove it"),
                error,
            )
        }
        _ => StoreError::unavailable(context, error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    // Instead of a folder on the way to an object there may be another object.
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn ignore_absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if is_absent(&error) => Ok(()),
        result => result,
    }
}

/// Makes new names in a folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn modified(time: SystemTime) -> Timestamp {
    let micros = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    };
    Timestamp::from_micros(micros)
}

fn info(key: &ObjectKey, metadata: &fs::Metadata) -> io::Result<ObjectInfo> {
    Ok(ObjectInfo { key: key.clone(), length: metadata.len(), modified: modified(metadata.modified()?) })
}

impl DatabaseStore for FolderStore {
    fn put(&self, key: &ObjectKey, mut bytes: &[u8]) -> Result<ObjectDigest, StoreError> {
        let (file, digest) = self.write(key, &mut bytes)?;
        self.publish(key, file, Existing::Stays)?;
        Ok(digest)
    }

    fn put_from(&self, key: &ObjectKey, length: u64, from: &mut dyn Read) -> Result<ObjectDigest, StoreError> {
        let (file, digest) = self.write(key, &mut from.take(length))?;
        if digest.length < length {
            return Err(StoreError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.publish(key, file, Existing::Stays)?;
        Ok(digest)
    }

    fn replace(&self, key: &ObjectKey, mut bytes: &[u8]) -> Result<(), StoreError> {
        let (file, _) = self.write(key, &mut bytes)?;
        self.publish(key, file, Existing::IsReplaced)
    }

    fn info(&self, key: &ObjectKey) -> Result<ObjectInfo, StoreError> {
        let (file, _) = self.open_file(key)?;
        let found = file.metadata().and_then(|metadata| info(key, &metadata));
        found.map_err(|error| failed(&format!("cannot look at object {key}"), error))
    }

    fn read(&self, key: &ObjectKey, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let (mut file, length) = self.open_file(key)?;
        // Before memory is taken for it.
        if range.end > length {
            return Err(StoreError::damaged(key, format!("it has {length} bytes, and {range:?} were wanted")));
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        let read = file.seek(SeekFrom::Start(range.start)).and_then(|_| file.read_exact(&mut bytes));
        match read {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(StoreError::damaged(key, "it was shortened while it was read"))
            }
            Err(error) => Err(failed(&format!("cannot read object {key}"), error)),
        }
    }

    fn read_into(&self, key: &ObjectKey, to: &mut dyn Write) -> Result<ObjectDigest, StoreError> {
        let (mut file, length) = self.open_file(key)?;
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; PIECE];
        loop {
            let read = match file.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| failed(&format!("cannot read object {key}"), error))?,
            };
            if read == 0 {
                break;
            }
            let piece = buffer.get(..read).unwrap_or_default();
            hasher.update(piece);
            to.write_all(piece)?;
        }
        let digest = hasher.finish();
        match digest.length == length {
            true => Ok(digest),
            false => Err(StoreError::damaged(key, "its length changed while it was read")),
        }
    }

    fn list(
        &self,
        below: Option<&ObjectKey>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        let prefix = below.map(|key| format!("{key}/")).unwrap_or_default();
        let mut found = Vec::new();
        self.list_folder(&prefix, after.map_or("", ObjectKey::as_str), limit, &mut found)
            .map_err(|error| failed("cannot list objects", error))?;
        Ok(found)
    }

    fn remove(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let mut folders = HashSet::new();
        for key in keys {
            let path = self.path(key);
            match fs::remove_file(&path) {
                Ok(()) => folders.extend(path.parent().map(Path::to_owned)),
                result => {
                    ignore_absent(result).map_err(|error| failed(&format!("cannot remove object {key}"), error))?
                }
            }
        }
        for folder in folders {
            sync_folder(&folder).map_err(|error| failed("cannot remove objects", error))?;
        }
        Ok(())
    }
}
