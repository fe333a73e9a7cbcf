//! The data folder: its layout, the lock that reserves it for one server, and the key ring.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_domain::ports::Ids;
use branchyard_domain::values::Timestamp;

use crate::key_ring::{KeyRing, RingKey};

/// The folder that holds all server state.
#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

/// An exclusive lock on the data folder, held while the server runs.
#[derive(Debug)]
pub struct DataDirLock(#[expect(dead_code, reason = "dropping it releases the lock")] File);

impl DataDir {
    /// Opens the data folder, creating it if missing.
    ///
    /// # Errors
    /// Fails if the folder cannot be created.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot create the data folder {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Returns the path of the metadata file, which is used unless another store is configured.
    pub fn metadata(&self) -> PathBuf {
        self.0.join("metadata.sqlite")
    }

    /// Returns the folder of the engine, which holds one file per database.
    pub fn databases(&self) -> PathBuf {
        self.0.join("databases")
    }

    /// Returns the folder in which commands keep copies of databases of a store while they run.
    pub fn copies(&self) -> PathBuf {
        self.0.join("copies")
    }

    /// Returns the folder of the chunks of pushes.
    pub fn pushed_chunks(&self) -> PathBuf {
        self.0.join("pushed-chunks")
    }

    /// Returns the folder of uploads in flight.
    pub fn uploads(&self) -> PathBuf {
        self.0.join("uploads")
    }

    /// Returns the folder of deployment backups.
    pub fn backups(&self) -> PathBuf {
        self.0.join("backups")
    }

    /// Returns the folder of deployment instances.
    pub fn deployments(&self) -> PathBuf {
        self.0.join("deployments")
    }

    /// Locks the folder for this process: the engine's files must belong to one process only.
    ///
    /// # Errors
    /// Fails if another server holds the lock, or if the lock file cannot be opened.
    pub fn lock(&self) -> anyhow::Result<DataDirLock> {
        let Some(lock) = self.try_lock()? else {
            bail!("another server uses the data folder {}; stop it, or choose another --data-dir", self.0.display())
        };
        Ok(lock)
    }

    /// Locks the folder as [`DataDir::lock`] does, or returns `None` if another server holds the lock.
    ///
    /// # Errors
    /// Fails if the lock file cannot be opened.
    pub fn try_lock(&self) -> anyhow::Result<Option<DataDirLock>> {
        let path = self.0.join("server.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DataDirLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Binds the folder to a metadata store, or checks that the folder is bound to that store. With another metadata store, all
    /// databases in the folder would look unreferenced and would be deleted.
    ///
    /// # Errors
    /// Fails if the folder belongs to another metadata store.
    pub fn bind(&self, installation: &str, has_databases: bool) -> anyhow::Result<()> {
        let path = self.0.join("installation");
        match fs::read_to_string(&path) {
            Ok(bound) if bound.trim() == installation => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !has_databases => {
                write_durably(&path, installation.as_bytes())
                    .with_context(|| format!("cannot write {}", path.display()))
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot read {}", path.display()))
            }
            _ => bail!(
                "the data folder {} holds the databases of another metadata store; set metadata_url to that store, or choose another --data-dir",
                self.0.display()
            ),
        }
    }

    /// Returns the path of the file with the node id.
    pub fn node_file(&self) -> PathBuf {
        self.0.join("node")
    }

    /// Returns the node id, which identifies this folder among those that share a metadata store. Creates the id from `fresh` on
    /// first use. Leases and instances are recovered by node id, so the id is created only once, even by concurrent processes.
    ///
    /// # Errors
    /// Fails if the id cannot be read or written, or if the file is empty.
    pub fn node(&self, fresh: &str) -> anyhow::Result<String> {
        let path = self.node_file();
        if !path.exists() {
            let made = create_once(&path, fresh, fresh.as_bytes());
            made.with_context(|| format!("cannot write {}", path.display()))?;
        }
        let node = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match node.trim() {
            "" => {
                bail!("{} is empty; restore it, because leases and deployments refer to the id in it", path.display())
            }
            node => Ok(node.to_owned()),
        }
    }

    /// Returns the path of the file with the key ring.
    pub fn key_ring_file(&self) -> PathBuf {
        self.0.join("server.key")
    }

    /// Creates the key ring with one key if there is no file, only once even by concurrent processes.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create_key_ring(&self, ids: &dyn Ids, now: Timestamp) -> anyhow::Result<()> {
        let path = self.key_ring_file();
        if !path.exists() {
            let key = new_key(ids, now)?;
            let suffix = key.sealed_as();
            let text = KeyRing::of(key).to_text();
            create_once(&path, &suffix, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Reads the key ring.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a key ring.
    pub fn key_ring(&self) -> anyhow::Result<KeyRing> {
        let path = self.key_ring_file();
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        KeyRing::parse(&bytes).with_context(|| format!("{} is not a key ring", path.display()))
    }

    /// Replaces the key ring by what `change` makes of it, in one step that is durable. Other processes that do the same wait.
    ///
    /// # Errors
    /// Fails if `change` does, or if the file cannot be read or written; the ring is then unchanged.
    pub fn change_key_ring<T>(&self, change: impl FnOnce(&mut KeyRing) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let lock = self.0.join("server.key.lock");
        let held = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let held = held.and_then(|file| file.lock().map(|()| file));
        let held = held.with_context(|| format!("cannot lock {}", lock.display()))?;
        let mut ring = self.key_ring()?;
        let changed = change(&mut ring)?;
        let path = self.key_ring_file();
        write_durably(&path, ring.to_text().as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        drop(held);
        Ok(changed)
    }
}

/// Creates a key of random bytes.
///
/// # Errors
/// Fails if the clock shows no day of the calendar.
pub fn new_key(ids: &dyn Ids, now: Timestamp) -> anyhow::Result<RingKey> {
    let mut secret = [0; 32];
    ids.fill(&mut secret);
    let day = chrono::DateTime::from_timestamp_micros(now.as_micros()).context("the clock is outside the calendar")?;
    Ok(RingKey::made_on(day.date_naive(), secret))
}

/// Writes a small file as [`write_durably`] does, unless it exists. `suffix` distinguishes the processes that do so at once.
fn create_once(path: &Path, suffix: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mine = path.with_extension(suffix);
    write_durably(&mine, bytes)?;
    let linked = fs::hard_link(&mine, path);
    fs::remove_file(&mine)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(path),
    }
}

/// Writes a small file that only its owner can read. After a crash, the file is either complete or unchanged.
///
/// # Errors
/// Fails if the file cannot be written or synced.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // The suffix is appended, because replacing the extension would let files that differ only by extension share a temporary
    // file.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_folder(path)
}

/// Makes the entry of a file in its folder durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
