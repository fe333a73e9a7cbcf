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

    /// Backups of deployments.
    pub fn backups(&self) -> PathBuf {
        self.0.join("backups")
    }

    /// Folders of deployments.
    pub fn deployments(&self) -> PathBuf {
        self.0.join("deployments")
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

    /// Binds the folder to a metadata store, or checks that it is the one it was bound to: with another store every database here would look like
    /// something nobody refers to, and be swept.
    ///
    /// # Errors
    /// When the folder belongs to another metadata store.
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

    /// The file with the id of this folder among those that share a metadata store.
    pub fn node_file(&self) -> PathBuf {
        self.0.join("node")
    }

    /// The id of this folder among those that share a metadata store; made on first use. What runs for it is found again by it, so it is
    /// never made twice, not even by two processes at once.
    ///
    /// # Errors
    /// When it cannot be read or written.
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
            "" => bail!("{} is empty; restore it, or what runs for this folder is not found again", path.display()),
            node => Ok(node.to_owned()),
        }
    }

    /// The file of the server's secret.
    pub fn secret_file(&self) -> PathBuf {
        self.0.join("server.key")
    }

    /// The secret that page tokens, upload URLs and the secrets of hooks are sealed with; made on first use.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn secret(&self, ids: &dyn Ids) -> anyhow::Result<[u8; 32]> {
        let path = self.secret_file();
        match fs::read(&path) {
            Ok(bytes) => {
                let wrong = || {
                    format!(
                        "{} does not hold 32 bytes; restore it, or delete it to make a new one and rotate the secrets of all hooks",
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

/// Writes a small file that only its owner can read; after a crash it is whole or not there.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Appended, or two files that differ by their extension only would share it.
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
