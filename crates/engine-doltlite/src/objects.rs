//! Views and triggers that a merge cannot bring together.
//!
//! The engine counts them as conflicts of one table, `dolt_schemas`, and does not list them; it resolves them by name. Which they are follows from
//! their definitions at the three commits.

use std::collections::BTreeMap;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::sql::errors;

/// The table the engine counts them in.
pub(crate) const TABLE: &str = "dolt_schemas";

/// Names of views and triggers in conflict, each with what is the matter.
pub(crate) type Objects = BTreeMap<String, String>;

/// Kind and text.
type ObjectDefinition = (String, String);

/// Definitions by name.
type ObjectDefinitions = BTreeMap<String, ObjectDefinition>;

/// Those of the merge that `connection` attempted, of the commits base, ours, theirs.
pub(crate) fn in_conflict(
    engine: &DoltliteEngine,
    database: DatabaseId,
    connection: &Connection,
    commits: [&CommitHash; 3],
) -> Result<Objects, EngineError> {
    let counted = connection
        .raw()
        .prepare("SELECT 1 FROM dolt_conflicts WHERE \"table\" = ?")
        .and_then(|mut statement| statement.exists([TABLE]))
        .map_err(|error| errors::fault("count conflicts", error))?;
    if !counted {
        return Ok(Objects::new());
    }
    let [base, ours, theirs] = commits;
    let (base, ours, theirs) = (
        definitions(engine, database, base)?,
        definitions(engine, database, ours)?,
        definitions(engine, database, theirs)?,
    );
    let names = base.keys().chain(ours.keys()).chain(theirs.keys());
    let objects = names.filter_map(|name| {
        let sides = [base.get(name), ours.get(name), theirs.get(name)];
        Some((name.clone(), conflict(name, sides)?))
    });
    Ok(objects.collect())
}

fn conflict(name: &str, [base, ours, theirs]: [Option<&ObjectDefinition>; 3]) -> Option<String> {
    if ours == theirs || ours == base || theirs == base {
        return None;
    }
    let (kind, _) = ours.or(theirs)?;
    Some(match (ours, theirs) {
        (Some(_), Some(_)) if base.is_some() => format!("the {kind} '{name}' was changed on both sides"),
        (Some(_), Some(_)) => format!("the {kind} '{name}' was created on both sides, differently"),
        (None, _) => format!("the {kind} '{name}' was dropped on our side and changed on theirs"),
        (_, None) => format!("the {kind} '{name}' was changed on our side and dropped on theirs"),
    })
}

fn definitions(
    engine: &DoltliteEngine,
    database: DatabaseId,
    at: &CommitHash,
) -> Result<ObjectDefinitions, EngineError> {
    engine.reading(database, at, |connection| {
        let read = || -> rusqlite::Result<ObjectDefinitions> {
            connection
                .raw()
                .prepare_cached("SELECT name, type, sql FROM sqlite_schema WHERE type IN ('view', 'trigger')")?
                .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
                .collect()
        };
        read().map_err(|error| errors::fault_at("read the definitions", at, error))
    })
}
