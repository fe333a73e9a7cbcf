//! Commits of one file, brought into another.
//!
//! The source's reserved branch is moved to the commit and fetched as a file remote, so what is copied is what the target lacks. The remote and
//! what tracks it exist only meanwhile; a crash leaves them until the next fetch.

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::branch;
use crate::commits;
use crate::connection::Connection;
use crate::engine::{DoltliteEngine, io_fault};
use crate::sql::errors;

pub(crate) fn fetch(
    engine: &DoltliteEngine,
    into: DatabaseId,
    from: DatabaseId,
    commit: &CommitHash,
) -> Result<(), EngineError> {
    if into == from || commits::commit(engine, into, commit)?.is_some() {
        return match commits::commit(engine, from, commit)? {
            None if into == from => Err(EngineError::NoSuchCommit(commit.clone())),
            _ => Ok(()),
        };
    }
    // Both queues: the source's branch must stay where it is until the target has it.
    let (first, second) = engine.queues.enter_both(into, from);
    let Some(second) = second else { return Ok(()) };
    let (into_turn, from_turn) = if first.database() == into { (first, second) } else { (second, first) };
    let branch = engine.writing(&from_turn, |source| {
        crate::write::start(source, commit)?;
        source.raw().execute_batch("COMMIT").map_err(|error| errors::fault("move to a commit", error))?;
        branch::name(source.raw()).map_err(|error| errors::fault("look for the branch", error))
    })?;
    let path = std::path::absolute(engine.files.path(from)).map_err(|error| io_fault("name the source", error))?;
    let url = format!("file://{}", path.display());
    engine.writing(&into_turn, |target| {
        forget_remotes(target).map_err(|error| errors::fault("tidy up after a fetch", error))?;
        let fetched = fetch_branch(target, &url, &branch).map_err(|error| errors::fault("fetch a commit", error));
        let tidied = forget_remotes(target).map_err(|error| errors::fault("tidy up after a fetch", error));
        fetched.and(tidied)
    })?;
    match commits::commit(engine, into, commit)? {
        Some(_) => Ok(()),
        None => Err(EngineError::NoSuchCommit(commit.clone())),
    }
}

fn fetch_branch(target: &Connection, url: &str, branch: &str) -> rusqlite::Result<()> {
    target.raw().query_row("SELECT dolt_remote('add', 'source', ?)", [url], |_| Ok(()))?;
    target.raw().query_row("SELECT dolt_fetch('source', ?)", [branch], |_| Ok(()))
}

/// Removes all remotes with the branches that track them.
fn forget_remotes(target: &Connection) -> rusqlite::Result<()> {
    let names: Vec<String> = target
        .raw()
        .prepare("SELECT name FROM dolt_remotes")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for name in names {
        target.raw().query_row("SELECT dolt_remote('remove', ?)", [name], |_| Ok(()))?;
    }
    Ok(())
}
