//! A small disk: a file system in memory, mounted where the data folder is to be. Only root can, and not everywhere.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, fallocate};

/// Its size; an episode takes a small part of it.
const SIZE: &str = "size=256m";

/// Whether this machine lets us mount one.
pub(super) fn small_disks() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        Disk::mount(folder.path()).is_some()
    })
}

/// Unmounted when dropped.
pub(super) struct Disk(PathBuf);

impl Disk {
    /// Mounts one at a folder, if that is allowed.
    pub(super) fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "branchyard-test"]).arg(at).stderr(Stdio::null());
        mount.status().ok()?.success().then(|| Self(at.to_owned()))
    }

    /// Fills it, but for these bytes.
    pub(super) fn fill(&self, left: u64) {
        let ballast = File::create(self.ballast()).unwrap();
        // Files of a file system in memory take whole pages: ask for less until it fits.
        let mut size = 0;
        for step in [1 << 26, 1 << 20, 1 << 12] {
            while fallocate(&ballast, FallocateFlags::empty(), size, step).is_ok() {
                size += step;
            }
        }
        ballast.set_len(size.saturating_sub(left)).unwrap();
    }

    /// Gives the space back.
    pub(super) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Lets it be written, or not.
    pub(super) fn writable(&self, writable: bool) {
        let how = if writable { "remount,rw" } else { "remount,ro" };
        assert!(Command::new("mount").args(["-o", how]).arg(&self.0).status().unwrap().success(), "{how}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
