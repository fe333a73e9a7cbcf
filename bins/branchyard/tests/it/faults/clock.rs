//! A clock that is set: libfaketime (Debian's package `faketime`) answers the server when it asks for the time, adding what a file says. As when
//! an administrator sets the clock of a machine, time that passes is not touched, only what time it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where there is one, the library.
pub(super) fn library() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok).map(|entry| entry.path());
        // The first one is for programs without threads.
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
    /// As it is on this machine.
    pub(super) fn new(library: &'static Path, folder: &Path) -> Self {
        let mut clock = Self { library, file: folder.join("clock"), ahead_seconds: 0 };
        clock.set_forward(0);
        clock
    }

    /// Sets it so many seconds forward, or back.
    pub(super) fn set_forward(&mut self, seconds: i64) {
        self.ahead_seconds += seconds;
        // It is read each time somebody asks for the time: there is no moment without it.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{:+}\n", self.ahead_seconds)).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Has a process live by it.
    pub(super) fn rule(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library).env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    }
}

impl Drop for Clock {
    /// A process that is killed leaves two files of the library behind, which stop one that gets the same id.
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
