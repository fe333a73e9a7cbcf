//! Checks the content of a commit that comes from outside, whose bytes may have been made to harm the process that reads them.
//!
//! In a server that runs SQL in worker processes, a check has a process of its own, and may end with it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_sqlite_lexer::{is_first_word, quote_name};
use rusqlite::Batch;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::limits::Limit;

use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::guard::{GuardMode, MAX_LENGTH};
use crate::schema;
use crate::sql::errors::{is_out_of_memory, parts};

/// Maximum number of problems that are reported.
const MOST_PROBLEMS: usize = 10;

/// Returns the problems of a commit. Tables that are the same in `trusted` are not read.
pub(crate) fn check(
    engine: &DoltliteEngine,
    database: DatabaseId,
    commit: &CommitHash,
    trusted: Option<&CommitHash>,
    timeout: Duration,
) -> Result<Vec<String>, EngineError> {
    let until = Instant::now() + timeout;
    let left = || until.saturating_duration_since(Instant::now());
    // Damaged content asks for any amount of memory, over and over. Once the time is over, memory is refused as well.
    let lacked_memory = Cell::new(false);
    let note = |error: rusqlite::Error| {
        lacked_memory.set(lacked_memory.get() || (is_out_of_memory(&error) && !left().is_zero()));
        error
    };
    let hashes = |at: &CommitHash| {
        engine.reading_within(left(), database, at, "read the tables", |connection| {
            table_hashes(connection).map_err(note)
        })
    };
    let definitions = engine.reading_within(left(), database, commit, "check definitions", |connection| {
        check_definitions(engine, connection, left()).map_err(note)
    });
    let found = definitions.and_then(|problems| {
        if !problems.is_empty() {
            return Ok(problems);
        }
        let new = hashes(commit)?;
        let old = match trusted {
            Some(trusted) => hashes(trusted)?,
            None => BTreeMap::new(),
        };
        engine.reading_within(left(), database, commit, "check a pushed commit", |connection| {
            let mut problems = Vec::new();
            for (table, hash) in &new {
                if hash.is_some() && old.get(table) == Some(hash) {
                    continue;
                }
                check_table(connection, table, &mut problems).map_err(note)?;
                if problems.len() >= MOST_PROBLEMS {
                    break;
                }
            }
            Ok(problems)
        })
    });
    match found {
        Ok(problems) => Ok(problems),
        Err(EngineError::TimedOut(_)) => {
            let ms = timeout.as_millis();
            Ok(vec![format!("its check did not end within {ms} ms (remotes.check_timeout_ms)")])
        }
        Err(error @ (EngineError::Damaged(_) | EngineError::DamagedCommit { .. } | EngineError::Fault { .. })) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a pushed commit cannot be read");
            Ok(vec!["its content cannot be read".to_owned()])
        }
        Err(EngineError::Unavailable(_)) if lacked_memory.get() => {
            Ok(vec!["its check needs more memory than a statement may use".to_owned()])
        }
        Err(error) => Err(error),
    }
}

/// Returns for each table, by its name, what differs when its rows, its indexes or its definition differ; `None` for a virtual table,
/// whose content is in others.
fn table_hashes(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Option<String>>> {
    let mut statement = connection.raw().prepare(
        "SELECT name, iif(sql LIKE 'CREATE VIRTUAL%', NULL, sql || char(10) || dolt_hashof_table(name))
        FROM sqlite_schema WHERE type = 'table'",
    )?;
    let tables = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut hashes: BTreeMap<String, Option<String>> = tables.collect::<rusqlite::Result<_>>()?;
    let mut statement = connection
        .raw()
        .prepare("SELECT tbl_name, name, coalesce(sql, '') FROM sqlite_schema WHERE type = 'index' ORDER BY name")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, name, sql): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if let Some(Some(hash)) = hashes.get_mut(&table) {
            let index = index_hash(connection, &name)?.unwrap_or_default();
            let _ = write!(hash, "\n{name} {sql}{index}");
        }
    }
    Ok(hashes)
}

/// Returns what differs when the entries of an index differ. `None` if it has none of its own, as that of a primary key by which the
/// rows themselves are stored.
fn index_hash(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    match connection.raw().query_row("SELECT dolt_hashof_index(?1)", [name], |row| row.get(0)) {
        Err(error) if parts(&error).1.contains("index not found") => Ok(None),
        other => other,
    }
}

/// Counts the rows of a table, and compares its indexes with them.
fn check_table(connection: &Connection, table: &str, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    connection.spend_on_row(&format!("SELECT count(*) FROM {}", quote_name(table)), [], |_| Ok(()))?;
    let mut statement = connection.raw().prepare(&format!("PRAGMA integrity_check({})", quote_name(table)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = connection.spend(|| rows.next())? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(format!("table '{table}': {line}"));
        }
    }
    Ok(())
}

/// A definition of a table, an index, a view or a trigger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Definition {
    kind: String,
    name: String,
    owner: String,
    sql: Option<String>,
}

impl Definition {
    /// Returns what identifies it, whatever the case of letters.
    fn key(&self) -> (String, String, String) {
        (self.kind.to_ascii_lowercase(), self.name.to_ascii_lowercase(), self.owner.to_ascii_lowercase())
    }

    fn is_automatic(&self) -> bool {
        self.sql.is_none() && self.name.to_ascii_lowercase().starts_with("sqlite_autoindex_")
    }

    fn refused(&self, reason: &str) -> String {
        format!("the definition of the {} '{}' is not accepted: {reason}", self.kind, self.name)
    }
}

fn definitions(connection: &Connection) -> rusqlite::Result<Vec<Definition>> {
    let mut statement = connection.raw().prepare(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema
         ORDER BY CASE WHEN type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' THEN 1 WHEN type = 'table' THEN 0 WHEN type = 'index' THEN 2
            WHEN type = 'view' THEN 3 ELSE 4 END, name",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(Definition { kind: row.get(0)?, name: row.get(1)?, owner: row.get(2)?, sql: row.get(3)? })
    })?;
    rows.collect()
}

/// Makes all definitions anew, in an empty database and as a write would. Returns those that cannot be made in this way, and those
/// that turn out differently.
fn check_definitions(
    engine: &DoltliteEngine,
    connection: &Connection,
    timeout: Duration,
) -> rusqlite::Result<Vec<String>> {
    if let Some(problem) = schema::too_long(connection)? {
        return Ok(vec![problem]);
    }
    let pushed = definitions(connection)?;
    let scratch = Connection::open_scratch(engine.guard())?;
    let timed = scratch.limit_time(&engine.watchdog, timeout)?;
    let mut made = BTreeSet::new();
    for definition in &pushed {
        // Those that an earlier one brought along, as tables of virtual tables are.
        if made.contains(&definition.key()) {
            continue;
        }
        let Some(sql) = definition.sql.as_deref() else {
            match definition.is_automatic() {
                true => continue,
                false => return Ok(vec![definition.refused("it is empty")]),
            }
        };
        if !is_first_word(sql, &["CREATE"]) {
            return Ok(vec![definition.refused("it creates nothing")]);
        }
        if let Err(error) = make(&scratch, sql) {
            if timed.ended().is_some() {
                return Err(error);
            }
            let reason = parts(&error).1.to_owned();
            return Ok(vec![definition.refused(&reason)]);
        }
        made = definitions(&scratch)?.iter().map(Definition::key).collect();
    }
    drop(timed);
    let pushed_keys: BTreeSet<_> = pushed.iter().map(Definition::key).collect();
    let mut problems: Vec<String> = pushed
        .iter()
        .filter(|definition| !made.contains(&definition.key()))
        .map(|definition| definition.refused("it does not make what it stands for"))
        .collect();
    problems.extend(made.difference(&pushed_keys).map(|(kind, name, _)| format!("the {kind} '{name}' is missing")));
    problems.truncate(MOST_PROBLEMS);
    Ok(problems)
}

/// Runs the statement of a definition.
fn make(scratch: &Connection, sql: &str) -> rusqlite::Result<()> {
    let usual = scratch.raw().set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_LENGTH)?;
    let _entered = scratch.enter(GuardMode::Writer);
    let ran = (|| {
        let mut batch = Batch::new(scratch.raw(), sql);
        let mut count = 0;
        while let Some(mut statement) = scratch.spend(|| batch.next())? {
            count += 1;
            let mut rows = statement.raw_query();
            while scratch.spend(|| rows.next())?.is_some() {}
        }
        match count {
            1 => Ok(()),
            _ => Err(rusqlite::Error::MultipleStatement),
        }
    })();
    scratch.raw().set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, usual)?;
    ran
}
