//! Fetches commits from one file into another.
//!
//! The chunks that the target lacks are copied from a private copy of the source, so no writer of the source waits. Long
//! histories are fetched in steps, ancestors first. Each step takes a write turn of its own, so the writers of the target
//! wait for one step at most. A step is one commit of the file: a crash leaves all of it or nothing.

use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::chunks::{ChunkFile, copy_history};
use crate::commits;
use crate::connection::Connection;
use crate::engine::{DoltliteEngine, missing};
use crate::private_copy::PrivateCopy;
use crate::queue::WriteTurn;
use crate::sql::errors;

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
    let lacking = lacking(engine, into, copy.connection(), commit)?;
    let source = ChunkFile::open(copy.path()).map_err(|error| errors::fault("open a copy", error))?;
    let (mut left, mut step) = (lacking.len(), FIRST_STEP);
    while left > 0 {
        left = left.saturating_sub(step);
        let Some(tip) = lacking.get(left) else { break };
        let turn = engine.queues.enter(into);
        let begun = Instant::now();
        copy_into(engine, &turn, &source, tip)?;
        drop(turn);
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

/// Adds a commit of `source` to the file of a database, with what it reaches.
fn copy_into(
    engine: &DoltliteEngine,
    turn: &WriteTurn,
    source: &ChunkFile,
    tip: &CommitHash,
) -> Result<(), EngineError> {
    let database = turn.database();
    engine.check_format(database)?;
    let path = engine.files.path(database);
    // To open it for writing would create it.
    if !engine.files.exists(&path) {
        return Err(missing(database));
    }
    let target = ChunkFile::open_for_writing(&path).map_err(|error| errors::fault("open a database", error))?;
    copy_history(source, &target, tip)
}

/// Returns the commits of the history of `commit` that the target lacks, newest first. A file that has a commit has its
/// history.
fn lacking(
    engine: &DoltliteEngine,
    into: DatabaseId,
    copy: &Connection,
    commit: &CommitHash,
) -> Result<Vec<CommitHash>, EngineError> {
    let fault = |error| errors::fault_at("read the log", commit, error);
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
    lacking.truncate(end);
    Ok(lacking)
}
