//! Scripts: untrusted statements from a file that need not fit into memory, as one commit.

mod statements;

use std::collections::HashMap;
use std::io::Read;

use branchyard_domain::entities::{ImportMode, RowProblem, TableKind};
use branchyard_domain::ports::{EngineError, FormatError, ScriptJob, SqlFailure};
use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::quote_name;
use rusqlite::limits::Limit;

use self::statements::{ScriptStatement, Statements, Stopped};
use crate::connection::{Connection, TimeLimit};
use crate::engine::DoltliteEngine;
use crate::guard::{GuardMode, StatementEffects};
use crate::import::{broken_references, set_foreign_keys};
use crate::memory::MemoryBudget;
use crate::queue::WriteTurn;
use crate::read::{no_nul, not_too_complex};
use crate::schema;
use crate::sql::errors::{self, StatementFailure, StatementPosition};
use crate::write::{finish, run_one, set_down, start};

pub(crate) fn run_script(
    engine: &DoltliteEngine,
    turn: &WriteTurn,
    job: &ScriptJob<'_>,
    script: &mut dyn Read,
) -> Result<CommitHash, EngineError> {
    engine.writing_at(turn, job.base, |connection| {
        let fault = |error| errors::fault("set limits for a script", error);
        let timed = connection.limit_time(&engine.watchdog, job.timeout).map_err(fault)?;
        let bytes = i32::try_from(job.statement_bytes).unwrap_or(i32::MAX);
        let usual = connection.raw().set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, bytes).map_err(fault)?;
        let ran = prepare(connection, job).and_then(|()| run(connection, job, script, &timed, timed.memory()));
        connection.raw().set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, usual).map_err(fault)?;
        let last_line = match ran {
            Err(EngineError::Import(error)) if timed.ended().is_none() => return Err(EngineError::Import(error)),
            Err(error) => return Err(timed.ended().unwrap_or(error)),
            Ok(last_line) => last_line,
        };
        drop(timed);
        finish(connection, job.base, job.message, job.author).map_err(|error| match error {
            EngineError::Sql { failure, .. } => blamed(last_line, &failure),
            other => other,
        })
    })
}

fn problem(line: u64, detail: impl Into<String>) -> EngineError {
    EngineError::Import(FormatError::Rows(vec![RowProblem { line, column: None, detail: detail.into() }]))
}

fn blamed(line: u64, failure: &SqlFailure) -> EngineError {
    problem(line, failure.to_string())
}

/// Brings the table into the state in which the script expects it. The transaction stays open.
fn prepare(connection: &Connection, job: &ScriptJob<'_>) -> Result<(), EngineError> {
    let fault = |error| errors::fault("prepare a script", error);
    start(connection, job.base)?;
    let Some((table, mode)) = job.target else { return Ok(()) };
    let present = schema::find(connection, table).map_err(fault)?;
    let change = match (mode, present) {
        (ImportMode::Create, Some((name, _))) => return Err(EngineError::TableExists(name)),
        (ImportMode::Create | ImportMode::Overwrite, None) => return Ok(()),
        (ImportMode::Overwrite, Some((name, TableKind::View))) => format!("DROP VIEW {}", quote_name(&name)),
        (ImportMode::Overwrite, Some((name, TableKind::Table))) => format!("DROP TABLE {}", quote_name(&name)),
        (ImportMode::Update, Some((_, TableKind::Table))) => return Ok(()),
        (ImportMode::Replace, Some((name, TableKind::Table))) => format!("DELETE FROM {}", quote_name(&name)),
        (ImportMode::Update | ImportMode::Replace, None | Some((_, TableKind::View))) => {
            return Err(EngineError::NoSuchTable(table.to_owned()));
        }
    };
    // Referenced rows may come back with the script, so references are checked again at its end. Foreign keys can be
    // switched only outside a transaction. Ending the transaction is safe, because only the engine uses the reserved
    // branch.
    connection.roll_back().map_err(fault)?;
    set_foreign_keys(connection, false)?;
    let changed = start(connection, job.base).and_then(|()| {
        let _entered = connection.enter(GuardMode::Writer);
        let failed =
            |error| StatementPosition::all(&change, GuardMode::Writer).failed(error, &connection.take_seen()).at(1);
        connection.spend(|| connection.preparing(&change, || connection.raw().execute_batch(&change))).map_err(failed)
    });
    let changed = changed.and_then(|()| connection.raw().execute_batch("COMMIT").map_err(fault));
    connection.roll_back().map_err(fault)?;
    set_foreign_keys(connection, true)?;
    changed.map_err(|error| match error {
        EngineError::Sql { failure, .. } => blamed(1, &failure),
        other => other,
    })?;
    connection.raw().execute_batch("BEGIN IMMEDIATE").map_err(fault)
}

/// Runs the statements of the script. Returns the line on which the last statement begins.
fn run(
    connection: &Connection,
    job: &ScriptJob<'_>,
    script: &mut dyn Read,
    timed: &TimeLimit<'_>,
    memory: &MemoryBudget,
) -> Result<u64, EngineError> {
    let mut statements = Statements::new(script, job.statement_bytes);
    let mut last_line = None;
    loop {
        let ScriptStatement { line, text } = match statements.next() {
            Ok(Some(statement)) => statement,
            Ok(None) => break,
            Err(Stopped::Script { line, detail }) => return Err(problem(line, detail)),
            Err(Stopped::Io(error)) => return Err(EngineError::Import(FormatError::Io(error))),
        };
        let place = StatementPosition::all(&text, GuardMode::Writer);
        no_nul(&text).and_then(|()| not_too_complex(&text)).map_err(|failure| blamed(line, &failure))?;
        run_one(connection, &place, true, memory).map_err(|failed| match failed {
            StatementFailure::Sql(failure) => blamed(line, &failure),
            StatementFailure::Engine(error) => error,
        })?;
        if timed.expired() {
            return Err(EngineError::TimedOut(0));
        }
        if memory.is_getting_short() {
            set_down(connection).map_err(|error| place.failed(error, &StatementEffects::default()).at(1))?;
            memory.renew();
        }
        last_line = Some(line);
    }
    let Some(last_line) = last_line else {
        return Err(blamed(1, &SqlFailure::Syntax { position: statements.bytes() + 1, near: String::new() }));
    };
    check_table(connection, job)?;
    Ok(last_line)
}

/// Checks the table that the script leaves behind.
fn check_table(connection: &Connection, job: &ScriptJob<'_>) -> Result<(), EngineError> {
    let fault = |error| errors::fault("look at what a script did", error);
    let Some((table, mode)) = job.target else { return Ok(()) };
    let Some((table, kind)) = schema::find(connection, table).map_err(fault)? else {
        let detail = format!("the script does not create the table '{table}'");
        return Err(EngineError::Import(FormatError::File(detail)));
    };
    if kind == TableKind::Table && matches!(mode, ImportMode::Overwrite | ImportMode::Replace) {
        let broken = broken_references(connection, &table, &HashMap::new()).map_err(fault)?;
        if !broken.is_empty() {
            return Err(EngineError::Import(FormatError::Rows(broken)));
        }
    }
    Ok(())
}
