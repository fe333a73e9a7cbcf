//! How calls that write become durable, and how calls that read find what is.

use std::sync::atomic::Ordering;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_segments::{Outcome, run};

use super::{DurableEngine, Entry, File, RecordSource, of_protocol};

impl<S: RecordSource> DurableEngine<S> {
    /// Runs `work` in the turn of a database that this node leads.
    fn in_turn<T>(
        &self,
        database: DatabaseId,
        work: impl FnOnce(&Entry<S::Records>, &mut File<S::Records>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let entry = self.entry(database);
        let _call = entry.begin();
        let mut file = entry.turn.lock();
        self.lead(&entry, &mut file)?;
        work(&entry, &mut file)
    }

    /// Runs a call that makes the file of a database anew, in place of an older one if there is one.
    pub(crate) fn make<T>(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.in_turn(database, |entry, file| {
            let is_first = entry.status.state().known().is_none_or(|known| known.length == 0);
            let made = call().and_then(|made| {
                if is_first {
                    entry.ship(file)?
                } else {
                    self.replace_generation(database, file)?
                }
                Ok(made)
            });
            if made.is_err() {
                file.distrust();
            }
            made
        })
    }

    /// Makes the file of a database anew by `call`, which puts it in place, and makes it durable.
    ///
    /// # Errors
    /// Those of `call`; [`EngineError`].
    pub fn replace(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.make(database, call)
    }

    /// Makes the file that is in place the next generation: it has other bytes at the same positions.
    fn replace_generation(&self, database: DatabaseId, file: &mut File<S::Records>) -> Result<(), EngineError> {
        *file.ports().file.collected.lock() = Some(self.ports.files.path(database));
        let ready = file.next_generation().and_then(|next| run(next.prepare())).map_err(of_protocol)?;
        match run(file.switch(ready, &())).map_err(of_protocol)? {
            Outcome::Switched => Ok(()),
            Outcome::NotSwitched | Outcome::Unknown => {
                Err(EngineError::Unavailable("the new file of the database was not made durable".to_owned()))
            }
        }
    }

    /// Runs a call that writes, as the one that does on this node, and makes what it wrote durable.
    pub(crate) fn write<T>(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.make_ready(database)?;
        self.in_turn(database, |entry, file| {
            let result = call()?;
            entry.ship(file)?;
            Ok(result)
        })
    }

    /// Runs several writes as [`DurableEngine::write`] does, which become durable together or not at all.
    pub(crate) fn write_several<T>(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Vec<Result<T, EngineError>>,
    ) -> Vec<Result<T, EngineError>> {
        if self.is_drained.load(Ordering::Relaxed) {
            // These writes can be queued, and run on another node.
            return vec![Err(EngineError::Unavailable("this node is drained".to_owned()))];
        }
        if let Err(error) = self.make_ready(database) {
            return vec![Err(error)];
        }
        let results = self.in_turn(database, |entry, file| {
            let results = call();
            if results.iter().any(Result::is_ok) {
                entry.ship(file)?;
            }
            Ok(results)
        });
        // If nothing became durable, none of those behind the first one has run, as far as can be seen.
        results.unwrap_or_else(|error| vec![Err(error)])
    }

    /// Runs a call that brings commits from elsewhere to a database.
    pub(crate) fn bring(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let entry = self.entry(database);
        self.write(database, || {
            entry.is_behind.store(true, Ordering::SeqCst);
            call()
        })
    }

    /// Copies commits to a database from the file of another one, which is here and in no store, and makes them durable.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the other file lacks one of the commits; other [`EngineError`]s.
    pub fn bring_from_file(
        &self,
        into: DatabaseId,
        file: DatabaseId,
        commits: &[CommitHash],
    ) -> Result<(), EngineError> {
        self.write(into, || commits.iter().try_for_each(|commit| self.inner().fetch(into, file, commit)))
    }

    /// Runs a call that reads. Brings the file before if it is not here, and afterwards, once, if it lacked a commit.
    pub(crate) fn read<T>(
        &self,
        database: DatabaseId,
        call: impl FnMut() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.read_whole(database, |_| true, call)
    }

    /// Runs a call that reads as [`Self::read`] does, whose result is not whole if something that it asked for is not in the file.
    pub(crate) fn read_whole<T>(
        &self,
        database: DatabaseId,
        is_whole: impl Fn(&T) -> bool,
        mut call: impl FnMut() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        // From before the look on, so that the file is not removed in between.
        let entry = self.entry(database);
        let _call = entry.begin();
        self.make_ready_entry(database, &entry)?;
        if !entry.is_here() {
            entry.follow()?;
            return call();
        }
        let mut result = call();
        let is_lacking = match &result {
            Ok(value) => !is_whole(value),
            Err(error) => matches!(error, EngineError::NoSuchCommit(_)),
        };
        // A lease that was withdrawn by another process is found out by what that one added.
        let is_unknown = matches!(result, Err(EngineError::NoSuchCommit(_)));
        if is_lacking && (is_unknown || !entry.is_leading()) {
            entry.follow()?;
            result = call();
        }
        // The file is a copy: its bytes are compared with the durable ones, and replaced if they differ. An engine may not find a commit
        // because it is damaged.
        if let Err(EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. }) = &result
            && entry.distrust()
        {
            entry.follow()?;
            result = call();
        }
        result
    }

    /// Brings the file of a database to the durable bytes, unless this node writes it.
    pub(crate) fn catch_up(&self, database: DatabaseId) -> Result<(), EngineError> {
        let entry = self.entry(database);
        let _call = entry.begin();
        self.make_ready_entry(database, &entry)?;
        if entry.is_leading() { Ok(()) } else { entry.follow() }
    }

    /// Brings the file of a database here, for a caller that reads it as a file.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Damaged`] if the database has no bytes.
    pub fn bring_here(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.read(database, || self.inner().size_bytes(database).map(drop))
    }
}
