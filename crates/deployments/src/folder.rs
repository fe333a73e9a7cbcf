//! The folder of an instance: `{root}/{deployment}/{instance}/{db,run,log}`. Only ids are in paths, nothing a user chose.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use branchyard_domain::values::{DeploymentId, InstanceId};

/// Where the parts of an instance lie.
#[derive(Debug, Clone)]
pub(crate) struct InstanceFolder {
    path: PathBuf,
}

impl InstanceFolder {
    pub(crate) fn of(root: &Path, deployment: DeploymentId, instance: InstanceId) -> Self {
        Self { path: root.join(deployment.to_string()).join(instance.to_string()) }
    }

    /// The folder whose part `run` is given.
    pub(crate) fn of_run(run: &Path) -> Option<Self> {
        Some(Self { path: run.parent()?.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its databases.
    pub(crate) fn db(&self) -> PathBuf {
        self.path.join("db")
    }

    /// What a process of it needs to run.
    pub(crate) fn run(&self) -> PathBuf {
        self.path.join("run")
    }

    /// What its processes wrote.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn spec(&self) -> PathBuf {
        self.run().join("spec.json")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.run().join("lock")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.log().join("stderr")
    }
}

/// Name of the control socket in the folder `run`.
pub(crate) const SOCKET: &str = "control";

/// Makes a folder, and those above it, for its owner only; one that is there has to be a folder and no link.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let is = fs::symlink_metadata(path)?;
    if is.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder, or a link to one"))
    }
}

/// Writes a file for its owner only, whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Reads a file of ours, which is no link.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file, or a link to one"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes a folder with all that is in it; it may be gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_and_folders_are_their_owners_and_links_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make(&folder).unwrap();
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let file = folder.join("spec.json");
        write(&file, b"one").unwrap();
        write(&file, b"two").unwrap();
        assert_eq!(read(&file).unwrap(), b"two");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::os::unix::fs::symlink(&file, folder.join("link")).unwrap();
        assert!(read(&folder.join("link")).is_err());
        std::os::unix::fs::symlink(&folder, root.path().join("folder-link")).unwrap();
        assert!(make(&root.path().join("folder-link")).is_err());
        remove(&folder).unwrap();
        remove(&folder).unwrap();
    }
}
