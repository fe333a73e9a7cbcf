//! Folders for the copies of processes that are no node. Each process has one of its own, which is removed when it ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The folder of the copies of a process that is no node, removed when the process ends.
pub(crate) struct PrivateCopies {
    path: PathBuf,
    lock_path: PathBuf,
    #[expect(dead_code, reason = "held until the process ends")]
    lock: File,
}

/// What the names of the locks of such folders end with. A folder whose lock is free belongs to a process that was killed.
const LOCK: &str = ".lock";

impl PrivateCopies {
    /// Chooses a folder that no other process uses, in `parent`.
    ///
    /// # Errors
    /// Fails if the lock of the folder cannot be made.
    pub(crate) fn below(parent: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(parent)?;
        let name = std::process::id().to_string();
        let (path, lock_path) = (parent.join(&name), parent.join(format!("{name}{LOCK}")));
        let lock = File::create(&lock_path)?;
        lock.lock()?;
        Ok(Self { path, lock_path, lock })
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folders of processes that were killed.
    ///
    /// # Errors
    /// Fails if a folder cannot be removed.
    pub(crate) fn remove_abandoned(parent: &Path) -> std::io::Result<()> {
        let entries = match fs::read_dir(parent) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let lock_path = entry?.path();
            let Some(name) = lock_path.file_name().and_then(|name| name.to_str()?.strip_suffix(LOCK)) else { continue };
            if File::open(&lock_path).is_ok_and(|lock| lock.try_lock().is_ok()) {
                remove_copies(&parent.join(name), &lock_path)?;
            }
        }
        Ok(())
    }
}

fn remove_copies(path: &Path, lock_path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_file(lock_path)
}

impl Drop for PrivateCopies {
    fn drop(&mut self) {
        if let Err(error) = remove_copies(&self.path, &self.lock_path) {
            tracing::debug!(%error, "the folder of copies stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_processes_that_were_killed_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("copies");
        PrivateCopies::remove_abandoned(&parent).unwrap();
        let own = PrivateCopies::below(&parent).unwrap();
        fs::create_dir(own.path()).unwrap();
        fs::create_dir(parent.join("1")).unwrap();
        fs::write(parent.join("1.lock"), "").unwrap();
        PrivateCopies::remove_abandoned(&parent).unwrap();
        assert!(own.path().exists() && !parent.join("1").exists() && !parent.join("1.lock").exists());
        drop(own);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    }
}
