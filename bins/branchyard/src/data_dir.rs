//! The data folder: what is where, the lock that keeps it to one server, the server's secret.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_domain::ports::Ids;

/// The folder that holds everything.
#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

/// Held as long as the server runs.
#[derive(Debug)]
pub struct DataDirLock(#[expect(dead_code, reason = "dropping it gives the lock back")] File);

impl DataDir {
    /// Uses a folder, making it when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot make the data folder {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// The metadata file, unless another store is configured.
    pub fn metadata(&self) -> PathBuf {
        self.0.join("metadata.sqlite")
    }

    /// The engine's folder: one file per database.
    pub fn databases(&self) -> PathBuf {
        self.0.join("databases")
    }

    /// Uploads in flight.
    pub fn uploads(&self) -> PathBuf {
        self.0.join("uploads")
    }

    /// Keeps other servers away from the folder: the engine's files belong to one process.
    ///
    /// # Errors
    /// When another server holds it.
    pub fn lock(&self) -> anyhow::Result<DataDirLock> {
        let path = self.0.join("server.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(DataDirLock(file)),
            Err(TryLockError::WouldBlock) => {
                bail!("another server uses the data folder {}; stop it, or choose another --data-dir", self.0.display())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// The secret that page tokens and upload URLs are sealed with; made on first use.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn secret(&self, ids: &dyn Ids) -> anyhow::Result<[u8; 32]> {
        let path = self.0.join("server.key");
        match fs::read(&path) {
            Ok(bytes) => {
                let wrong =
                    || format!("{} does not hold 32 bytes; restore it, or delete it to make a new one", path.display());
                <[u8; 32]>::try_from(bytes.as_slice()).with_context(wrong)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.make_secret(&path, ids),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn make_secret(&self, path: &Path, ids: &dyn Ids) -> anyhow::Result<[u8; 32]> {
        let mut secret = [0; 32];
        ids.fill(&mut secret);
        let temporary = self.0.join("server.key.new");
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let write = || -> std::io::Result<()> {
            let mut file = options.open(&temporary)?;
            file.write_all(&secret)?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(secret)
    }
}
