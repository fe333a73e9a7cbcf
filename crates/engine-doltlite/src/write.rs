//! Runs untrusted statements that change a commit, and commits the result.

use std::time::Duration;

use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{EngineError, MergeJob, MergeOutcome, SqlFailure, WriteJob, Written};
use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::{is_first_word, skip_to_statement, statement_length};
use rusqlite::Batch;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::limits::Limit;

use crate::commits;
use crate::connection::{Connection, TimeLimit};
use crate::engine::DoltliteEngine;
use crate::guard::{GuardMode, MAX_LENGTH, StatementEffects};
use crate::memory::MemoryBudget;
use crate::queue::WriteTurn;
use crate::read::{no_nul, not_too_complex};
use crate::schema;
use crate::sql::errors::{self, StatementFailure, StatementPosition};
use crate::sql::statement_kind::{StatementKind, defines, statement_kind};

/// The part of the memory of a statement that the first attempt gets. What needs more runs again, in a way that needs
/// less memory and one more `fsync`. The smaller the first attempt, the less time is lost.
const FIRST_PART: usize = 2;

pub(crate) fn write(engine: &DoltliteEngine, turn: &WriteTurn, job: &WriteJob<'_>) -> Result<Written, EngineError> {
    let plan =
        WritePlan { memory: engine.options.statement_memory / FIRST_PART, timeout: job.timeout, alone_from: None };
    let (written, rows_affected) = match attempt(engine, turn, job, &plan)? {
        Attempted::Written(written) => written,
        // A refused allocation may have damaged the connection, so the second attempt has another one.
        Attempted::TooLarge { statement, remaining, .. } => {
            let memory = engine.options.write_memory();
            let plan = WritePlan { memory, timeout: remaining, alone_from: Some(statement) };
            match attempt(engine, turn, job, &plan)? {
                Attempted::Written(written) => written,
                Attempted::TooLarge { statement, bytes, .. } => {
                    let failure = SqlFailure::Engine(too_large(bytes, memory));
                    return Err(EngineError::Sql { failure, statement });
                }
            }
        }
    };
    if written != *job.base {
        engine.ancestry.note(turn.database(), &written, std::slice::from_ref(job.base));
    }
    let outcome = match job.then_merge {
        // If the merge fails, the commit made above is garbage: no ref names it.
        Some((theirs, message)) => crate::merge::merge(
            engine,
            turn,
            &MergeJob {
                ours: &written,
                theirs,
                message,
                author: job.author,
                resolve: &std::collections::BTreeMap::new(),
                rows: &[],
                fast_forward: true,
                timeout: job.timeout,
            },
        )?,
        None => MergeOutcome::Head(written),
    };
    Ok(Written { outcome, rows_affected })
}

/// How an attempt to run the statements of a write runs them.
#[derive(Debug)]
struct WritePlan {
    /// Memory of the statements, in bytes.
    memory: usize,
    timeout: Duration,
    /// Number of the first statement that runs in a transaction of its own, from 1.
    ///
    /// A statement inside a transaction can be undone alone. For that the engine keeps the first changes to each table
    /// and index in memory until the statement ends, and the last ones until the transaction ends.
    alone_from: Option<u32>,
}

/// The end of an attempt.
enum Attempted {
    /// The new head, and the number of changed rows.
    Written((CommitHash, u64)),
    /// A statement needed more than the `bytes` that it could get.
    TooLarge { statement: u32, bytes: i64, remaining: Duration },
}

/// Runs the statements of a write and commits the result.
fn attempt(
    engine: &DoltliteEngine,
    turn: &WriteTurn,
    job: &WriteJob<'_>,
    plan: &WritePlan,
) -> Result<Attempted, EngineError> {
    engine.writing_at(turn, job.base, |connection| {
        let timed = connection
            .limit_time(&engine.watchdog, plan.timeout)
            .map_err(|error| errors::fault("set a time limit", error))?;
        timed.memory().resize(plan.memory);
        let mut before = 0;
        let ran = timed.with_room(
            |memory| {
                // Discards the changes of a previous attempt that ran out of memory.
                connection
                    .roll_back()
                    .map_err(|error| (StatementFailure::Engine(errors::fault("start over", error)), 1))?;
                begin(connection, turn, job.base).map_err(|error| (StatementFailure::Engine(error), 1))?;
                before = connection.raw().total_changes();
                run(connection, job.statements, plan.alone_from, &timed, memory)
            },
            || false,
        );
        if let Err((failed, statement)) = ran {
            // The user's limit, and not what an earlier attempt left of it.
            let limit = |ended| match ended {
                EngineError::TimedOut(_) => EngineError::TimedOut(millis(job.timeout)),
                ended => ended,
            };
            return match (timed.ended(), timed.memory().exceeded()) {
                (None, Some(bytes)) => Ok(Attempted::TooLarge { statement, bytes, remaining: timed.remaining() }),
                (ended, _) => Err(errors::in_commit(job.base, failed.unless_ended(ended.map(limit)).at(statement))),
            };
        }
        // Statements that finished in time are committed without a time limit: the commit is the engine's own work.
        drop(timed);
        let rows_affected = connection.raw().total_changes().saturating_sub(before);
        let head = finish(connection, job.base, job.message, job.author)?;
        connection.note_committed(turn, &head);
        Ok(Attempted::Written((head, rows_affected)))
    })
}

/// Returns the error text for a statement that needs more than the `bytes` that it got of the `wanted` ones.
fn too_large(bytes: i64, wanted: usize) -> String {
    let limit = match i64::try_from(wanted) {
        Ok(wanted) if bytes < wanted => "sql.memory_total_bytes",
        _ => "twice sql.max_memory_bytes",
    };
    format!(
        "out of memory: the statement takes more than the {} MiB of a write ({limit}); split it in smaller steps",
        bytes >> 20
    )
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Works like [`start`], and does not look where the branch is if the connection has moved it there in the same turn.
fn begin(connection: &Connection, turn: &WriteTurn, base: &CommitHash) -> Result<(), EngineError> {
    if connection.take_committed(turn, base) { open(connection) } else { start(connection, base) }
}

fn open(connection: &Connection) -> Result<(), EngineError> {
    connection.execute_cached("BEGIN IMMEDIATE").map_err(|error| errors::fault("begin a write", error))
}

/// Moves the reserved branch to `base`, inside a transaction that stays open.
pub(crate) fn start(connection: &Connection, base: &CommitHash) -> Result<(), EngineError> {
    connection.forget_committed();
    open(connection)?;
    // A reset takes some milliseconds, and consecutive writes usually find the branch where it has to be. The content
    // is compared too, because a failed write may have left changes in the file.
    let is_there = "SELECT dolt_hashof('HEAD') = ? AND dolt_hashof_db() = dolt_hashof_db('HEAD')";
    let there = connection
        .raw()
        .prepare_cached(is_there)
        .and_then(|mut looking| looking.query_row([base.as_str()], |row| row.get::<_, Option<bool>>(0)))
        .map_err(|error| errors::fault("look where the branch is", error))?;
    if there == Some(true) {
        return Ok(());
    }
    connection
        .raw()
        .query_row("SELECT dolt_reset('--hard', ?)", [base.as_str()], |_| Ok(()))
        .map_err(|error| errors::fault_at("move to a commit", base, error))
}

/// Commits all changes since [`start`] durably. Returns `base` if there are none.
pub(crate) fn finish(
    connection: &Connection,
    base: &CommitHash,
    message: &str,
    author: &Signature,
) -> Result<CommitHash, EngineError> {
    let commit = match commits::commit_all(connection, message, author, &[]) {
        Ok(hash) => hash,
        Err(error) if errors::parts(&error).1.starts_with("nothing to commit") => {
            connection.roll_back().map_err(|error| errors::fault("end a write", error))?;
            return Ok(base.clone());
        }
        Err(error) => return Err(blame(errors::parts(&error).1, error)),
    };
    connection.execute_cached("COMMIT").map_err(|error| blame(errors::parts(&error).1, error))?;
    commits::parse(&commit)
}

/// Maps an error of a commit. Deferred constraints are checked at the commit, so their violation is an error of the
/// user's statements.
fn blame(text: String, error: rusqlite::Error) -> EngineError {
    let constraint =
        matches!(errors::parts(&error).0.map(|code| code.code), Some(rusqlite::ErrorCode::ConstraintViolation));
    if constraint || text.starts_with("foreign key") || text.starts_with("cannot commit") {
        EngineError::Sql { failure: SqlFailure::Engine(text), statement: 1 }
    } else {
        errors::fault("commit", error)
    }
}

fn run(
    connection: &Connection,
    sql: &str,
    alone_from: Option<u32>,
    timed: &TimeLimit<'_>,
    memory: &MemoryBudget,
) -> Result<(), (StatementFailure, u32)> {
    for_each_statement(sql, |place, number| {
        if alone_from.is_some_and(|first| number >= first) {
            run_alone(connection, place, number > 1, memory)?;
        } else {
            run_one(connection, place, number > 1, memory)?;
        }
        if timed.expired() {
            return Err(SqlFailure::TimedOut(0).into());
        }
        if memory.is_getting_short() {
            set_down(connection).map_err(|error| place.failed(error, &StatementEffects::default()))?;
            memory.renew();
        }
        Ok(())
    })
}

/// Calls `work` with each statement of a text and its number, from 1. Returns the number of the statement that failed.
pub(crate) fn for_each_statement(
    sql: &str,
    mut work: impl FnMut(&StatementPosition<'_>, u32) -> Result<(), StatementFailure>,
) -> Result<(), (StatementFailure, u32)> {
    no_nul(sql).map_err(|failure| (failure.into(), 1))?;
    let (mut number, mut start) = (0, 0);
    while !skip_to_statement(&sql[start..]).is_empty() {
        number += 1;
        let text = &sql[start..start + statement_length(&sql[start..])];
        let place = StatementPosition { whole: sql, text, start, mode: GuardMode::Writer };
        not_too_complex(text).map_err(|failure| (failure.into(), number))?;
        work(&place, number).map_err(|failed| (failed, number))?;
        start += text.len();
    }
    if number == 0 { Err((StatementPosition::all(sql, GuardMode::Writer).ends_early().into(), 1)) } else { Ok(()) }
}

/// Moves the changes so far from memory to the file. Only the engine uses the reserved branch, so a transaction may end
/// at any time: only the final commit gets a name, and the next write starts with a hard reset.
pub(crate) fn set_down(connection: &Connection) -> rusqlite::Result<()> {
    match connection.raw().execute_batch("COMMIT") {
        Ok(()) => connection.raw().execute_batch("BEGIN IMMEDIATE"),
        // Deferred references keep the transaction open; they are checked at the end.
        Err(_) if !connection.raw().is_autocommit() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Runs one statement in a transaction of its own, and opens the transaction again. The changes before it move to the
/// file, as in [`set_down`].
fn run_alone(
    connection: &Connection,
    place: &StatementPosition<'_>,
    not_first: bool,
    memory: &MemoryBudget,
) -> Result<(), StatementFailure> {
    let execute = |sql| {
        let ran = connection.raw().execute_batch(sql);
        ran.map_err(|error| place.failed(error, &StatementEffects::default()))
    };
    if let Err(failed) = execute("COMMIT") {
        // Deferred references keep the transaction open; they are checked at the end.
        return if connection.raw().is_autocommit() {
            Err(failed)
        } else {
            run_one(connection, place, not_first, memory)
        };
    }
    // The rows that an index sorts go to a temporary file. They take up about as much space as the index itself; what
    // other statements sort may be far more than what they write.
    let spills = is_first_word(place.text, &["CREATE"]);
    if spills {
        execute("PRAGMA temp_store = file")?;
    }
    let ran = run_one(connection, place, false, memory);
    if spills {
        execute("PRAGMA temp_store = memory")?;
    }
    ran?;
    execute("BEGIN IMMEDIATE")
}

/// Runs one statement in the open transaction.
pub(crate) fn run_one(
    connection: &Connection,
    place: &StatementPosition<'_>,
    not_first: bool,
    memory: &MemoryBudget,
) -> Result<(), StatementFailure> {
    if not_first && statement_kind(place.text) == StatementKind::Alter {
        // ALTER TABLE after changes in the same transaction may lose values.
        set_down(connection).map_err(|error| place.failed(error, &StatementEffects::default()))?;
    }
    if !defines(place.text) {
        return run_guarded(connection, place, memory);
    }
    // The engine parses the definition that it is about to store. The limit is raised so that `schema::too_long`
    // reports a definition that is too long, with a clearer error than the engine's.
    let limit = |bytes| connection.raw().set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, bytes);
    let fault = |error| StatementFailure::Engine(errors::fault("set a limit", error));
    let usual = limit(MAX_LENGTH).map_err(fault)?;
    let ran = run_guarded(connection, place, memory);
    limit(usual).map_err(fault)?;
    ran?;
    match schema::too_long(connection)
        .map_err(|error| StatementFailure::Engine(errors::fault("look at a definition", error)))?
    {
        Some(text) => Err(SqlFailure::Engine(text).into()),
        None => Ok(()),
    }
}

fn run_guarded(
    connection: &Connection,
    place: &StatementPosition<'_>,
    memory: &MemoryBudget,
) -> Result<(), StatementFailure> {
    let _entered = connection.enter(GuardMode::Writer);
    let failed = |error: rusqlite::Error| place.failed(error, &connection.take_seen());
    let mut batch = Batch::new(connection.raw(), place.text);
    // Usually one statement, unless the engine finds an earlier end in the text.
    let mut any = false;
    while let Some(mut statement) =
        connection.preparing(place.text, || memory.spend(|| batch.next())).map_err(failed)?
    {
        any = true;
        if let Some(refused) = place.refused_by_first_word() {
            return Err(refused.into());
        }
        let mut rows = statement.raw_query();
        while memory.spend(|| rows.next()).map_err(failed)?.is_some() {}
    }
    if any { Ok(()) } else { Err(place.ends_early().into()) }
}
