//! Views and triggers in conflict.
//!
//! The engine counts these conflicts as conflicts of one table, `dolt_schemas`, and does not list them; it resolves
//! them by name. The conflicting names follow from the definitions at the three commits.

use std::collections::BTreeMap;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::sql::errors;

/// The table under which the engine counts conflicts of views and triggers.
pub(crate) const TABLE: &str = "dolt_schemas";

/// Maps the names of views and triggers in conflict to a description of the conflict.
pub(crate) type Objects = BTreeMap<String, String>;

/// Kind and SQL text of an object.
type ObjectDefinition = (String, String);

/// Definitions by name.
type ObjectDefinitions = BTreeMap<String, ObjectDefinition>;

/// Returns the objects in conflict after the merge that `connection` attempted. `commits` are the base, ours and
/// theirs.
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
