//! The commits that a user's statement may name: those the database shows.
//!
//! A file holds more commits than the database shows: what deleted branches left, what failed merges made, what a fork took over. The engine finds
//! all of them by their hash. While a statement runs, a [`Scope`] decides for each hash that reaches the engine (`guard/history.rs` has it asked)
//! whether the commit counts as there.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use branchyard_domain::ports::{EngineError, Reachability};
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::ancestry::Ancestry;
use crate::connection::{Connection, ConnectionUse};
use crate::memory;
use crate::sql::errors;
use crate::watchdog::{DeadlineWatch, Follower};

/// What the statements of one connection may name.
pub(crate) struct Scope {
    /// The database.
    pub(crate) database: DatabaseId,
    /// The commit that is read or written to; what it descends from may be named.
    pub(crate) at: CommitHash,
    /// What the database shows besides.
    pub(crate) reachability: Arc<dyn Reachability>,
    /// Parents of commits.
    pub(crate) ancestry: Arc<Ancestry>,
    /// The file.
    pub(crate) path: PathBuf,
    /// All modules of the engine.
    pub(crate) modules: Arc<HashSet<String>>,
    /// What is open while a statement runs.
    pub(crate) state: Mutex<ReachState>,
}

/// See [`Scope::with`].
#[derive(Default)]
pub(crate) struct ReachState {
    companion: Option<Connection>,
    begun: bool,
    follower: Option<Follower>,
    watch: Option<DeadlineWatch>,
    allowed: HashSet<CommitHash>,
    asked: bool,
}

impl Scope {
    /// Begins a time limit: what the companion does ends with it.
    pub(crate) fn begin(&self, follower: Follower) {
        let mut state = self.lock();
        state.allowed.clear();
        state.asked = false;
        state.follower = Some(follower);
    }

    /// Ends the time limit; the companion stays open, and looks at the file anew when it is used again.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.follower = None;
        state.watch = None;
        state.allowed.clear();
        let kept = state.companion.as_ref().is_none_or(|companion| {
            companion.raw().progress_handler(0, None::<fn() -> bool>).and_then(|()| companion.roll_back()).is_ok()
        });
        state.begun = false;
        if !kept {
            state.companion = None;
        }
    }

    /// Runs `work` on the companion: a connection of ours to the same commit, on which the engine's own tables and functions are what they were.
    /// Statements it leaves open end before the time limit does.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut state = self.lock();
        if state.companion.is_none() {
            state.companion = Some(Connection::open(&self.path, ConnectionUse::Read(&self.at), &self.modules)?);
        }
        let ReachState { companion: Some(companion), begun, follower, watch, .. } = &mut *state else {
            unreachable!("it was just opened");
        };
        if !*begun {
            companion.raw().execute_batch("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1")?;
            *begun = true;
        }
        if let Some(follower) = follower
            && watch.is_none()
        {
            *watch = Some(companion.follow(follower)?);
        }
        work(companion.raw())
    }

    /// Returns whether the database shows `commit`.
    pub(crate) fn shows(&self, commit: &CommitHash) -> Result<bool, EngineError> {
        if *commit == self.at {
            return Ok(true);
        }
        let mut state = self.lock();
        state.asked = true;
        if state.allowed.contains(commit) {
            return Ok(true);
        }
        drop(state);
        // The stores that are asked count their memory themselves.
        let shows = memory::unmetered(|| {
            let reached = self
                .reachability
                .reaches(self.database, commit, &mut |heads: &[CommitHash]| self.descends(heads, commit))?;
            Ok::<bool, EngineError>(reached || self.descends(std::slice::from_ref(&self.at), commit)?)
        })?;
        if shows {
            self.lock().allowed.insert(commit.clone());
        }
        Ok(shows)
    }

    /// The first commit in the text of a statement that the database does not show. For statements that failed: the engine takes the columns of
    /// some tables from the commit they name, and says which column is not there before anything asks about the commit.
    pub(crate) fn unknown_within(&self, sql: &str) -> Option<CommitHash> {
        hashes_within(sql).find(|commit| !matches!(self.shows(commit), Ok(true)))
    }

    /// Whether a commit was asked about since the time limit began: what the statement gives changes when refs do.
    pub(crate) fn was_asked(&self) -> bool {
        self.lock().asked
    }

    fn descends(&self, heads: &[CommitHash], commit: &CommitHash) -> Result<bool, EngineError> {
        let mut parents = |at: &CommitHash| self.with(|companion| parents_of(companion, at));
        let found = self.ancestry.descends(self.database, heads, commit, &mut parents);
        found.map_err(|error| errors::fault("look for a commit", error))
    }

    fn lock(&self) -> MutexGuard<'_, ReachState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parents of a commit; `None` if the file has no such commit.
pub(crate) fn parents_of(
    connection: &rusqlite::Connection,
    commit: &CommitHash,
) -> rusqlite::Result<Option<Vec<CommitHash>>> {
    let read = || -> rusqlite::Result<Vec<Option<String>>> {
        connection
            .prepare_cached(
                "SELECT parent_hash FROM dolt_commit_ancestors WHERE commit_hash = ? ORDER BY parent_index",
            )?
            .query_map([commit.as_str()], |row| row.get(0))?
            .collect()
    };
    match read() {
        Ok(rows) if rows.is_empty() => Ok(None),
        Ok(rows) => Ok(Some(rows.into_iter().flatten().filter_map(|hash| CommitHash::parse(&hash).ok()).collect())),
        Err(error) if errors::is_missing_commit(&error) || errors::is_no_commit(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The hashes in what a statement passes as a ref: as the engine takes it apart, and wherever else one could stand.
pub(crate) fn hashes(spec: &str) -> impl Iterator<Item = CommitHash> + '_ {
    // The engine takes a NUL for the end, two or three dots for a range, and `~` or `^` for the way to an ancestor.
    let spec = spec.split('\0').next().unwrap_or_default();
    spec.split("..").filter_map(|end| {
        let end = end.trim_matches('.');
        let base = end.split(['~', '^']).next().unwrap_or_default();
        CommitHash::parse(base).ok()
    })
}

/// The hashes that stand in the text of a statement.
fn hashes_within(sql: &str) -> impl Iterator<Item = CommitHash> + '_ {
    sql.split(|c: char| !c.is_ascii_hexdigit()).filter_map(|run| CommitHash::parse(run).ok())
}

#[cfg(test)]
mod tests {
    use super::hashes;

    #[test]
    fn hashes_are_found_in_every_form_of_a_ref() {
        let (a, b) = ("0123456789abcdef0123456789abcdef01234567", "89ABCDEF0123456789abcdef0123456789ABCDEF");
        let found = |spec: &str| hashes(spec).map(|hash| hash.to_string()).collect::<Vec<_>>();
        let lower = b.to_lowercase();
        for spec in [a.to_owned(), format!("{a}~3^2"), format!("{a}^"), format!("{a}\0x"), format!("HEAD..{a}")] {
            assert_eq!(found(&spec), [a], "{spec}");
        }
        for spec in [format!("{a}..{b}"), format!("{a}...{b}"), format!("{a}~1...{b}^2~3"), format!("..{a}....{b}..")] {
            assert_eq!(found(&spec), [a, lower.as_str()], "{spec}");
        }
        for spec in
            ["", "HEAD", "HEAD~2", "WORKING", &a[1..], &format!("{a}0"), &format!("refs/heads/{a}"), &format!(" {a}")]
        {
            assert_eq!(found(spec), [""; 0], "{spec}");
        }
    }
}
