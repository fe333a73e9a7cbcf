//! A clock that tests can set: libfaketime (Debian package `faketime`) intercepts the server's reads of the time and adds an
//! offset from a file. As when an administrator sets a machine's clock, only the wall clock changes; the monotonic clock does
//! not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the library if it is installed.
pub(super) fn library() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok).map(|entry| entry.path());
        // This variant of the library supports threads.
        folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
    };
    FOUND.get_or_init(find).as_deref()
}

/// The clock of an episode.
pub(super) struct Clock {
    library: &'static Path,
    file: PathBuf,
    ahead_seconds: i64,
}

impl Clock {
    /// Creates a clock without an offset.
    pub(super) fn new(library: &'static Path, folder: &Path) -> Self {
        let mut clock = Self { library, file: folder.join("clock"), ahead_seconds: 0 };
        clock.set_forward(0);
        clock
    }

    /// Moves the clock forward by `seconds`, or back if negative.
    pub(super) fn set_forward(&mut self, seconds: i64) {
        self.ahead_seconds += seconds;
        // The file is replaced atomically, because the library reads it on every call.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{:+}\n", self.ahead_seconds)).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Makes a process use this clock.
    pub(super) fn rule(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library).env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    }
}

impl Drop for Clock {
    /// Removes shared-memory files of killed processes. Such a file would block a later process with the same id.
    fn drop(&mut self) {
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = ["faketime_shm_", "sem.faketime_sem_"].iter().find_map(|start| name.strip_prefix(start));
            if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
