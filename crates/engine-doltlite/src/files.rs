//! The layout of database files: `<folder>/<two digits>/<id>.db`, and `<id>.source` for a copy that is put off: a second name of the
//! file of its source. Paths contain only ids, nothing that a user chose.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use branchyard_domain::values::DatabaseId;

const TEMPORARY: &str = "tmp";
/// Suffix of the file of a database.
const DATABASE: &str = ".db";
/// Suffix of the second name of a file, for a copy that is put off.
const SOURCE: &str = ".source";

/// The folder of all databases.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    /// Whether another process opened the files and passed them on, so that the paths lead to nothing on a disk.
    is_provided: bool,
    next: AtomicU64,
}

impl Files {
    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// An error if the folder cannot be created.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(folder.join(TEMPORARY))?;
        Ok(Self { folder, is_provided: false, next: AtomicU64::new(0) })
    }

    /// Creates the layout of files that another process passes on.
    #[cfg(target_os = "linux")]
    pub(crate) fn provided() -> Self {
        Self { folder: PathBuf::from("/"), is_provided: true, next: AtomicU64::new(0) }
    }

    /// Returns `true` if another process opened the files and passed them on.
    pub(crate) fn is_provided(&self) -> bool {
        self.is_provided
    }

    /// Returns `true` if there is a file at a path.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        #[cfg(target_os = "linux")]
        if self.is_provided {
            return crate::descriptors::is_provided(path);
        }
        path.exists()
    }

    /// Removes the unfinished files of a process that was killed.
    ///
    /// # Errors
    /// An error if something cannot be removed.
    pub fn clear_temporary(&self) -> io::Result<()> {
        let temporary = self.folder.join(TEMPORARY);
        fs::remove_dir_all(&temporary)?;
        fs::create_dir_all(&temporary)?;
        for (database, _) in self.sources()? {
            if self.path(database).exists() {
                remove_if_there(&self.source_path(database))?;
            }
        }
        Ok(())
    }

    /// Returns the path of a database's file.
    pub fn path(&self, database: DatabaseId) -> PathBuf {
        if self.is_provided {
            return self.folder.join(format!("{database}.db"));
        }
        self.folder.join(Self::place(database))
    }

    /// Returns the path of a database's file relative to the folder.
    pub fn place(database: DatabaseId) -> PathBuf {
        let name = database.to_string();
        // The last digits of an id are random; the first are a timestamp.
        let shard = &name[name.len() - 2..];
        Path::new(shard).join(format!("{name}.db"))
    }

    /// Returns the second name of the file of which a copy is to be made, if the copy is put off.
    pub fn source_path(&self, database: DatabaseId) -> PathBuf {
        self.path(database).with_extension(&SOURCE[1..])
    }

    /// Returns `true` if the copy of a database is put off.
    pub fn is_put_off(&self, database: DatabaseId) -> bool {
        !self.is_provided && self.source_path(database).exists() && !self.path(database).exists()
    }

    /// Returns the path of a database's file, or of the one that it is to be made of.
    pub fn present_path(&self, database: DatabaseId) -> PathBuf {
        if self.is_put_off(database) { self.source_path(database) } else { self.path(database) }
    }

    /// Creates a second name of the file of a database, durably, of which a copy is to be made. Removes a former copy. Returns `false` if
    /// the file cannot get a second name.
    ///
    /// # Errors
    /// An error if there is no file, or if the name cannot be written to the disk.
    pub fn put_off(&self, from: DatabaseId, to: DatabaseId) -> io::Result<bool> {
        self.remove(to)?;
        let shard = self.shard(to)?;
        match fs::hard_link(self.path(from), self.source_path(to)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            // The file system has no second names, or the file has too many.
            Err(error) => {
                tracing::debug!(%error, "a copy cannot be put off");
                return Ok(false);
            }
        }
        File::open(shard)?.sync_all()?;
        Ok(true)
    }

    /// Makes the file of a database the one of which a copy is to be made.
    ///
    /// # Errors
    /// An error if there is no file, or if it cannot be moved.
    pub fn put_off_in_place(&self, database: DatabaseId) -> io::Result<()> {
        fs::rename(self.path(database), self.source_path(database))?;
        File::open(self.shard(database)?)?.sync_all()
    }

    /// Returns the copies that are put off and whose sources have other files by now, or none.
    ///
    /// # Errors
    /// An error if a folder cannot be read.
    pub fn outlived_sources(&self) -> io::Result<Vec<DatabaseId>> {
        use std::os::unix::fs::MetadataExt as _;
        let mut by_file: HashMap<u64, (u64, Vec<DatabaseId>)> = HashMap::new();
        for (database, file) in self.sources()? {
            by_file.entry(file.ino()).or_insert_with(|| (file.nlink(), Vec::new())).1.push(database);
        }
        let outlived = by_file.into_values().filter(|(names, copies)| *names <= copies.len() as u64);
        Ok(outlived.flat_map(|(_, copies)| copies).collect())
    }

    /// Returns a path that no other call in any process gets. The file and its companion files are removed when the
    /// result is dropped.
    pub fn temporary(&self) -> Temporary {
        Temporary { path: self.temporary_path() }
    }

    /// Returns the folder of temporary files.
    pub fn temporary_folder(&self) -> PathBuf {
        self.folder.join(TEMPORARY)
    }

    /// Returns a path as [`Files::temporary`] does. The file is removed by its owner, or by [`Files::clear_temporary`].
    pub fn temporary_path(&self) -> PathBuf {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.folder.join(TEMPORARY).join(format!("{}-{n}.db", std::process::id()))
    }

    /// Returns how much of the file system of the folder is free for this process, in bytes.
    ///
    /// # Errors
    /// An error if the system does not say.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let space = rustix::fs::statvfs(&self.folder)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Creates a temporary file without a name.
    ///
    /// # Errors
    /// An error if the file cannot be created.
    #[cfg(target_os = "linux")]
    pub fn unnamed(&self) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match open(self.folder.join(TEMPORARY), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(File::from(file)),
            // Some file systems have no such files. The name is removed with `temporary`.
            Err(_) => {
                let temporary = self.temporary();
                File::options().read(true).write(true).create_new(true).open(temporary.path())
            }
        }
    }

    /// Moves a finished file to the path of a database, durably.
    ///
    /// # Errors
    /// An error if the file cannot be moved or written to the disk.
    pub fn install(&self, new: &Path, database: DatabaseId) -> io::Result<()> {
        self.sync(new)?;
        let shard = self.shard(database)?;
        fs::rename(new, self.path(database))?;
        remove_if_there(&self.source_path(database))?;
        File::open(shard)?.sync_all()
    }

    /// Makes a finished file the file of a copy that was put off, durably. Does nothing if another process has made it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if another process removed the copy; another error if the file cannot be written to the disk.
    pub fn install_copy(&self, new: &Path, database: DatabaseId) -> io::Result<()> {
        let (path, source) = (self.path(database), self.source_path(database));
        match fs::hard_link(new, &path) {
            // A removal starts with the second name, so that one which missed the file is noticed here.
            Ok(()) if !source.exists() => {
                remove_if_there(&path)?;
                return Err(io::ErrorKind::NotFound.into());
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let shard = self.shard(database)?;
        File::open(&shard)?.sync_all()?;
        remove_if_there(&source)
    }

    /// Writes a file to the disk.
    ///
    /// # Errors
    /// An error if the file does not exist or cannot be written.
    pub fn sync(&self, file: &Path) -> io::Result<()> {
        File::open(file)?.sync_all()
    }

    /// Returns the folder of the file of a database. Creates it if it does not exist.
    fn shard(&self, database: DatabaseId) -> io::Result<PathBuf> {
        let path = self.path(database);
        let Some(shard) = path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
        if !shard.exists() {
            fs::create_dir_all(shard)?;
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(shard.to_owned())
    }

    /// Removes the file of a database.
    ///
    /// # Errors
    /// An error if the file cannot be removed.
    pub fn remove(&self, database: DatabaseId) -> io::Result<()> {
        let path = self.path(database);
        remove_if_there(&self.source_path(database))?;
        remove_if_there(&path)?;
        for companion in companions(&path) {
            remove_if_there(&companion)?;
        }
        match path.parent().filter(|shard| shard.exists()) {
            Some(shard) => File::open(shard)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Returns all databases that have a file, or whose copy is put off.
    ///
    /// # Errors
    /// An error if a folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<DatabaseId>> {
        let mut databases = BTreeSet::new();
        self.visit(&[DATABASE, SOURCE], |database| {
            databases.insert(database);
            true
        })?;
        Ok(databases.into_iter().collect())
    }

    /// Returns the copies that are put off, with the files of which they are to be made.
    fn sources(&self) -> io::Result<Vec<(DatabaseId, fs::Metadata)>> {
        let mut databases = Vec::new();
        self.visit(&[SOURCE], |database| {
            databases.push(database);
            true
        })?;
        let mut sources = Vec::new();
        for database in databases {
            match fs::metadata(self.source_path(database)) {
                Ok(file) => sources.push((database, file)),
                // It was made meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sources)
    }

    /// Returns `true` if no database has a file.
    ///
    /// # Errors
    /// An error if a folder cannot be read.
    pub fn is_empty(&self) -> io::Result<bool> {
        let mut is_empty = true;
        self.visit(&[DATABASE, SOURCE], |_| {
            is_empty = false;
            false
        })?;
        Ok(is_empty)
    }

    /// Passes the databases that have a file with one of these suffixes to `found`, until it returns `false`.
    fn visit(&self, suffixes: &[&str], mut found: impl FnMut(DatabaseId) -> bool) -> io::Result<()> {
        for shard in fs::read_dir(&self.folder)? {
            let shard = shard?;
            if shard.file_name().len() != 2 || !shard.file_type()?.is_dir() {
                continue;
            }
            for entry in fs::read_dir(shard.path())? {
                let name = entry?.file_name();
                let of = |name: &str| suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned);
                let id = name.to_str().and_then(of);
                if id.and_then(|id| DatabaseId::parse(&id).ok()).is_some_and(|id| !found(id)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A temporary file; see [`Files::temporary`].
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for path in companions(&self.path).into_iter().chain([self.path.clone()]) {
            if let Err(error) = remove_if_there(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove a temporary file; it stays until the next start");
            }
        }
    }
}

/// Returns the path of the file on which the engine locks a database for writing.
pub fn lock_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}-lock"))
}

/// Returns the paths of the files that the engine creates beside a database.
fn companions(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [format!("{name}-gc-tmp"), format!("{name}-journal"), format!("{name}-wal")]
        .map(|name| path.with_file_name(name))
        .into_iter()
        .chain([lock_path(path)])
        .collect()
}

/// Copies a database file for work that ends with the process. Nothing is flushed to disk. If `share_blocks` is set,
/// the copy shares its blocks with the file where the file system supports it.
///
/// Returns `false` and creates nothing if blocks cannot be shared and the file is longer than `most` bytes.
///
/// # Errors
/// An error if the file cannot be copied.
pub fn copy_for_now(from: &Path, to: &Path, most: u64, share_blocks: bool) -> io::Result<bool> {
    let (mut source, mut target) = (File::open(from)?, File::create_new(to)?);
    if share_blocks && clone_blocks(&source, &target) {
        return Ok(true);
    }
    if source.metadata()?.len() > most {
        drop(target);
        remove_if_there(to)?;
        return Ok(false);
    }
    io::copy(&mut source, &mut target)?;
    Ok(true)
}

/// Clones the blocks of `from` to `to`. Returns `true` if the file system supports it.
#[cfg(target_os = "linux")]
fn clone_blocks(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// Does nothing: blocks can only be shared on Linux.
#[cfg(not(target_os = "linux"))]
fn clone_blocks(_from: &File, _to: &File) -> bool {
    false
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::copy_for_now;

    #[test]
    fn a_copy_for_now_is_whole_or_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, vec![7; 100_000]).unwrap();
        assert!(!copy_for_now(&from, &to, 99_999, false).unwrap());
        assert!(!to.exists());
        for share_blocks in [false, true] {
            assert!(copy_for_now(&from, &to, 100_000, share_blocks).unwrap());
            assert_eq!(fs::read(&to).unwrap(), vec![7; 100_000]);
            fs::remove_file(&to).unwrap();
        }
        // With shared blocks the length does not matter; elsewhere the limit applies.
        let made = copy_for_now(&from, &to, 0, true).unwrap();
        assert_eq!(to.exists(), made);
    }
}
