//! Staging folders for files that the server creates or checks. They lie outside all instances, so only the server can
//! change them.

use std::io;
use std::path::{Path, PathBuf};

use branchyard_deployments::values::{DeploymentId, InstanceId};

use crate::confined_dir::ConfinedDir;
use crate::folder;

/// Not a valid deployment id, so the folder is never mistaken for a deployment.
const STAGING: &str = ".staging";

/// An empty folder for one purpose. Removed when dropped.
pub(super) struct Staging {
    parent: ConfinedDir,
    dir: ConfinedDir,
    path: PathBuf,
    name: &'static str,
}

impl Staging {
    /// Creates the folder, and removes what an earlier attempt left there.
    pub(super) fn open(
        root: &Path,
        deployment: DeploymentId,
        instance: InstanceId,
        name: &'static str,
    ) -> io::Result<Self> {
        let path = root.join(STAGING).join(deployment.to_string()).join(instance.to_string());
        folder::make(&path)?;
        let parent = ConfinedDir::open(&path)?;
        parent.remove(name)?;
        let dir = parent.make(name)?;
        Ok(Self { parent, dir, path: path.join(name), name })
    }

    pub(super) fn dir(&self) -> &ConfinedDir {
        &self.dir
    }

    /// Returns the path of an entry.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = self.parent.remove(self.name) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove temporary files of a deployment; will retry later");
        }
    }
}

/// Removes the staging folders of a deployment, or of one of its instances.
pub(super) fn remove(root: &Path, deployment: &str, instance: Option<InstanceId>) -> io::Result<()> {
    let remove = || match instance {
        None => ConfinedDir::open(root)?.sub(STAGING)?.remove(deployment),
        Some(instance) => ConfinedDir::open(root)?.sub(STAGING)?.sub(deployment)?.remove(instance.to_string()),
    };
    match remove() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
