//! Merges, and what stands in their way.
//!
//! A merge runs inside a transaction and is kept only when nothing is left unsettled: the engine itself would let a merge with broken
//! constraints through (`engine-notes.md` §5).

use std::collections::{BTreeMap, BTreeSet};

use branchyard_domain::entities::{Cell, Conflict, ConflictKind, Side};
use branchyard_domain::ports::{EngineError, MergeJob, MergeOutcome};
use branchyard_domain::values::CommitHash;
use rusqlite::types::ValueRef;

use crate::cells;
use crate::commits;
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::queue::Turn;
use crate::schema;
use crate::sql::{errors, quote};
use crate::write::start;

type Row = Vec<(String, Cell)>;

pub(crate) fn merge(engine: &DoltliteEngine, turn: &Turn, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError> {
    if let Some(head) = without_merging(engine, turn, job.ours, job.theirs)? {
        return Ok(MergeOutcome::Head(head));
    }
    engine.writing(turn, |connection| {
        let timed = connection
            .limit_time(&engine.watchdog, job.timeout)
            .map_err(|error| errors::fault("set a time limit", error))?;
        let merged = merge_on(connection, job);
        match merged {
            Err(error) => Err(timed.ended().unwrap_or(error)),
            merged => merged,
        }
    })
}

/// The head, when one side contains the other.
fn without_merging(
    engine: &DoltliteEngine,
    turn: &Turn,
    ours: &CommitHash,
    theirs: &CommitHash,
) -> Result<Option<CommitHash>, EngineError> {
    let base = match commits::merge_base(engine, turn.database(), ours, theirs)? {
        Some(base) => base,
        None => return Err(EngineError::CannotMerge("the two sides have no common ancestor".into())),
    };
    Ok(if base == *theirs {
        Some(ours.clone())
    } else if base == *ours {
        Some(theirs.clone())
    } else {
        None
    })
}

fn merge_on(connection: &Connection, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError> {
    attempt(connection, job.ours, job.theirs)?;
    let mut left = unsettled(connection)?;
    if !left.is_empty() {
        resolve(connection, &left, job.resolve)?;
        left = unsettled(connection)?;
    }
    if !left.is_empty() {
        return Ok(MergeOutcome::Conflicts(left.into_iter().collect()));
    }
    let fault = |error| errors::fault("commit a merge", error);
    // A merge whose rows equal ours is a commit all the same: it has a second parent.
    let hash = commits::commit_all(connection, job.message, job.author, &["--allow-empty"]).map_err(fault)?;
    connection.raw().execute_batch("COMMIT").map_err(fault)?;
    Ok(MergeOutcome::Head(commits::parse(&hash)?))
}

/// Merges in an open transaction, without committing.
fn attempt(connection: &Connection, ours: &CommitHash, theirs: &CommitHash) -> Result<(), EngineError> {
    start(connection, ours)?;
    let merged =
        connection.raw().query_row("SELECT dolt_merge(?, '--no-commit', '--no-ff')", [theirs.as_str()], |_| Ok(()));
    let Err(error) = merged else { return Ok(()) };
    let text = errors::parts(&error).1;
    if text.starts_with("Merge has") || text.starts_with("Merge resulted") {
        return Ok(());
    }
    if let Some(reason) = text.strip_prefix("cannot merge: ") {
        return Err(EngineError::CannotMerge(reason.to_owned()));
    }
    if errors::is_missing_commit(&error) {
        return Err(EngineError::NoSuchCommit(theirs.clone()));
    }
    match errors::parts(&error).0.map(|code| code.code) {
        // The engine says in plain words what it cannot bring together.
        Some(rusqlite::ErrorCode::Unknown) => Err(EngineError::CannotMerge(text)),
        _ => Err(errors::fault("merge", error)),
    }
}

/// Tables with conflicts of any kind, with how many.
fn unsettled(connection: &Connection) -> Result<BTreeMap<String, u64>, EngineError> {
    let mut left = BTreeMap::new();
    for sql in [
        "SELECT \"table\", num_conflicts FROM dolt_conflicts",
        "SELECT table_name, 1 FROM dolt_schema_conflicts",
        "SELECT \"table\", num_violations FROM dolt_constraint_violations",
    ] {
        let counts = || -> rusqlite::Result<Vec<(String, u64)>> {
            connection.raw().prepare(sql)?.query_map([], |row| Ok((row.get(0)?, cells::count(row, 1)?)))?.collect()
        };
        for (table, count) in counts().map_err(|error| errors::fault("count conflicts", error))? {
            *left.entry(table).or_insert(0) += count;
        }
    }
    Ok(left)
}

fn resolve(
    connection: &Connection,
    left: &BTreeMap<String, u64>,
    sides: &BTreeMap<String, Side>,
) -> Result<(), EngineError> {
    for table in left.keys() {
        let side = sides.iter().find(|(name, _)| name.eq_ignore_ascii_case(table)).map(|(_, side)| side);
        let flag = match side {
            Some(Side::Ours) => "--ours",
            Some(Side::Theirs) => "--theirs",
            None => continue,
        };
        let resolved = connection.raw().query_row("SELECT dolt_conflicts_resolve(?, ?)", [flag, table], |_| Ok(()));
        if let Err(error) = resolved {
            // Some conflicts, of definitions above all, have no sides to choose: they stay.
            if errors::interrupted(&error) {
                return Err(errors::fault("resolve conflicts", error));
            }
            tracing::debug!(%error, "a conflict could not be resolved by choosing a side");
        }
    }
    Ok(())
}

pub(crate) fn conflicts(
    engine: &DoltliteEngine,
    turn: &Turn,
    (ours, theirs): (&CommitHash, &CommitHash),
    table: Option<&str>,
    skip: usize,
    limit: usize,
) -> Result<Vec<Conflict>, EngineError> {
    if without_merging(engine, turn, ours, theirs)?.is_some() {
        return Ok(Vec::new());
    }
    let timeout = engine.options.trial_merge_timeout;
    engine.writing(turn, |connection| {
        let timed = connection
            .limit_time(&engine.watchdog, timeout)
            .map_err(|error| errors::fault("set a time limit", error))?;
        let listed = attempt(connection, ours, theirs).and_then(|()| {
            list(connection, table, skip, limit).map_err(|error| errors::fault("list conflicts", error))
        });
        match listed {
            Err(error) => Err(timed.ended().unwrap_or(error)),
            listed => listed,
        }
    })
}

fn list(connection: &Connection, only: Option<&str>, skip: usize, limit: usize) -> rusqlite::Result<Vec<Conflict>> {
    let raw = connection.raw();
    let strings =
        |sql: &str| -> rusqlite::Result<Vec<String>> { raw.prepare(sql)?.query_map([], |row| row.get(0))?.collect() };
    let rows: BTreeSet<_> =
        strings("SELECT \"table\" FROM dolt_conflicts WHERE num_conflicts > 0")?.into_iter().collect();
    let violations: BTreeSet<_> = strings("SELECT \"table\" FROM dolt_constraint_violations")?.into_iter().collect();
    let schemas: BTreeSet<_> = strings("SELECT table_name FROM dolt_schema_conflicts")?.into_iter().collect();
    let mut page = Page { skip, left: limit, conflicts: Vec::new() };
    for table in rows.iter().chain(&violations).chain(&schemas).collect::<BTreeSet<_>>() {
        if only.is_some_and(|only| !only.eq_ignore_ascii_case(table)) {
            continue;
        }
        if schemas.contains(table) {
            schema_conflicts(connection, table, &mut page)?;
        }
        if rows.contains(table) {
            row_conflicts(connection, table, &mut page)?;
        }
        if violations.contains(table) {
            constraint_conflicts(connection, table, &mut page)?;
        }
    }
    Ok(page.conflicts)
}

/// What is still to be left out and given.
struct Page {
    skip: usize,
    left: usize,
    conflicts: Vec<Conflict>,
}

impl Page {
    /// Whether to give the next one.
    fn wants(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left > 0
    }

    fn give(&mut self, conflict: Conflict) {
        self.left = self.left.saturating_sub(1);
        self.conflicts.push(conflict);
    }
}

fn blank(table: &str, kind: ConflictKind) -> Conflict {
    Conflict {
        table: table.to_owned(),
        kind,
        primary_key: Vec::new(),
        base: None,
        ours: None,
        theirs: None,
        detail: None,
    }
}

fn schema_conflicts(connection: &Connection, table: &str, page: &mut Page) -> rusqlite::Result<()> {
    let mut statement =
        connection.raw().prepare("SELECT description FROM dolt_schema_conflicts WHERE table_name = ? ORDER BY 1")?;
    let mut rows = statement.query([table])?;
    while let Some(row) = rows.next()? {
        if page.wants() {
            page.give(Conflict { detail: Some(cells::text(row.get_ref(0)?)), ..blank(table, ConflictKind::Schema) });
        }
        if page.left == 0 {
            break;
        }
    }
    Ok(())
}

fn row_conflicts(connection: &Connection, table: &str, page: &mut Page) -> rusqlite::Result<()> {
    let name = schema::history_table("dolt_conflicts_", table);
    let key = schema::key_names(&schema::columns(connection, table)?);
    // Whichever side has the row knows its key.
    let order = if key.is_empty() {
        "1".to_owned()
    } else {
        let side = |side: &str, column: &str| quote::name(&format!("{side}_{column}"));
        key.iter()
            .map(|column| {
                format!("coalesce({}, {}, {})", side("our", column), side("their", column), side("base", column))
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut statement = connection.raw().prepare(&format!("SELECT * FROM {name} ORDER BY {order}"))?;
    // from_root_ish, base_*, our_*, our_diff_type, their_*, their_diff_type, dolt_conflict_id
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let width = names.len().saturating_sub(4) / 3;
    let columns: Vec<String> =
        names.iter().skip(1).take(width).map(|name| name.strip_prefix("base_").unwrap_or(name).to_owned()).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if page.wants() {
            let part = |from: usize| -> rusqlite::Result<Row> {
                columns
                    .iter()
                    .enumerate()
                    .map(|(at, name)| Ok((name.clone(), cells::cell(row.get_ref(from + at)?))))
                    .collect()
            };
            let change = |at: usize| -> rusqlite::Result<String> { Ok(cells::text(row.get_ref(at)?)) };
            let (our_change, their_change) = (change(1 + 2 * width)?, change(2 + 3 * width)?);
            let base = if our_change == "added" || their_change == "added" { None } else { Some(part(1)?) };
            let ours = if our_change == "removed" { None } else { Some(part(1 + width)?) };
            let theirs = if their_change == "removed" { None } else { Some(part(2 + 2 * width)?) };
            let primary_key = if key.is_empty() {
                row_id(connection, table, ours.as_ref().or(base.as_ref()))?
            } else {
                key_of(&key, ours.as_ref().or(theirs.as_ref()).or(base.as_ref()))
            };
            page.give(Conflict { primary_key, base, ours, theirs, ..blank(table, ConflictKind::Row) });
        }
        if page.left == 0 {
            break;
        }
    }
    Ok(())
}

fn key_of(key: &[String], row: Option<&Row>) -> Row {
    let find = |name: &String| row.and_then(|row| row.iter().find(|cell| cell.0 == *name)).map(|cell| cell.1.clone());
    key.iter().map(|name| (name.clone(), find(name).unwrap_or(Cell::Null))).collect()
}

/// The engine does not tell the row id of a conflict: a row that looks like it has one.
fn row_id(connection: &Connection, table: &str, row: Option<&Row>) -> rusqlite::Result<Row> {
    let Some(row) = row else { return Ok(Vec::new()) };
    let same = row.iter().map(|(name, _)| format!("{} IS ?", quote::name(name))).collect::<Vec<_>>().join(" AND ");
    let sql = format!("SELECT rowid FROM {} WHERE {same} LIMIT 1", quote::name(table));
    let mut statement = connection.raw().prepare(&sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(row.iter().map(|cell| cells::Param(&cell.1))))?;
    Ok(match rows.next()? {
        Some(found) => vec![("rowid".to_owned(), cells::cell(found.get_ref(0)?))],
        None => Vec::new(),
    })
}

fn constraint_conflicts(connection: &Connection, table: &str, page: &mut Page) -> rusqlite::Result<()> {
    let name = schema::history_table("dolt_constraint_violations_", table);
    let key = schema::key_names(&schema::columns(connection, table)?);
    let order = if key.is_empty() { "1".to_owned() } else { quote::names(key.iter().map(String::as_str)) };
    let mut statement = connection.raw().prepare(&format!("SELECT * FROM {name} ORDER BY {order}"))?;
    // violation_type, the columns of the table, violation_info
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if page.wants() {
            let found = (1..names.len().saturating_sub(1))
                .map(|at| Ok((names[at].clone(), cells::cell(row.get_ref(at)?))))
                .collect::<rusqlite::Result<Row>>()?;
            let info = row.get_ref(names.len().saturating_sub(1))?;
            let info = if info == ValueRef::Null { String::new() } else { format!(": {}", cells::text(info)) };
            page.give(Conflict {
                primary_key: key_of(&key, Some(&found)),
                detail: Some(format!("{}{info}", cells::text(row.get_ref(0)?))),
                ..blank(table, ConflictKind::Constraint)
            });
        }
        if page.left == 0 {
            break;
        }
    }
    Ok(())
}
