//! Room for files that the server makes or checks: outside of all instances, so what is in it only the server can change.

use std::io;
use std::path::{Path, PathBuf};

use branchyard_deployments::values::{DeploymentId, InstanceId};

use crate::confined_dir::ConfinedDir;
use crate::folder;

/// No id of a deployment, so it is never taken for one.
const STAGING: &str = ".staging";

/// An empty folder for one purpose; gone when dropped.
pub(super) struct Staging {
    parent: ConfinedDir,
    dir: ConfinedDir,
    path: PathBuf,
    name: &'static str,
}

impl Staging {
    /// Makes the folder; what another attempt left there is removed.
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

    /// Where an entry of it lies.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = self.parent.remove(self.name) {
            tracing::warn!(path = %self.path.display(), %error, "temporary files of a deployment stay until the next time");
        }
    }
}

/// Removes what is staged for a deployment, or for one instance of it.
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
