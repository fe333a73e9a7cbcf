//! Copies that are put off: until a copy is used, it is a second name of the file of its source.
//!
//! The second name keeps the file as it grows, and after the source has been collected or removed. The copy is made from it of what
//! its own refs reach, and of nothing else. Nothing is ever read from the file itself.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{EngineError, KeptCommits};
use branchyard_domain::values::{CommitHash, DatabaseId};
use parking_lot::{Condvar, Mutex};

use crate::engine::io_fault;
use crate::files::{Files, Temporary};

/// Number of copies that are made at once. Each takes a core, and as much space as the file.
const AT_ONCE: usize = 2;
/// How long a call waits for others to make copies.
const WAIT: Duration = Duration::from_secs(30);

/// The copies of an engine that are put off.
#[derive(Default)]
pub struct PutOffCopies {
    kept: OnceLock<Arc<dyn KeptCommits>>,
    making: Mutex<HashSet<DatabaseId>>,
    ended: Condvar,
}

impl std::fmt::Debug for PutOffCopies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutOffCopies").field("making", &self.making.lock().len()).finish_non_exhaustive()
    }
}

impl PutOffCopies {
    /// Sets what copies keep. Only the first call has an effect.
    pub fn keep(&self, kept: Arc<dyn KeptCommits>) {
        self.kept.get_or_init(|| kept);
    }

    /// Puts off the copy of a database. Returns `false` if that is not possible.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn put_off(&self, files: &Files, from: DatabaseId, to: DatabaseId) -> Result<bool, EngineError> {
        // Elsewhere the engine does not write files that have a second name.
        if self.kept.get().is_none() || !cfg!(target_os = "linux") {
            return Ok(false);
        }
        files.put_off(from, to).map_err(|error| io_fault("put off a copy", error))
    }

    /// Makes the file of a database if its copy was put off. `write` writes what the given commits reach from the file at the path to a
    /// new one. Another process may make or remove the copy meanwhile.
    ///
    /// # Errors
    /// The errors of `write`; [`EngineError::Unavailable`] if other calls are making copies for longer than this one can wait.
    pub fn make(
        &self,
        files: &Files,
        database: DatabaseId,
        write: impl FnOnce(&Path, &[CommitHash]) -> Result<Temporary, EngineError>,
    ) -> Result<(), EngineError> {
        let Some(_place) = self.take_place(files, database)? else { return Ok(()) };
        let kept =
            self.kept.get().ok_or_else(|| EngineError::Unavailable("what a fork keeps is not known yet".into()))?;
        // No later look is needed: what a ref can come to name was read from the file that is made here.
        let new = write(&files.source_path(database), &kept.kept(database)?);
        match new.and_then(|new| self.install(files, database, new.path())) {
            Ok(()) => kept.made(database),
            Err(error) if files.is_put_off(database) => return Err(error),
            Err(error) => tracing::debug!(%database, %error, "another process made or removed a copy"),
        }
        Ok(())
    }

    fn install(&self, files: &Files, database: DatabaseId, new: &Path) -> Result<(), EngineError> {
        let fault = |error| io_fault("install a copy", error);
        files.sync(new).map_err(fault)?;
        // Not between the steps of a removal.
        let _making = self.making.lock();
        files.install_copy(new, database).map_err(fault)
    }

    /// Removes the file of a database, also if it is a copy that is put off or being made.
    ///
    /// # Errors
    /// An error if the file cannot be removed.
    pub fn remove(&self, files: &Files, database: DatabaseId) -> std::io::Result<()> {
        let _making = self.making.lock();
        files.remove(database)
    }

    /// Waits until this call may make a copy. Returns `None` if it has been made.
    fn take_place(&self, files: &Files, database: DatabaseId) -> Result<Option<Place<'_>>, EngineError> {
        let until = Instant::now() + WAIT;
        let mut making = self.making.lock();
        loop {
            if !files.is_put_off(database) {
                return Ok(None);
            }
            if making.len() < AT_ONCE && making.insert(database) {
                return Ok(Some(Place { copies: self, database }));
            }
            if self.ended.wait_until(&mut making, until).timed_out() {
                return Err(EngineError::Unavailable(
                    "the file of this fork is being made before its first use; try again in a moment".into(),
                ));
            }
        }
    }
}

/// The right to make a copy, until it is dropped.
struct Place<'a> {
    copies: &'a PutOffCopies,
    database: DatabaseId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.copies.making.lock().remove(&self.database);
        self.copies.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    struct Nothing;

    impl KeptCommits for Nothing {
        fn kept(&self, _: DatabaseId) -> Result<Vec<CommitHash>, EngineError> {
            Ok(Vec::new())
        }

        fn made(&self, _: DatabaseId) {}
    }

    fn id(n: u128) -> DatabaseId {
        DatabaseId::parse(&format!("{n:08x}-0000-7000-8000-000000000000")).unwrap()
    }

    /// Makes a copy that was put off, while another process does something in the folder after the new file was written. Returns the
    /// contents of the file afterwards.
    fn make_beside(another: impl FnOnce(&Files, DatabaseId), fails: bool) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let (files, others) = (Files::open(folder.path().into()).unwrap(), Files::open(folder.path().into()).unwrap());
        let (from, to) = (id(1), id(2));
        let written = files.temporary();
        fs::write(written.path(), b"source").unwrap();
        files.install(written.path(), from).unwrap();
        let copies = PutOffCopies::default();
        copies.keep(Arc::new(Nothing));
        assert!(copies.put_off(&files, from, to).unwrap());
        let write = |_: &Path, _: &[CommitHash]| {
            let new = files.temporary();
            fs::write(new.path(), b"here").unwrap();
            another(&others, to);
            if fails { Err(EngineError::Busy) } else { Ok(new) }
        };
        copies.make(&files, to, write).unwrap();
        assert!(!files.is_put_off(to) && !files.source_path(to).exists());
        fs::read(files.path(to)).ok()
    }

    fn made_by_another(files: &Files, database: DatabaseId) {
        let new = files.temporary();
        fs::write(new.path(), b"there").unwrap();
        files.install_copy(new.path(), database).unwrap();
    }

    #[test]
    fn a_copy_that_another_process_makes_or_removes_meanwhile_is_no_error() {
        assert_eq!(make_beside(|_, _| (), false).unwrap(), b"here");
        for fails in [false, true] {
            assert_eq!(make_beside(made_by_another, fails).unwrap(), b"there");
            assert_eq!(make_beside(|files, database| files.remove(database).unwrap(), fails), None);
        }
    }
}
