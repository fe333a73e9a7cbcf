//! Runs one statement of a session.

use std::ops::ControlFlow;
use std::time::Duration;

use branchyard_domain::ports::{
    Arguments, CancellationToken, EngineError, RowSink, SessionError, SqlFailure, SqlPower, StatementBounds,
    StatementDescription, StatementReport,
};
use branchyard_sqlite_lexer::{is_first_word, skip_to_statement, statement_length, tokenize};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Statement};

use super::sink::{DiscardRows, WithoutFiles};
use super::{EngineSession, arguments, codes, definition};
use crate::commits;
use crate::connection::{Connection, TimeLimit};
use crate::guard::{GuardMode, StatementEffects};
use crate::memory::MemoryBudget;
use crate::read;
use crate::sql::errors;
use crate::sql::statement_kind::{StatementKind, defines, statement_kind};

/// Message of the commit that is made automatically for a transaction.
const TRANSACTION: &str = "SQL transaction";
/// Time limit for preparing a statement in order to describe it.
const DESCRIBING: Duration = Duration::from_secs(10);

pub(super) fn run(
    session: &mut EngineSession,
    sql: &str,
    arguments: &Arguments,
    bounds: &StatementBounds,
    sink: &mut dyn RowSink,
) -> Result<StatementReport, SessionError> {
    one(session, sql, arguments, bounds, sink)
}

pub(super) fn step(
    session: &mut EngineSession,
    sql: &str,
    bounds: &StatementBounds,
) -> Result<(usize, StatementReport), SessionError> {
    let length = statement_length(sql);
    let done = if skip_to_statement(&sql[length..]).is_empty() { sql.len() } else { length };
    match one(session, &sql[..length], &Arguments::None, bounds, &mut DiscardRows) {
        Ok(report) => Ok((done, report)),
        Err(SessionError::NoStatement) => Ok((done, StatementReport::default())),
        Err(error) => Err(error),
    }
}

pub(super) fn describe(session: &EngineSession, sql: &str) -> Result<StatementDescription, SessionError> {
    check_text(sql)?;
    let connection = session.connection()?;
    let text = &sql[..statement_length(sql)];
    let _entered = connection.enter(mode(session, text));
    let timed = limit_time(session, connection, DESCRIBING, CancellationToken::default())?;
    let mut batch = Batch::new(connection.raw(), text);
    let prepared = timed.memory().spend(|| batch.next());
    let seen = connection.take_seen();
    let statement = prepared
        .map_err(|error| unless_ended(failed(&error, &seen), timed.ended()))?
        .ok_or(SessionError::NoStatement)?;
    Ok(StatementDescription {
        parameters: (1..=statement.parameter_count())
            .map(|at| statement.parameter_name(at).map(str::to_owned))
            .collect(),
        columns: statement
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), column.decl_type().map(str::to_owned)))
            .collect(),
        is_explain: is_first_word(text, &["EXPLAIN"]),
        is_readonly: statement.readonly() && !seen.commands,
    })
}

/// Returns the guard mode for a statement.
fn mode(session: &EngineSession, text: &str) -> GuardMode {
    let defines = is_first_word(text, &["CREATE", "DROP", "ALTER", "ANALYZE", "REINDEX"]);
    GuardMode::Session { power: session.request.power, defines }
}

fn check_text(sql: &str) -> Result<(), SessionError> {
    read::no_nul(sql)
        .map_err(|_| SessionError::Statement { code: "ERROR", message: "the text holds a NUL character".into() })?;
    read::not_too_complex(sql).map_err(|failure| match failure {
        SqlFailure::Engine(message) => SessionError::Statement { code: "ERROR", message },
        other => SessionError::Statement { code: "ERROR", message: other.to_string() },
    })?;
    // The authorizer is not asked about this statement.
    if is_first_word(sql, &["VACUUM"]) {
        return Err(codes::not_authorized());
    }
    Ok(())
}

fn failed(error: &rusqlite::Error, seen: &StatementEffects) -> SessionError {
    codes::failure(error, seen.refusal.is_some())
}

/// The properties of a prepared statement.
struct PreparedKind {
    seen: StatementEffects,
    writes: bool,
    inserts: bool,
    frees_space: bool,
}

impl PreparedKind {
    fn of(statement: &Statement<'_>, text: &str, seen: StatementEffects) -> Self {
        // Modules also read settings on behalf of statements that write.
        let asks = seen.asks_pragma && is_first_word(text, &["PRAGMA"]);
        let writes = seen.commands || !(statement.readonly() || asks);
        let inserts = seen.inserts && is_first_word(text, &["INSERT", "REPLACE", "WITH"]);
        // A statement that collects garbage while it writes rows takes up space too.
        let frees_space = seen.drops || (seen.collects && statement.readonly());
        Self { seen, writes, inserts, frees_space }
    }
}

fn limit_time<'a>(
    session: &EngineSession,
    connection: &'a Connection,
    timeout: Duration,
    canceled: CancellationToken,
) -> Result<TimeLimit<'a>, SessionError> {
    connection
        .limit_time_or(&session.watchdog, timeout, canceled)
        .map_err(|error| SessionError::Engine(errors::fault("set a time limit", error)))
}

fn one(
    session: &mut EngineSession,
    sql: &str,
    arguments: &Arguments,
    bounds: &StatementBounds,
    sink: &mut dyn RowSink,
) -> Result<StatementReport, SessionError> {
    check_text(sql)?;
    if begins_reading(sql) {
        return begin_reading(session);
    }
    let ends = is_first_word(sql, &["COMMIT", "END"]);
    let outcome = {
        let connection = session.connection()?;
        let timed = limit_time(session, connection, bounds.timeout, bounds.canceled.clone())?;
        let commits = bounds.commits_transactions && session.request.power != SqlPower::Read;
        if ends && commits && session.wrote {
            commit_all(connection)?;
        }
        let mode = mode(session, sql);
        let outcome = prepare_and_run(
            connection,
            sql,
            mode,
            arguments,
            &RunContext { bounds, allowance: timed.memory(), timed: &timed, commits, pool_of: session },
            sink,
        );
        outcome.map_err(|error| unless_ended(error, timed.ended()))
    };
    if let Ok((_, seen)) = &outcome {
        session.changed |= seen.changes_session;
        session.left_home |= seen.leaves_branch;
    }
    session.note(outcome.as_ref().is_ok_and(|(report, _)| report.wrote));
    outcome.map(|(report, _)| report)
}

/// Replaces the error of an interrupted statement by the reason for the interrupt.
fn unless_ended(error: SessionError, ended: Option<EngineError>) -> SessionError {
    match (error, ended) {
        // Once the time is over, the memory budget refuses every allocation.
        (SessionError::Statement { code: "INTERRUPT" | "NOMEM", .. }, Some(EngineError::TimedOut(limit))) => {
            SessionError::TimedOut(limit)
        }
        (SessionError::Statement { code: "INTERRUPT" | "NOMEM", .. }, Some(ended)) => SessionError::Engine(ended),
        (error, _) => error,
    }
}

/// The statements that begin, keep and undo the unit in which a statement runs.
type Undoable = (&'static str, &'static str, &'static str);
const TRANSACTION_OF_OURS: Undoable = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK");
const SAVEPOINT_OF_OURS: Undoable = (
    "SAVEPOINT branchyard_statement",
    "RELEASE branchyard_statement",
    "ROLLBACK TO branchyard_statement; RELEASE branchyard_statement",
);

/// The context of a statement that does not change while the statement runs.
struct RunContext<'a> {
    bounds: &'a StatementBounds,
    allowance: &'a MemoryBudget,
    timed: &'a TimeLimit<'a>,
    commits: bool,
    pool_of: &'a EngineSession,
}

fn prepare_and_run(
    connection: &Connection,
    sql: &str,
    mode: GuardMode,
    arguments: &Arguments,
    running: &RunContext<'_>,
    sink: &mut dyn RowSink,
) -> Result<(StatementReport, StatementEffects), SessionError> {
    let entered = connection.enter(mode);
    let mut batch = Batch::new(connection.raw(), sql);
    let prepared = running.allowance.spend(|| batch.next());
    let seen = connection.take_seen();
    let mut statement = prepared.map_err(|error| failed(&error, &seen))?.ok_or(SessionError::NoStatement)?;
    if !matches!(running.allowance.spend(|| batch.next()), Ok(None)) {
        return Err(SessionError::SeveralStatements);
    }
    let kind = PreparedKind::of(&statement, sql, seen);
    arguments::bind(&mut statement, arguments)?;
    if kind.writes && !running.bounds.has_turn {
        return Err(SessionError::NeedsTurn { frees_space: kind.frees_space });
    }
    drop(entered);
    if kind.seen.commands {
        // Idle sessions count as users of their branch: the branch could be neither deleted nor renamed, and no garbage
        // collected.
        running.pool_of.pool.evict(running.pool_of.request.database);
    }
    let is_autocommit = connection.raw().is_autocommit();
    let controls = is_first_word(sql, &["BEGIN", "SAVEPOINT", "PRAGMA"]);
    let commits = running.commits && kind.writes && !kind.seen.commands && is_autocommit && !controls;
    let defines = kind.writes && defines(sql);
    if !commits && !defines {
        let mut run = || rows(connection, &mut statement, mode, &kind, running, sink);
        let ran = if kind.seen.commands { definition::watched_command(connection, run) } else { run() };
        return ran.map(|report| (report, kind.seen));
    }
    let ours = |error: rusqlite::Error| codes::failure(&error, false);
    if !is_autocommit && statement_kind(sql) == StatementKind::Alter {
        definition::settle(connection).map_err(ours)?;
    }
    let (begin, keep, undo) = if is_autocommit { TRANSACTION_OF_OURS } else { SAVEPOINT_OF_OURS };
    connection.raw().execute_batch(begin).map_err(ours)?;
    let ran = if defines {
        definition::watched(connection, || rows(connection, &mut statement, mode, &kind, running, sink))
    } else {
        rows(connection, &mut statement, mode, &kind, running, sink)
    };
    drop(statement);
    let done = ran.and_then(|report| {
        if commits {
            commit_all(connection)?;
        }
        connection.raw().execute_batch(keep).map_err(ours)?;
        Ok(StatementReport { moved_refs: report.moved_refs || commits, ..report })
    });
    // A failure may already have ended the transaction.
    if done.is_err() && !connection.raw().is_autocommit() {
        connection.raw().execute_batch(undo).map_err(ours)?;
    }
    done.map(|report| (report, kind.seen))
}

fn rows(
    connection: &Connection,
    statement: &mut Statement<'_>,
    mode: GuardMode,
    kind: &PreparedKind,
    running: &RunContext<'_>,
    sink: &mut dyn RowSink,
) -> Result<StatementReport, SessionError> {
    let before = connection.raw().total_changes();
    let columns = read::describe(statement);
    let ran = {
        // The engine may prepare the statement again while it runs.
        let _entered = connection.enter(mode);
        let mut hiding = WithoutFiles(sink);
        let sink: &mut dyn RowSink = if kind.seen.lists_files { &mut hiding } else { hiding.0 };
        match running.timed.stopped(|| sink.columns(&columns)) {
            ControlFlow::Break(()) => Ok(()),
            ControlFlow::Continue(()) => {
                read::give_rows(statement, columns.len(), running.timed, running.allowance, sink)
            }
        }
        .map_err(|error| failed(&error, &connection.take_seen()))
    };
    ran?;
    let changed = connection.raw().total_changes() != before;
    let rows_affected = if changed { connection.raw().changes() } else { 0 };
    Ok(StatementReport {
        rows_affected,
        last_insert_rowid: (kind.inserts && rows_affected > 0).then(|| connection.raw().last_insert_rowid()),
        wrote: kind.writes,
        moved_refs: kind.seen.commands,
    })
}

/// Returns `true` for `BEGIN TRANSACTION READONLY`. The engine would treat the last word as a name.
fn begins_reading(sql: &str) -> bool {
    let last = tokenize(sql).filter(|token| !token.is(";")).last();
    is_first_word(sql, &["BEGIN"]) && last.is_some_and(|token| token.is("READONLY"))
}

fn begin_reading(session: &mut EngineSession) -> Result<StatementReport, SessionError> {
    let begun = session.connection()?.raw().execute_batch("BEGIN; PRAGMA query_only = on");
    begun.map_err(|error| codes::failure(&error, false))?;
    session.reads_only = true;
    Ok(StatementReport::default())
}

/// Commits the changes of the open transaction in the name of the caller. Does nothing if there are none.
fn commit_all(connection: &Connection) -> Result<(), SessionError> {
    match commits::commit_session(connection, TRANSACTION) {
        Err(error) if !errors::parts(&error).1.starts_with("nothing to commit") => Err(codes::failure(&error, false)),
        _ => Ok(()),
    }
}
