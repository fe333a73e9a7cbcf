//! The data folder: its layout, the lock that reserves it for one server, and the server's secret.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_domain::ports::Ids;

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
            let mine = path.with_extension(fresh);
            let made = write_durably(&mine, fresh.as_bytes()).and_then(|()| {
                let linked = fs::hard_link(&mine, &path);
                fs::remove_file(&mine)?;
                match linked {
                    Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
                    _ => Ok(()),
                }
            });
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

    /// Returns the path of the file with the server's secret.
    pub fn secret_file(&self) -> PathBuf {
        self.0.join("server.key")
    }

    /// Returns the secret that protects page tokens, upload URLs, and the secrets of webhooks. Creates it on first use.
    ///
    /// # Errors
    /// Fails if the secret cannot be read or written, or if the file does not hold 32 bytes.
    pub fn secret(&self, ids: &dyn Ids) -> anyhow::Result<[u8; 32]> {
        let path = self.secret_file();
        match fs::read(&path) {
            Ok(bytes) => {
                let wrong = || {
                    format!(
                        "{} does not hold 32 bytes; restore it, or delete it to create a new one and rotate the secrets of all hooks",
                        path.display()
                    )
                };
                <[u8; 32]>::try_from(bytes.as_slice()).with_context(wrong)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.make_secret(&path, ids),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn make_secret(&self, path: &Path, ids: &dyn Ids) -> anyhow::Result<[u8; 32]> {
        let mut secret = [0; 32];
        ids.fill(&mut secret);
        write_durably(path, &secret).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(secret)
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
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
