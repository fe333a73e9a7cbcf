//! Imports the rows of a file into a table as one commit.

use std::collections::HashMap;

use branchyard_domain::entities::{Cell, RowProblem, TableKind};
use branchyard_domain::ports::{EngineError, FormatError, ImportJob, ImportTarget, RowSource};
use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::{ErrorCode, Statement, params_from_iter};

use crate::cells::Param;
use crate::connection::{Connection, TimeLimit};
use crate::engine::DoltliteEngine;
use crate::guard::GuardMode;
use crate::queue::WriteTurn;
use crate::schema;
use crate::sql::errors;
use crate::write::{finish, set_down, start};

/// Bytes of rows that are kept in memory before they are moved to the file.
const SET_DOWN_AFTER: usize = 128 << 20;
/// Approximate overhead in bytes of a value in the engine.
const HEADER: usize = 16;
/// Maximum number of reported problems.
const MOST_PROBLEMS: usize = 100;

pub(crate) fn import(
    engine: &DoltliteEngine,
    turn: &WriteTurn,
    job: &ImportJob<'_>,
    rows: &mut dyn RowSource,
) -> Result<CommitHash, EngineError> {
    engine.writing_at(turn, job.base, |connection| {
        // References are checked when all rows are imported. Foreign keys can be switched only outside a transaction.
        set_foreign_keys(connection, false)?;
        let imported = import_on(engine, connection, job, rows);
        let ended = connection.roll_back().map_err(|error| errors::fault("end an import", error));
        let switched = set_foreign_keys(connection, true);
        imported.and_then(|hash| ended.and(switched).map(|()| hash))
    })
}

/// Switches the enforcement of foreign keys. Has an effect only outside a transaction.
pub(crate) fn set_foreign_keys(connection: &Connection, on: bool) -> Result<(), EngineError> {
    let sql = if on { "PRAGMA foreign_keys = on" } else { "PRAGMA foreign_keys = off" };
    connection.raw().execute_batch(sql).map_err(|error| errors::fault("switch foreign keys", error))
}

fn import_on(
    engine: &DoltliteEngine,
    connection: &Connection,
    job: &ImportJob<'_>,
    rows: &mut dyn RowSource,
) -> Result<CommitHash, EngineError> {
    let timed = connection
        .limit_time(&engine.watchdog, job.timeout)
        .map_err(|error| errors::fault("set a time limit", error))?;
    let filled = start(connection, job.base).and_then(|()| fill(connection, job, rows, &timed));
    match filled {
        Err(EngineError::Import(error)) if timed.ended().is_none() => return Err(EngineError::Import(error)),
        Err(error) => return Err(timed.ended().unwrap_or(error)),
        Ok(filled) => filled,
    }
    drop(timed);
    finish(connection, job.base, job.message, job.author)
}

/// Returns an error that concerns the whole file.
fn refused(text: impl Into<String>) -> EngineError {
    EngineError::Import(FormatError::File(text.into()))
}

fn fill(
    connection: &Connection,
    job: &ImportJob<'_>,
    rows: &mut dyn RowSource,
    timed: &TimeLimit<'_>,
) -> Result<(), EngineError> {
    let fault = |error| errors::fault("prepare an import", error);
    let present = schema::find(connection, job.table).map_err(fault)?;
    let mut entered = connection.enter(GuardMode::Writer);
    let table = match (job.target, present) {
        (ImportTarget::New { overwrite: false, .. }, Some((name, _))) => return Err(EngineError::TableExists(name)),
        (ImportTarget::New { primary_key, .. }, present) => {
            if let Some((name, kind)) = present {
                let what = if kind == TableKind::View { "VIEW" } else { "TABLE" };
                let drop = format!("DROP {what} {}", quote_name(&name));
                connection.spend(|| connection.raw().execute_batch(&drop)).map_err(fault)?;
            }
            let create = create_statement(job, primary_key);
            connection.raw().execute_batch(&create).map_err(|error| refused(errors::parts(&error).1))?;
            job.table.to_owned()
        }
        (_, None | Some((_, TableKind::View))) => return Err(EngineError::NoSuchTable(job.table.to_owned())),
        (_, Some((name, TableKind::Table))) => name,
    };
    let columns = schema::columns(connection, &table).map_err(fault)?;
    let key = schema::key_names(&columns);
    let refers = !schema::foreign_keys(connection, &table).map_err(fault)?.is_empty();
    let mut filler = match job.target {
        ImportTarget::Update => Filler::upsert(connection, job, &table, &key)?,
        ImportTarget::Replace => {
            let delete = format!("DELETE FROM {}", quote_name(&table));
            connection
                .spend(|| connection.preparing(&delete, || connection.raw().execute_batch(&delete)))
                .map_err(fault)?;
            Filler::insert(connection, job, &table, &[], refers)?
        }
        ImportTarget::New { primary_key, .. } => Filler::insert(connection, job, &table, primary_key, refers)?,
    };
    let mut problems = Vec::new();
    let mut lines = HashMap::new();
    let mut waiting = 0;
    let mut row = Vec::with_capacity(job.columns.len());
    while problems.len() < MOST_PROBLEMS {
        let Some(line) = rows.next(&mut row).map_err(EngineError::Import)? else { break };
        if timed.expired() {
            return Err(EngineError::TimedOut(0));
        }
        waiting += row.iter().map(|cell| HEADER + cell.bytes()).sum::<usize>();
        if (waiting > SET_DOWN_AFTER || timed.memory().is_getting_short()) && problems.is_empty() {
            waiting = 0;
            drop(entered);
            set_down(connection).map_err(|error| errors::fault("set down imported rows", error))?;
            timed.memory().renew();
            entered = connection.enter(GuardMode::Writer);
        }
        match filler.put(connection, &row) {
            Ok(Some(id)) => {
                lines.insert(id, line);
            }
            Ok(None) => {}
            Err(Trouble::Row { column, detail }) => problems.push(RowProblem { line, column, detail }),
            Err(Trouble::Engine(error)) => return Err(errors::fault("import a row", error)),
        }
    }
    drop(filler);
    drop(entered);
    if problems.is_empty() && matches!(job.target, ImportTarget::Update | ImportTarget::Replace) {
        problems =
            broken_references(connection, &table, &lines).map_err(|error| errors::fault("check references", error))?;
    }
    if problems.is_empty() { Ok(()) } else { Err(EngineError::Import(FormatError::Rows(problems))) }
}

fn create_statement(job: &ImportJob<'_>, primary_key: &[String]) -> String {
    let mut parts: Vec<String> = job
        .columns
        .iter()
        .map(|column| {
            let not_null = if primary_key.contains(&column.name) { " NOT NULL" } else { "" };
            let space = if column.declared_type.is_empty() { "" } else { " " };
            format!("{}{space}{}{not_null}", quote_name(&column.name), column.declared_type)
        })
        .collect();
    if !primary_key.is_empty() {
        parts.push(format!("PRIMARY KEY ({})", quote_names(primary_key.iter().map(String::as_str))));
    }
    format!("CREATE TABLE {} ({})", quote_name(job.table), parts.join(", "))
}

/// The reason why a row could not be inserted.
enum Trouble {
    /// The row is invalid.
    Row { column: Option<String>, detail: String },
    /// The engine failed.
    Engine(rusqlite::Error),
}

/// Inserts or updates rows of a table.
struct Filler<'a> {
    table: String,
    /// Names of the file's columns.
    columns: Vec<String>,
    /// Indexes of the columns that must not be NULL. Checked here, because the engine would assign a number to a NULL
    /// integer key.
    demanded: Vec<usize>,
    /// For an upsert: the statement that updates the row with the same key, and the columns that are its parameters, in
    /// order.
    update: Option<(Statement<'a>, Vec<usize>)>,
    insert: Statement<'a>,
    /// Whether the insert statement returns the id of the row.
    returns_id: bool,
}

impl<'a> Filler<'a> {
    fn insert(
        connection: &'a Connection,
        job: &ImportJob<'_>,
        table: &str,
        demanded: &[String],
        refers: bool,
    ) -> Result<Self, EngineError> {
        let columns: Vec<String> = job.columns.iter().map(|column| column.name.clone()).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quote_name(table),
            quote_names(columns.iter().map(String::as_str)),
            vec!["?"; columns.len()].join(", ")
        );
        let returning = if refers {
            let returning = format!("{sql} RETURNING rowid");
            connection.spend(|| connection.preparing(&sql, || connection.raw().prepare(&returning))).ok()
        } else {
            None
        };
        let returns_id = returning.is_some();
        let insert = match returning {
            Some(statement) => statement,
            None => connection
                .spend(|| connection.preparing(&sql, || connection.raw().prepare(&sql)))
                .map_err(|error| refused(errors::parts(&error).1))?,
        };
        let demanded = (0..columns.len()).filter(|at| demanded.iter().any(|name| same(name, &columns[*at]))).collect();
        Ok(Self { table: table.to_owned(), columns, demanded, update: None, insert, returns_id })
    }

    fn upsert(
        connection: &'a Connection,
        job: &ImportJob<'_>,
        table: &str,
        key: &[String],
    ) -> Result<Self, EngineError> {
        if key.is_empty() {
            return Err(refused(format!("table {table} has no primary key")));
        }
        let mut filler = Self::insert(connection, job, table, key, false)?;
        let place = |name: &String| filler.columns.iter().position(|column| same(column, name));
        let Some(keys) = key.iter().map(place).collect::<Option<Vec<_>>>() else {
            return Err(refused("the file lacks a column of the primary key"));
        };
        let others: Vec<usize> = (0..filler.columns.len()).filter(|at| !keys.contains(at)).collect();
        // Not ON CONFLICT, which would check NOT NULL columns that the file does not have before it finds the existing
        // row.
        let quoted = |at: &usize| quote_name(&filler.columns[*at]);
        let set = if others.is_empty() { &keys } else { &others };
        let set = set.iter().map(|at| format!("{} = ?{}", quoted(at), at + 1)).collect::<Vec<_>>().join(", ");
        let found = keys.iter().map(|at| format!("{} = ?{}", quoted(at), at + 1)).collect::<Vec<_>>().join(" AND ");
        let sql = format!("UPDATE {} SET {set} WHERE {found}", quote_name(table));
        let statement = connection
            .spend(|| connection.preparing(&sql, || connection.raw().prepare(&sql)))
            .map_err(|error| refused(errors::parts(&error).1))?;
        let parameters = (0..statement.parameter_count()).collect();
        filler.update = Some((statement, parameters));
        Ok(filler)
    }

    /// Inserts or updates a row. Returns the id of an inserted row if `returns_id` is set.
    fn put(&mut self, connection: &Connection, row: &[Cell]) -> Result<Option<i64>, Trouble> {
        for at in &self.demanded {
            if row.get(*at) == Some(&Cell::Null) {
                let column = &self.columns[*at];
                return Err(Trouble::Row {
                    column: Some(column.clone()),
                    detail: format!("NOT NULL constraint failed: {}.{column}", self.table),
                });
            }
        }
        let updated = match &mut self.update {
            Some((update, parameters)) => {
                let values = parameters.iter().map(|at| Param(row.get(*at).unwrap_or(&Cell::Null)));
                connection.spend(|| update.execute(params_from_iter(values)))
            }
            None => Ok(0),
        };
        let result = updated.and_then(|updated| {
            if updated > 0 {
                return Ok(None);
            }
            let values = params_from_iter(row.iter().map(Param));
            if self.returns_id {
                let mut rows = self.insert.query(values)?;
                let row = connection.spend(|| rows.next())?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
                let id = row.get(0)?;
                // The row is inserted only once the statement has run to its end.
                connection.spend(|| rows.next())?;
                Ok(Some(id))
            } else {
                connection.spend(|| self.insert.execute(values)).map(|_| None)
            }
        });
        result.map_err(|error| self.trouble(error))
    }

    fn trouble(&self, error: rusqlite::Error) -> Trouble {
        let (code, text) = errors::parts(&error);
        match code.map(|code| code.code) {
            // Memory that the expressions of a row take is an error of the row.
            Some(
                ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig | ErrorCode::OutOfMemory,
            ) => {
                // The text is "… constraint failed: table.column", or "a.b, a.c" for several columns.
                let place = text.split_once(": ").map_or("", |(_, place)| place);
                let named = place.strip_prefix(&self.table).and_then(|rest| rest.strip_prefix('.'));
                let column = named.filter(|name| self.columns.iter().any(|column| same(column, name)));
                Trouble::Row { column: column.map(str::to_owned), detail: text.clone() }
            }
            _ => Trouble::Engine(error),
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Returns the rows that violate a foreign key, in the table and in the tables that refer to it.
pub(crate) fn broken_references(
    connection: &Connection,
    table: &str,
    lines: &HashMap<i64, u64>,
) -> rusqlite::Result<Vec<RowProblem>> {
    let mut concerned = vec![table.to_owned()];
    for other in schema::table_names(connection)? {
        let refers = schema::foreign_keys(connection, &other)?.iter().any(|key| same(&key.references_table, table));
        if refers && !same(&other, table) {
            concerned.push(other);
        }
    }
    let mut problems = Vec::new();
    for other in concerned {
        let keys = schema::foreign_keys(connection, &other)?;
        let mut check = connection.raw().prepare("SELECT rowid, parent, fkid FROM pragma_foreign_key_check(?)")?;
        let mut rows = check.query([&other])?;
        while let Some(row) = connection.spend(|| rows.next())? {
            let (id, parent): (Option<i64>, String) = (row.get(0)?, row.get(1)?);
            if !same(&other, table) && !same(&parent, table) {
                continue;
            }
            // The engine numbers foreign keys in reverse order.
            let number = usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX);
            let key = keys.len().checked_sub(number.saturating_add(1)).and_then(|at| keys.get(at));
            let detail = if same(&other, table) {
                format!("FOREIGN KEY constraint failed: no such row in {parent}")
            } else {
                format!("FOREIGN KEY constraint failed: table {other} refers to a row that is not in the file")
            };
            problems.push(RowProblem {
                line: id.filter(|_| same(&other, table)).and_then(|id| lines.get(&id)).copied().unwrap_or(1),
                column: key
                    .filter(|key| key.columns.len() == 1 && same(&other, table))
                    .map(|key| key.columns[0].clone()),
                detail,
            });
            if problems.len() == MOST_PROBLEMS {
                return Ok(problems);
            }
        }
    }
    problems.sort_by_key(|problem| problem.line);
    Ok(problems)
}
