//! Merges, and the conflicts that prevent them.
//!
//! A merge runs inside a transaction and is committed only if no conflict is left. The engine itself would commit a
//! merge that violates constraints.

use std::collections::BTreeMap;

use branchyard_domain::entities::Side;
use branchyard_domain::ports::{EngineError, MergeJob, MergeOutcome};
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::cells;
use crate::commits;
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::memory::MemoryBudget;
use crate::objects::{self, Objects};
use crate::queue::WriteTurn;
use crate::row_resolutions;
use crate::schema;
use crate::sql::errors;
use crate::write::start;

pub(crate) fn merge(
    engine: &DoltliteEngine,
    turn: &WriteTurn,
    job: &MergeJob<'_>,
) -> Result<MergeOutcome, EngineError> {
    let base = base(engine, turn.database(), job.ours, job.theirs)?;
    if let Some(head) = without_merging(&base, job.ours, job.theirs)
        && (job.fast_forward || head == *job.ours)
    {
        return Ok(MergeOutcome::Head(head));
    }
    engine.writing(turn, |connection| {
        let timed = connection
            .limit_time(&engine.watchdog, job.timeout)
            .map_err(|error| errors::fault("set a time limit", error))?;
        let merged = timed.with_room(
            |_| {
                connection.roll_back().map_err(|error| errors::fault("start over", error))?;
                merge_on(engine, turn.database(), connection, &base, job)
            },
            || false,
        );
        match merged {
            Err(error) => Err(timed.ended().unwrap_or_else(|| too_large(timed.memory(), error))),
            merged => merged,
        }
    })
}

/// Returns the error to report for a failed merge. A merge that exceeded the memory budget of a statement would do so
/// again, so the result is [`EngineError::CannotMerge`] instead of `error`.
pub(crate) fn too_large(memory: &MemoryBudget, error: EngineError) -> EngineError {
    match (memory.exceeded(), error) {
        (_, error @ EngineError::CannotMerge(_)) | (None, error) => error,
        (Some(bytes), _) => EngineError::CannotMerge(format!(
            "the merge takes more memory than the {} MiB of a statement; merge the changes in smaller steps, or remove generated columns, checks and indexes with expressions that need this much",
            bytes >> 20
        )),
    }
}

/// Returns the merge base of both sides.
pub(crate) fn base(
    engine: &DoltliteEngine,
    database: DatabaseId,
    ours: &CommitHash,
    theirs: &CommitHash,
) -> Result<CommitHash, EngineError> {
    commits::merge_base(engine, database, ours, theirs)?
        .ok_or_else(|| EngineError::CannotMerge("the two sides have no common ancestor".into()))
}

/// Returns the merged head if one side contains the other.
pub(crate) fn without_merging(base: &CommitHash, ours: &CommitHash, theirs: &CommitHash) -> Option<CommitHash> {
    if base == theirs {
        Some(ours.clone())
    } else if base == ours {
        Some(theirs.clone())
    } else {
        None
    }
}

fn merge_on(
    engine: &DoltliteEngine,
    database: DatabaseId,
    connection: &Connection,
    base: &CommitHash,
    job: &MergeJob<'_>,
) -> Result<MergeOutcome, EngineError> {
    attempt(connection, job.ours, job.theirs)?;
    let mut objects = objects::in_conflict(engine, database, connection, [base, job.ours, job.theirs])?;
    let mut left = unsettled(connection, &objects)?;
    if !left.is_empty() || !job.rows.is_empty() {
        row_resolutions::resolve(connection, job.rows)?;
        left = unsettled(connection, &objects)?;
        resolve(connection, &left, job.resolve, &mut objects)?;
        left = unsettled(connection, &objects)?;
    }
    if !left.is_empty() {
        return Ok(MergeOutcome::Conflicts(left.into_iter().collect()));
    }
    let fault = |error| errors::fault("commit a merge", error);
    if let Some(failure) = schema::too_long(connection).map_err(fault)? {
        return Err(EngineError::CannotMerge(failure));
    }
    // A merge whose rows equal ours still needs a commit, because the commit has a second parent.
    let hash = commits::commit_all(connection, job.message, job.author, &["--allow-empty"]).map_err(fault)?;
    connection.raw().execute_batch("COMMIT").map_err(fault)?;
    Ok(MergeOutcome::Head(commits::parse(&hash)?))
}

/// Merges in an open transaction, without committing.
pub(crate) fn attempt(connection: &Connection, ours: &CommitHash, theirs: &CommitHash) -> Result<(), EngineError> {
    start(connection, ours)?;
    let merged =
        connection.spend_on_row("SELECT dolt_merge(?, '--no-commit', '--no-ff')", [theirs.as_str()], |_| Ok(()));
    let Err(error) = merged else { return Ok(()) };
    let text = errors::parts(&error).1;
    if text.starts_with("Merge has") || text.starts_with("Merge resulted") {
        return Ok(());
    }
    if let Some(reason) = text.strip_prefix("cannot merge: ") {
        return Err(EngineError::CannotMerge(reason.to_owned()));
    }
    if errors::is_missing_commit(&error) {
        return Err(EngineError::NoSuchCommit(theirs.clone()));
    }
    match errors::parts(&error).0.map(|code| code.code) {
        // For a merge that is impossible, the engine reports a readable text with no specific code.
        Some(rusqlite::ErrorCode::Unknown) => Err(EngineError::CannotMerge(text)),
        _ => Err(errors::fault("merge", error)),
    }
}

/// Returns the tables, views and triggers with conflicts of any kind, with the number of conflicts.
fn unsettled(connection: &Connection, objects: &Objects) -> Result<BTreeMap<String, u64>, EngineError> {
    let mut left: BTreeMap<String, u64> = objects.keys().map(|name| (name.clone(), 1)).collect();
    for sql in [
        "SELECT \"table\", num_conflicts FROM dolt_conflicts",
        "SELECT table_name, 1 FROM dolt_schema_conflicts",
        "SELECT \"table\", num_violations FROM dolt_constraint_violations",
    ] {
        let counts = || -> rusqlite::Result<Vec<(String, u64)>> {
            connection.raw().prepare(sql)?.query_map([], |row| Ok((row.get(0)?, cells::count(row, 1)?)))?.collect()
        };
        for (table, count) in counts().map_err(|error| errors::fault("count conflicts", error))? {
            if table != objects::TABLE && count > 0 {
                *left.entry(table).or_insert(0) += count;
            }
        }
    }
    Ok(left)
}

fn resolve(
    connection: &Connection,
    left: &BTreeMap<String, u64>,
    sides: &BTreeMap<String, Side>,
    objects: &mut Objects,
) -> Result<(), EngineError> {
    for table in left.keys() {
        let side = sides.iter().find(|(name, _)| name.eq_ignore_ascii_case(table)).map(|(_, side)| side);
        let flag = match side {
            Some(Side::Ours) => "--ours",
            Some(Side::Theirs) => "--theirs",
            None => continue,
        };
        match connection.spend_on_row("SELECT dolt_conflicts_resolve(?, ?)", [flag, table], |_| Ok(())) {
            Ok(()) => {
                objects.remove(table);
            }
            Err(error) if errors::cut_short(&error) => return Err(errors::fault("resolve conflicts", error)),
            // Conflicts of a table's definition and of constraints have no sides to choose from: they stay.
            Err(error) => tracing::debug!(%error, "cannot resolve a conflict by choosing a side"),
        }
    }
    Ok(())
}
