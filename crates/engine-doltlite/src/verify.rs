//! Checks of a whole file, for the operator.

use branchyard_domain::ports::{Engine as _, EngineError};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_sqlite_lexer::quote_name;

use crate::commits;
use crate::engine::DoltliteEngine;
use crate::schema;
use crate::sql::errors;

pub(crate) fn verify(
    engine: &DoltliteEngine,
    database: DatabaseId,
    heads: &[CommitHash],
) -> Result<Vec<String>, EngineError> {
    engine.make_copy(database)?;
    if !commits::exists(engine, database) {
        return Ok(vec!["the file is missing".into()]);
    }
    let timeout = engine.options.verify_timeout;
    let mut problems = Vec::new();
    let turn = engine.queues.enter(database);
    let checked = engine.writing(&turn, |connection| {
        let fault = |error| errors::fault("check the file", error);
        let timed = connection.limit_time(&engine.watchdog, timeout).map_err(fault)?;
        // The check evaluates the generated columns, check constraints and indexed expressions of every row.
        let check = || -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.raw().prepare("PRAGMA integrity_check")?;
            let (mut rows, mut lines) = (statement.query([])?, Vec::new());
            while let Some(row) = connection.spend(|| rows.next())? {
                lines.push(row.get(0)?);
            }
            Ok(lines)
        };
        check().or_else(|error| match (timed.ended(), timed.memory().exceeded()) {
            (Some(ended), _) => Err(ended),
            (None, Some(bytes)) => {
                Ok(vec![format!("the check takes more memory than the {} MiB of a statement", bytes >> 20)])
            }
            (None, None) => Err(fault(error)),
        })
    });
    drop(turn);
    match checked {
        Ok(lines) => problems.extend(lines.into_iter().filter(|line| line != "ok")),
        Err(error @ (EngineError::Damaged(_) | EngineError::DamagedCommit { .. } | EngineError::Fault { .. })) => {
            problems.push(error.to_string())
        }
        Err(EngineError::TimedOut(ms)) => problems.push(format!("the check did not end within {ms} ms")),
        Err(error) => return Err(error),
    }
    for head in heads {
        let read = engine.reading_within(timeout, database, head, "read a head", |connection| {
            for table in schema::table_names(connection)? {
                connection.spend_on_row(&format!("SELECT count(*) FROM {}", quote_name(&table)), [], |_| Ok(()))?;
            }
            Ok(())
        });
        match read {
            Ok(()) => {}
            Err(EngineError::NoSuchCommit(_)) => {
                problems.push(format!("commit {head} is not in the file: its end was lost"))
            }
            Err(error @ (EngineError::Damaged(_) | EngineError::DamagedCommit { .. } | EngineError::Fault { .. })) => {
                problems.push(format!("commit {head}: {error}"))
            }
            Err(EngineError::TimedOut(ms)) => {
                problems.push(format!("commit {head}: its rows could not be counted within {ms} ms"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(problems)
}
