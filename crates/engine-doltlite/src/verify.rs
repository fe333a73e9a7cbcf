//! Checks of a whole file, for the operator.

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::commits;
use crate::engine::DoltliteEngine;
use crate::schema;
use crate::sql::{errors, quote};

pub(crate) fn verify(
    engine: &DoltliteEngine,
    database: DatabaseId,
    heads: &[CommitHash],
) -> Result<Vec<String>, EngineError> {
    if !commits::exists(engine, database) {
        return Ok(vec!["the file is missing".into()]);
    }
    let mut problems = Vec::new();
    let turn = engine.queues.enter(database);
    let checked = engine.writing(&turn, |connection| {
        let check = || -> rusqlite::Result<Vec<String>> {
            connection.raw().prepare("PRAGMA integrity_check")?.query_map([], |row| row.get(0))?.collect()
        };
        check().map_err(|error| errors::fault("check the file", error))
    });
    drop(turn);
    match checked {
        Ok(lines) => problems.extend(lines.into_iter().filter(|line| line != "ok")),
        Err(error @ (EngineError::Damaged(_) | EngineError::Fault { .. })) => problems.push(error.to_string()),
        Err(error) => return Err(error),
    }
    for head in heads {
        let read = engine.reading(database, head, |connection| {
            let count = || -> rusqlite::Result<()> {
                for table in schema::table_names(connection)? {
                    connection
                        .raw()
                        .query_row(&format!("SELECT count(*) FROM {}", quote::name(&table)), [], |_| Ok(()))?;
                }
                Ok(())
            };
            count().map_err(|error| errors::fault_at("read a head", head, error))
        });
        match read {
            Ok(()) => {}
            Err(EngineError::NoSuchCommit(_)) => {
                problems.push(format!("commit {head} is not in the file: its end was lost"))
            }
            Err(error @ (EngineError::Damaged(_) | EngineError::Fault { .. })) => {
                problems.push(format!("commit {head}: {error}"))
            }
            Err(error) => return Err(error),
        }
    }
    Ok(problems)
}
