//! An engine on files that another process opened: the calls that this process answers for an engine which consists of
//! several processes.
//!
//! The other process keeps the folder of the databases. It creates, copies, moves and removes files, and passes on
//! their descriptors.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{EngineError, FormatError, SqliteExport};
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::collect::{self, CollectedHistory};
use crate::connection::ConnectionUse;
use crate::engine::{DoltliteEngine, io_fault};
use crate::files::{Files, lock_path};
use crate::merge_preview::{self, ConflictQuery, ConflictWindow, HeadPair};
use crate::options::EngineOptions;
use crate::private_copy::PrivateCopy;
use crate::reach::parents_of;
use crate::sql::errors;
use crate::{branch, commits, descriptors, fetch, memory};

/// Path of the second file of a call: the private copy from which commits are fetched, the other file of a collection, or
/// a SQLite file that is imported.
const COPY: &str = "/copy.db";

/// How long one fresh connection vouches for the file before those of later proofs. Opening one hashes all records since the
/// last checkpoint, although a proof needs only the new ones.
const FRESH: Duration = Duration::from_millis(100);

/// Descriptors of a database file.
#[derive(Debug)]
pub struct ProvidedFile {
    /// The file, open for reading, or for reading and writing.
    pub file: OwnedFd,
    /// The file on which the engine locks it, open for reading and writing. Only needed for writing.
    pub lock: Option<OwnedFd>,
}

/// Commits with their parents.
pub type CommitParents = Vec<(CommitHash, Vec<CommitHash>)>;

impl DoltliteEngine {
    /// Creates an engine that finds the files only that [`Self::provide`] passes on. From then on the whole process
    /// opens no other file with SQLite; `make_temporary` makes its temporary files.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot start.
    pub fn on_provided_files(
        options: EngineOptions,
        make_temporary: Box<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>,
    ) -> Result<Self, EngineError> {
        memory::set_up(options.process_memory);
        descriptors::replace_system_calls(make_temporary)
            .map_err(|error| io_fault("replace the system calls of SQLite", error))?;
        let temporary_folder = Some(PathBuf::from(descriptors::TEMPORARY_FOLDER));
        Self::on(Files::provided(), EngineOptions { temporary_folder, ..options })
    }

    /// Passes on the file of a database.
    ///
    /// # Errors
    /// [`EngineError`] if the descriptor is not open.
    pub fn provide(&self, database: DatabaseId, file: ProvidedFile) -> Result<(), EngineError> {
        provide_at(&self.files.path(database), file)
    }

    /// Creates the first commit in the empty file of a database.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn create_in(
        &self,
        database: DatabaseId,
        author: &Signature,
        message: &str,
    ) -> Result<CommitHash, EngineError> {
        commits::create_at(&self.files.path(database), author, message, branch::rename)
    }

    /// Checks that the file of a database, a copy of another, can be read, and makes it independent of the original.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn finish_copy(&self, database: DatabaseId) -> Result<(), EngineError> {
        commits::finish_copy(self, &self.files.path(database), branch::rename)
    }

    /// Checks that the file holds `heads`, that the last one can be read, and that each is the one before or descends from
    /// it, the first from `base`. The connection is a fresh one, unless such a one has proved a commit of the database
    /// within the last 100 ms.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the last head is not in the file; [`EngineError::Damaged`] if one does not descend
    /// from the one before.
    pub fn prove(&self, database: DatabaseId, heads: &[CommitHash], base: &CommitHash) -> Result<(), EngineError> {
        let Some(head) = heads.last() else { return Ok(()) };
        let fault = |error| errors::fault_at("prove a commit", head, error);
        let descends = |connection: &rusqlite::Connection| {
            // Writes and merges add a few commits, so the base is near.
            let mut parents = |at: &CommitHash| parents_of(connection, at);
            for (base, head) in std::iter::once(base).chain(heads).zip(heads) {
                let descends = self.ancestry.descends(database, std::slice::from_ref(head), base, &mut parents);
                if !descends.map_err(fault)? {
                    return Err(EngineError::Damaged(format!("commit {head} does not descend from {base}")));
                }
            }
            Ok(())
        };
        let is_fresh = |(proved, at): (DatabaseId, Instant)| proved == database && at.elapsed() < FRESH;
        if self.proved.lock().is_some_and(is_fresh) {
            return self.reading_history(database, |connection| {
                let mut differences =
                    connection.raw().prepare_cached("SELECT count(*) FROM dolt_diff_summary(?, ?)").map_err(fault)?;
                differences.query_row([base.as_str(), head.as_str()], |_| Ok(())).map_err(fault)?;
                descends(connection.raw())
            });
        }
        let connection = self.open_file(&self.files.path(database), ConnectionUse::Read(head)).map_err(fault)?;
        connection.raw().query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(fault)?;
        descends(connection.raw())?;
        *self.proved.lock() = Some((database, Instant::now()));
        Ok(())
    }

    /// Returns commits of the history of `from` with their parents, nearest first, at most `limit`. Empty if the file
    /// does not hold `from`.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn parents(&self, database: DatabaseId, from: &CommitHash, limit: usize) -> Result<CommitParents, EngineError> {
        self.reading_history(database, |connection| {
            let (mut found, mut seen) = (CommitParents::new(), std::collections::HashSet::from([from.clone()]));
            let mut next = VecDeque::from([from.clone()]);
            while found.len() < limit
                && let Some(at) = next.pop_front()
            {
                let parents = parents_of(connection.raw(), &at);
                let Some(parents) = parents.map_err(|error| errors::fault_at("read parents", &at, error))? else {
                    continue;
                };
                next.extend(parents.iter().filter(|parent| seen.insert((*parent).clone())).cloned());
                found.push((at, parents));
            }
            Ok(found)
        })
    }

    /// Runs a trial merge in the file of the database, which is a private copy. The file cannot be used for anything
    /// else afterwards.
    ///
    /// # Errors
    /// As [`TrialMerges::try_merge`](crate::TrialMerges::try_merge).
    pub fn merge_in_copy(
        &self,
        pair: &HeadPair,
        base: &CommitHash,
        queries: &[ConflictQuery],
    ) -> Result<Vec<ConflictWindow>, EngineError> {
        let path = self.files.path(pair.database);
        let copy = PrivateCopy::provided(self, path, &[&pair.ours, &pair.theirs])?;
        merge_preview::merge_on_copy(self, copy.connection(), pair, base, queries)
    }

    /// Fetches a commit from `copy`, a private copy of another database.
    ///
    /// # Errors
    /// As [`Engine::fetch`](branchyard_domain::ports::Engine::fetch).
    pub fn fetch_from_copy(
        &self,
        into: DatabaseId,
        copy: ProvidedFile,
        commit: &CommitHash,
    ) -> Result<(), EngineError> {
        provide_at(Path::new(COPY), copy)?;
        let fetched = PrivateCopy::provided(self, PathBuf::from(COPY), &[commit])
            .and_then(|copy| fetch::fetch_from(self, into, copy, commit));
        withdraw_at(Path::new(COPY));
        fetched
    }

    /// Writes what `heads` reach from the file of the database, which is a private copy, to the empty file `new`.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if a history is incomplete, or none of the heads is in the file.
    pub fn collect_into(
        &self,
        database: DatabaseId,
        new: ProvidedFile,
        heads: &[CommitHash],
    ) -> Result<CollectedHistory, EngineError> {
        provide_at(Path::new(COPY), new)?;
        let held = collect::write_new_file(self, &self.files.path(database), Path::new(COPY), heads);
        withdraw_at(Path::new(COPY));
        held
    }

    /// Fetches `heads` into the file of the database, which is a new one, from the file that it is to replace. Returns
    /// those that it holds afterwards; the others are not in that file either.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if a commit did not arrive.
    pub fn complete_from(
        &self,
        database: DatabaseId,
        source: ProvidedFile,
        heads: &[CommitHash],
    ) -> Result<Vec<CommitHash>, EngineError> {
        provide_at(Path::new(COPY), source)?;
        let held = collect::complete(Path::new(COPY), &self.files.path(database), heads);
        withdraw_at(Path::new(COPY));
        held
    }

    /// Checks that the file of the database holds `heads` with their whole histories, and `commits` commits in all if that
    /// is known.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if it does not.
    pub fn check_new_file(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commits: Option<u64>,
    ) -> Result<(), EngineError> {
        collect::check_new_file(self, &self.files.path(database), heads, commits)
    }

    /// Writes the tables at a commit to an empty file, as [`Engine::export_sqlite`](branchyard_domain::ports::Engine::export_sqlite)
    /// does.
    ///
    /// # Errors
    /// As that method.
    pub fn export_sqlite_into(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        file: OwnedFd,
        job: &SqliteExport,
    ) -> Result<(), EngineError> {
        provide_at(Path::new(COPY), ProvidedFile { file, lock: None })?;
        let written = self.reading(database, at, |connection| {
            crate::sqlite_export::write(self, connection, at, Path::new(COPY), job)
        });
        withdraw_at(Path::new(COPY));
        written
    }

    /// Opens a SQLite 3 file. As [`Self::open_sqlite`], without spooling.
    ///
    /// # Errors
    /// As [`Self::open_sqlite`].
    pub fn open_provided_sqlite(
        &self,
        file: OwnedFd,
        table: &str,
        timeout: Duration,
    ) -> Result<crate::SqliteTable, FormatError> {
        provide_sqlite(file)?;
        self.open_spooled(PathBuf::from(COPY), None, table, timeout)
    }

    /// Returns the names of the tables in a SQLite 3 file. As [`Self::sqlite_tables`], without spooling.
    ///
    /// # Errors
    /// As [`Self::open_sqlite`].
    pub fn provided_sqlite_tables(&self, file: OwnedFd, timeout: Duration) -> Result<Vec<String>, FormatError> {
        provide_sqlite(file)?;
        self.tables_of_spooled(PathBuf::from(COPY), timeout)
    }
}

fn provide_sqlite(file: OwnedFd) -> Result<(), FormatError> {
    let provided = provide_at(Path::new(COPY), ProvidedFile { file, lock: None });
    provided.map_err(|error| FormatError::Io(io::Error::other(error)))
}

fn provide_at(path: &Path, file: ProvidedFile) -> Result<(), EngineError> {
    let fault = |error| io_fault("take over a file", error);
    if let Some(lock) = file.lock {
        descriptors::provide(&lock_path(path), lock).map_err(fault)?;
    }
    descriptors::provide(path, file.file).map_err(fault)
}

fn withdraw_at(path: &Path) {
    descriptors::withdraw(path);
    descriptors::withdraw(&lock_path(path));
}
