//! The folder of an instance: `{root}/{deployment}/{instance}/{db,run,log}`. Paths consist only of ids, never of names
//! that a user chose.
//!
//! The server trusts the path down to the instance, which no instance can change, and nothing below it: see
//! [`crate::confined_dir`].

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use branchyard_deployments::values::{DeploymentId, InstanceId};

use crate::confined_dir::ConfinedDir;

/// The paths of an instance.
#[derive(Debug, Clone)]
pub(crate) struct InstanceFolder {
    path: PathBuf,
}

impl InstanceFolder {
    pub(crate) fn of(root: &Path, deployment: DeploymentId, instance: InstanceId) -> Self {
        Self { path: root.join(deployment.to_string()).join(instance.to_string()) }
    }

    /// Returns the folder whose subfolder `run` has this path.
    pub(crate) fn of_run(run: &Path) -> Option<Self> {
        Some(Self { path: run.parent()?.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the folder, for access to its content.
    pub(crate) fn open(&self) -> io::Result<ConfinedDir> {
        ConfinedDir::open(&self.path)
    }

    /// Returns the path of the databases, for use by the process itself.
    pub(crate) fn db(&self) -> PathBuf {
        self.path.join(DB)
    }

    /// Returns the path of the files that a process needs to run, for use by the process itself.
    pub(crate) fn run(&self) -> PathBuf {
        self.path.join(RUN)
    }

    /// Returns the path of the logs, for use by the process itself.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.run().join("lock")
    }
}

/// Name of the folder of the databases.
pub(crate) const DB: &str = "db";
/// Name of the folder of the files that a process needs to run.
pub(crate) const RUN: &str = "run";
/// Name of the folder of the logs.
pub(crate) const LOG: &str = "log";
/// Name of the folder from which a process adopts new databases.
pub(crate) const INCOMING: &str = "incoming";
/// Name of the control socket in the folder `run`.
pub(crate) const SOCKET: &str = "control";
/// Name of the file in the folder `run` that describes what a process serves.
pub(crate) const SPEC: &str = "spec.json";
/// Maximum size in bytes of a file that the server and a process exchange.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// Creates a folder of the server and its parents, with access for the owner only. Fails if the path exists and is a
/// link or not a folder.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let is = fs::symlink_metadata(path)?;
    if is.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder, or a link to one"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn folders_are_their_owners_and_links_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make(&folder).unwrap();
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&folder, root.path().join("folder-link")).unwrap();
        assert!(make(&root.path().join("folder-link")).is_err());
    }
}
