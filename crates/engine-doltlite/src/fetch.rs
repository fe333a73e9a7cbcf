//! Fetches commits from one file into another.
//!
//! The work is done on a private copy of the source, so no writer of the source waits. The reserved branch of the copy
//! is moved to a commit and fetched as a file remote, which transfers what the target lacks. Long histories are fetched
//! in steps, ancestors first. Each step takes a write turn of its own, so the writers of the target wait for one step
//! at most.
//!
//! The target has the remote and its tracking branches only during the fetch. After a crash they stay until the next
//! fetch into the same target.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};
use parking_lot::Mutex;

use crate::branch;
use crate::commits;
use crate::connection::Connection;
use crate::engine::{DoltliteEngine, io_fault};
use crate::private_copy::PrivateCopy;
use crate::queue::WriteTurn;
use crate::sql::errors;
use crate::write;

/// Number of commits of the first step.
const FIRST_STEP: usize = 64;
/// Maximum number of commits of a step.
const MAX_STEP: usize = 4096;

pub(crate) fn fetch(
    engine: &DoltliteEngine,
    into: DatabaseId,
    from: DatabaseId,
    commit: &CommitHash,
) -> Result<(), EngineError> {
    if has(engine, into, commit)? {
        return Ok(());
    }
    // Checked before anything is copied.
    if into == from || !has(engine, from, commit)? {
        return Err(EngineError::NoSuchCommit(commit.clone()));
    }
    let copy = PrivateCopy::of(engine, from, &[commit], u64::MAX)?;
    let copy = copy.ok_or_else(|| EngineError::Unavailable("the source is too large to copy".into()))?;
    fetch_from(engine, into, copy, commit)
}

/// Fetches a commit from a private copy of another database.
pub(crate) fn fetch_from(
    engine: &DoltliteEngine,
    into: DatabaseId,
    copy: PrivateCopy,
    commit: &CommitHash,
) -> Result<(), EngineError> {
    let plan = FetchPlan::make(engine, into, copy.connection(), commit)?;
    let remote = engine.remotes.name();
    let fetch = Fetch { engine, copy, remote, branch: plan.branch };
    let (mut left, mut step, mut first) = (plan.lacking.len(), FIRST_STEP, true);
    while left > 0 {
        left = left.saturating_sub(step);
        let Some(tip) = plan.lacking.get(left) else { break };
        // Where histories join, an earlier step may have fetched the commit. The last step always runs, because it
        // removes the remote.
        if left > 0 && has(engine, into, tip)? {
            continue;
        }
        fetch.move_copy(tip)?;
        let turn = engine.queues.enter(into);
        let begun = Instant::now();
        let start = first.then_some(plan.anchor.as_ref());
        fetch.step(&turn, start, left == 0)?;
        drop(turn);
        first = false;
        step = next_step(step, begun.elapsed(), engine.options.fetch_step);
    }
    if has(engine, into, commit)? { Ok(()) } else { Err(EngineError::NoSuchCommit(commit.clone())) }
}

/// Returns the number of commits of the next step, so that the step takes about as long as `wanted`.
fn next_step(step: usize, took: Duration, wanted: Duration) -> usize {
    if took > wanted {
        (step / 2).max(1)
    } else if took < wanted / 2 {
        (step * 2).min(MAX_STEP)
    } else {
        step
    }
}

fn has(engine: &DoltliteEngine, database: DatabaseId, commit: &CommitHash) -> Result<bool, EngineError> {
    Ok(commits::commit(engine, database, commit)?.is_some())
}

/// What a fetch has to transfer.
struct FetchPlan {
    /// The branch of the copy.
    branch: String,
    /// Commits that the target lacks, newest first.
    lacking: Vec<CommitHash>,
    /// The commit that follows them in the log, which the target has.
    anchor: Option<CommitHash>,
}

impl FetchPlan {
    fn make(
        engine: &DoltliteEngine,
        into: DatabaseId,
        copy: &Connection,
        commit: &CommitHash,
    ) -> Result<Self, EngineError> {
        let fault = |error| errors::fault_at("read the log", commit, error);
        let branch = branch::name(copy.raw()).map_err(fault)?;
        let mut log = copy.raw().prepare("SELECT commit_hash FROM dolt_log(?)").map_err(fault)?;
        let mut rows = log.query([commit.as_str()]).map_err(fault)?;
        let mut lacking = Vec::new();
        // The target lacks all commits before `lacks`, and has the commit at `end` if that is set. The search first
        // doubles its distance, then bisects.
        let (mut lacks, mut next, mut end) = (1, 1, None);
        while let Some(row) = rows.next().map_err(fault)? {
            let (at, hash) = (lacking.len(), commits::parse(&row.get::<_, String>(0).map_err(fault)?)?);
            let known = at == next && has(engine, into, &hash)?;
            lacking.push(hash);
            if known {
                end = Some(at);
                break;
            }
            if at == next {
                (lacks, next) = (at + 1, at * 2);
            }
        }
        let mut end = end.unwrap_or(lacking.len());
        while lacks < end {
            let middle = usize::midpoint(lacks, end);
            if has(engine, into, &lacking[middle])? {
                end = middle;
            } else {
                lacks = middle + 1;
            }
        }
        let anchor = lacking.get(end).cloned();
        lacking.truncate(end);
        Ok(Self { branch, lacking, anchor })
    }
}

struct Fetch<'a> {
    engine: &'a DoltliteEngine,
    copy: PrivateCopy,
    remote: Remote<'a>,
    branch: String,
}

impl Fetch<'_> {
    /// Moves the branch of the copy.
    fn move_copy(&self, to: &CommitHash) -> Result<(), EngineError> {
        stand_at(self.copy.connection(), to)
    }

    /// Fetches the branch of the copy. `start` is set in the first step only, and holds the commit to build on, if
    /// there is one. The last step removes the remote.
    fn step(&self, turn: &WriteTurn, start: Option<Option<&CommitHash>>, last: bool) -> Result<(), EngineError> {
        let path = std::path::absolute(self.copy.path()).map_err(|error| io_fault("name the source", error))?;
        let url = format!("file://{}", path.display());
        self.engine.writing(turn, |target| {
            let begun = start.map_or(Ok(()), |anchor| {
                // The engine checks all of a fetched history, down to commits at which the target has a branch.
                anchor.map_or(Ok(()), |anchor| stand_at(target, anchor))?;
                forget_remotes(target, |name| !self.engine.remotes.contains(name))
                    .and_then(|()| add_remote(target, &self.remote.name, &url))
                    .map_err(|error| errors::fault("begin a fetch", error))
            });
            let fetched = begun.and_then(|()| {
                let fetched =
                    target.raw().query_row("SELECT dolt_fetch(?, ?)", [&self.remote.name, &self.branch], |_| Ok(()));
                fetched.map_err(|error| errors::fault("fetch a commit", error))
            });
            if !last && fetched.is_ok() {
                return fetched;
            }
            let tidied = forget_remotes(target, |name| name == self.remote.name);
            fetched.and(tidied.map_err(|error| errors::fault("tidy up after a fetch", error)))
        })
    }
}

/// Moves the reserved branch of a file to a commit.
pub(crate) fn stand_at(file: &Connection, commit: &CommitHash) -> Result<(), EngineError> {
    write::start(file, commit)?;
    file.raw().execute_batch("COMMIT").map_err(|error| errors::fault("move to a commit", error))
}

pub(crate) fn add_remote(target: &Connection, name: &str, url: &str) -> rusqlite::Result<()> {
    target.raw().query_row("SELECT dolt_remote('add', ?, ?)", [name, url], |_| Ok(()))
}

/// Removes the remotes that `which` selects, with their tracking branches.
pub(crate) fn forget_remotes(target: &Connection, which: impl Fn(&str) -> bool) -> rusqlite::Result<()> {
    let names: Vec<String> = target
        .raw()
        .prepare("SELECT name FROM dolt_remotes")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for name in names.iter().filter(|name| which(name)) {
        target.raw().query_row("SELECT dolt_remote('remove', ?)", [name], |_| Ok(()))?;
    }
    Ok(())
}

/// Names of the remotes of running fetches. All other remotes are left from a crash.
#[derive(Debug, Default)]
pub(crate) struct Remotes(Mutex<BTreeSet<String>>);

impl Remotes {
    /// Returns a name that no other fetch has and that no user statement can guess.
    fn name(&self) -> Remote<'_> {
        let name = format!("fetch-{:032x}", rand::random::<u128>());
        self.0.lock().insert(name.clone());
        Remote { remotes: self, name }
    }

    fn contains(&self, name: &str) -> bool {
        self.0.lock().contains(name)
    }
}

/// The name of a remote, released when dropped; see [`Remotes::name`].
struct Remote<'a> {
    remotes: &'a Remotes,
    name: String,
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        self.remotes.0.lock().remove(&self.name);
    }
}
