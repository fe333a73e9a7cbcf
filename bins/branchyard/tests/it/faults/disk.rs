//! A small disk: a tmpfs mounted at the data folder. Mounting requires root and is not possible in every environment.

use std::cmp::Ordering;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// Size of the file system. An episode uses a small part of it.
const SIZE: &str = "size=256m";

/// Returns `true` if this machine allows mounting a small disk.
pub(crate) fn small_disks() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        Disk::mount(folder.path()).is_some()
    })
}

/// A mounted small disk. Unmounted when dropped.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts a small disk at a folder. Returns `None` if mounting is not allowed.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "branchyard-test"]).arg(at).stderr(Stdio::null());
        mount.status().ok()?.success().then(|| Self(at.to_owned()))
    }

    /// Fills the disk, or frees some of what an earlier call took, to leave `left` bytes free, in whole blocks. There is never less or
    /// more free space than before and afterwards, which a server under test could notice.
    pub(crate) fn fill(&self, left: u64) {
        let ballast = OpenOptions::new().create(true).truncate(false).write(true).open(self.ballast()).unwrap();
        // The server may write meanwhile.
        for _ in 0..1_000 {
            let (size, disk) = (ballast.metadata().unwrap().len(), statvfs(&self.0).unwrap());
            let (free, block) = (disk.f_bavail * disk.f_frsize, disk.f_frsize);
            let left = left - left % block;
            match free.cmp(&left) {
                Ordering::Equal => return,
                Ordering::Less => ballast.set_len(size.saturating_sub(left - free)).unwrap(),
                Ordering::Greater => {
                    // Fails if the server was quicker.
                    let _ = fallocate(&ballast, FallocateFlags::empty(), size, free - left);
                }
            }
        }
        panic!("the disk is not filled");
    }

    /// Frees the space that [`Disk::fill`] took.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Remounts the disk as writable or read-only.
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
