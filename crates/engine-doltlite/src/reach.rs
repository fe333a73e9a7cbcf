//! The commits that a user statement may name: those that the database shows.
//!
//! A file holds more commits than the database shows: commits of deleted branches, of failed merges, and those copied
//! by a fork. The engine finds all of them by their hash. While a statement runs, a [`Scope`] decides for each hash
//! that reaches the engine (through `guard/history.rs`) whether the commit counts as present.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use branchyard_domain::ports::{EngineError, Reachability};
use branchyard_domain::values::{CommitHash, DatabaseId};
use parking_lot::Mutex;

use crate::ancestry::Ancestry;
use crate::connection::{Connection, ConnectionUse};
use crate::guard::GuardSettings;
use crate::memory;
use crate::sql::errors;
use crate::watchdog::{DeadlineWatch, Follower};

/// The commits that the statements of one connection may name.
pub(crate) struct Scope {
    pub(crate) database: DatabaseId,
    /// The commit that is read or written to. Its ancestors may be named.
    pub(crate) at: CommitHash,
    /// Decides which other commits the database shows.
    pub(crate) reachability: Arc<dyn Reachability>,
    /// Cache of the parents of commits.
    pub(crate) ancestry: Arc<Ancestry>,
    /// Path of the database file.
    pub(crate) path: PathBuf,
    /// Settings of the guard.
    pub(crate) guard: Arc<GuardSettings>,
    /// State while a statement runs.
    pub(crate) state: Mutex<ReachState>,
}

/// The state of a [`Scope`] during a time limit; see [`Scope::with`].
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
    /// Begins a time limit. The work of the companion connection ends with it.
    pub(crate) fn begin(&self, follower: Follower) {
        let mut state = self.state.lock();
        state.allowed.clear();
        state.asked = false;
        state.follower = Some(follower);
    }

    /// Ends the time limit. The companion connection stays open, and begins a new transaction on its next use.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
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

    /// Runs `work` on the companion: an internal connection to the same commit, whose tables and functions are not
    /// wrapped. Statements that `work` leaves open end before the time limit does.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut state = self.state.lock();
        if state.companion.is_none() {
            state.companion = Some(Connection::open(&self.path, ConnectionUse::Read(&self.at), &self.guard)?);
        }
        let ReachState { companion: Some(companion), begun, follower, watch, .. } = &mut *state else {
            unreachable!("it was just opened");
        };
        if !*begun {
            companion.begin_read()?;
            *begun = true;
        }
        if let Some(follower) = follower
            && watch.is_none()
        {
            *watch = Some(companion.follow(follower)?);
        }
        work(companion.raw())
    }

    /// Returns `true` if the database shows `commit`.
    pub(crate) fn shows(&self, commit: &CommitHash) -> Result<bool, EngineError> {
        if *commit == self.at {
            return Ok(true);
        }
        let mut state = self.state.lock();
        state.asked = true;
        if state.allowed.contains(commit) {
            return Ok(true);
        }
        drop(state);
        // The stores that are queried count their own memory.
        let shows = memory::unmetered(|| {
            let reached = self
                .reachability
                .reaches(self.database, commit, &mut |heads: &[CommitHash]| self.descends(heads, commit))?;
            Ok::<bool, EngineError>(reached || self.descends(std::slice::from_ref(&self.at), commit)?)
        })?;
        if shows {
            self.state.lock().allowed.insert(commit.clone());
        }
        Ok(shows)
    }

    /// Returns the first commit in the text of a statement that the database does not show. Used after a failure: the
    /// engine takes the columns of some tables from the commit they name, and reports a missing column before anything
    /// checks whether the commit is shown.
    pub(crate) fn unknown_within(&self, sql: &str) -> Option<CommitHash> {
        hashes_within(sql).find(|commit| !matches!(self.shows(commit), Ok(true)))
    }

    /// Returns `true` if [`Self::shows`] was called for another commit since the time limit began. The result of the
    /// statement then depends on the refs.
    pub(crate) fn was_asked(&self) -> bool {
        self.state.lock().asked
    }

    fn descends(&self, heads: &[CommitHash], commit: &CommitHash) -> Result<bool, EngineError> {
        let mut parents = |at: &CommitHash| self.with(|companion| parents_of(companion, at));
        let found = self.ancestry.descends(self.database, heads, commit, &mut parents);
        found.map_err(|error| errors::fault("look for a commit", error))
    }
}

/// Returns the parents of a commit. Returns `None` if the file has no such commit.
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

/// Returns the hashes in a ref expression that a statement passes, parsed as the engine parses it and in every other
/// place where a hash could stand.
pub(crate) fn hashes(spec: &str) -> impl Iterator<Item = CommitHash> + '_ {
    // The engine treats a NUL as the end, two or three dots as a range, and `~` or `^` as the path to an ancestor.
    let spec = spec.split('\0').next().unwrap_or_default();
    spec.split("..").filter_map(|end| {
        let end = end.trim_matches('.');
        let base = end.split(['~', '^']).next().unwrap_or_default();
        CommitHash::parse(base).ok()
    })
}

/// Returns the hashes in the text of a statement.
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
