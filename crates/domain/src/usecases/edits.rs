//! Edits of rows: their validation, and their translation to SQL statements.
//!
//! An edit is based on the rows of a commit, its base. It is applied to the head of a branch if the affected cells have not changed
//! since the base. Otherwise it fails and reports the base, current and new value of each such cell, so that no change is lost.

use std::collections::HashMap;
use std::time::Duration;

use branchyard_sqlite_lexer::{NamedLiteral, delete_row, insert_row, quote_text, select_row, update_row};
use data_encoding::HEXUPPER;

use super::{IdempotencyRecord, Inner, Operations, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{
    Branch, Cell, CellConflict, Database, EditRequest, EditedValue, Operation, RowEdit, RowProblem, TableKind,
    TableSchema, Work,
};
use crate::errors::{EditError, EditFault, OperationError, PortError};
use crate::ports::{CancellationToken, CollectedRows, Engine, EngineError, ReadQuery, Transaction, WriteKeys};
use crate::values::{CommitHash, CommitPrefix, DatabaseId, LongText, RefName, Revision};

/// Number of rows looked up by one statement. The engine's limit of a compound statement is 500.
const AT_ONCE: usize = 100;
/// Problems named in a failure.
const MOST_PROBLEMS: usize = 100;
/// Characters of a value in a problem.
const SHOWN: usize = 200;

/// An edit to queue.
#[derive(Debug, Clone)]
pub struct NewEdit {
    /// The branch that was edited. The text need not be a valid branch name; no such branch exists then.
    pub branch: String,
    /// The branch to commit to, which is created from the head of `branch` if it does not exist. `None` for `branch`.
    pub to_branch: Option<RefName>,
    /// The commit whose rows were edited.
    pub base: CommitPrefix,
    /// The table.
    pub table: String,
    /// The rows.
    pub rows: Vec<RowEdit>,
    /// Message of the commit. `None` for one that names the table.
    pub message: Option<LongText>,
}

impl Operations<'_> {
    /// Largest number of rows of an edit.
    pub const MOST_EDITED_ROWS: usize = 10_000;

    /// Queues an edit of rows.
    ///
    /// # Errors
    /// [`OperationError::NoSuchBranch`]; [`OperationError::Edit`] if the base or the table does not exist, or the rows do not fit the
    /// table as it is at the base; [`OperationError::QueueFull`]; [`OperationError::Quota`].
    pub fn edit(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewEdit,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let inner = self.inner();
        let base = base_of(inner, access, &wanted)?;
        let table = check(inner, access.database().id, &base, &wanted)?;
        let now = inner.now();
        let mut tx = inner.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let branch = edited_branch(tx.as_mut(), &database, &wanted)?.name;
        let work = Work::Edit(request(wanted, branch, base, table));
        self.accept(tx, &database, access.who(), work, now, once)
    }
}

/// Returns the branch that was edited.
pub(super) fn edited_branch(
    tx: &mut dyn Transaction,
    database: &Database,
    wanted: &NewEdit,
) -> Result<Branch, OperationError> {
    let missing = || OperationError::NoSuchBranch(wanted.branch.clone());
    let name = RefName::parse(&wanted.branch).map_err(|_| missing())?;
    tx.branches().get(database.id, &name)?.ok_or_else(missing)
}

/// Returns the input of the operation for an edit that was checked.
pub(super) fn request(wanted: NewEdit, branch: RefName, base: CommitHash, table: String) -> EditRequest {
    let count = wanted.rows.len();
    let message = wanted.message.map(LongText::into_string).filter(|text| !text.trim().is_empty());
    let rows = if count == 1 { "row" } else { "rows" };
    let message = message.unwrap_or_else(|| format!("Edit {count} {rows} of {table}"));
    let to_branch = wanted.to_branch.unwrap_or_else(|| branch.clone());
    EditRequest { branch, to_branch, base, table, rows: wanted.rows, message }
}

/// Returns the commit whose rows were edited.
pub(super) fn base_of(
    inner: &Inner,
    access: &DatabaseAccess<Write>,
    wanted: &NewEdit,
) -> Result<CommitHash, EditError> {
    let base = revisions::revision(inner, access.database(), &Revision::Commit(wanted.base.clone()));
    base.map_err(EditError::Base)
}

/// Checks that the rows fit the table at the base. Returns its name as it is written there.
pub(super) fn check(
    inner: &Inner,
    database: DatabaseId,
    base: &CommitHash,
    wanted: &NewEdit,
) -> Result<String, EditError> {
    let schema = find_table(inner.ports.engine.as_ref(), database, base, &wanted.table)?;
    let schema = schema.ok_or_else(|| EditError::NoSuchTable(wanted.table.clone()))?;
    let mut faults = Vec::new();
    for (number, row) in wanted.rows.iter().enumerate() {
        faults.extend(faults_of(&schema, number, row));
        if faults.len() >= MOST_PROBLEMS {
            break;
        }
    }
    if faults.is_empty() { Ok(schema.name) } else { Err(EditError::Rows(faults)) }
}

/// Returns a table, not a view, at a commit.
fn find_table(
    engine: &dyn Engine,
    database: DatabaseId,
    at: &CommitHash,
    name: &str,
) -> Result<Option<TableSchema>, PortError> {
    let tables = engine.tables(database, at)?;
    Ok(tables.into_iter().find(|table| table.kind == TableKind::Table && table.name.eq_ignore_ascii_case(name)))
}

fn faults_of(schema: &TableSchema, row: usize, edit: &RowEdit) -> Vec<EditFault> {
    let mut faults = Vec::new();
    let is_known = |name: &str| schema.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    for (column, _) in edit.set() {
        if !is_known(column) {
            faults.push(EditFault::NoSuchColumn { row, column: column.clone(), in_key: false });
        }
    }
    if let Some(key) = edit.key() {
        if schema.primary_key.is_empty() {
            faults.push(EditFault::NoKey { row });
            return faults;
        }
        let is_of_key = |name: &str| schema.primary_key.iter().any(|column| column.eq_ignore_ascii_case(name));
        for (column, _) in key.iter().filter(|(column, _)| !is_of_key(column)) {
            faults.push(EditFault::NoSuchColumn { row, column: column.clone(), in_key: true });
        }
        let is_given = |name: &String| key.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
        let lacking: Vec<String> = schema.primary_key.iter().filter(|name| !is_given(name)).cloned().collect();
        if !lacking.is_empty() {
            faults.push(EditFault::IncompleteKey { row, lacking });
        }
    }
    if matches!(edit, RowEdit::Update { set, .. } if set.is_empty()) {
        faults.push(EditFault::NothingSet { row });
    }
    faults
}

/// Why an edit cannot be applied.
pub(super) enum EditFailure {
    /// The table is not there any more.
    NoSuchTable,
    /// Rows that the edit names do not exist at its base, or are named twice.
    Rows(Vec<RowProblem>),
    /// Cells that the edit touches changed since.
    Conflicts {
        /// The first of the cells.
        cells: Vec<CellConflict>,
        /// Number of all cells.
        count: usize,
    },
    /// The rows cannot be compared, because the table has another definition now, for example.
    Incomparable(String),
    /// A port failed.
    Port(PortError),
}

impl<E: Into<PortError>> From<E> for EditFailure {
    fn from(error: E) -> Self {
        Self::Port(error.into())
    }
}

/// Returns the statements that apply an edit to the commit `head`, one for each row, if the cells that it touches are the same there as at
/// its base.
pub(super) fn statements(
    engine: &dyn Engine,
    database: DatabaseId,
    edit: &EditRequest,
    head: &CommitHash,
    timeout: Duration,
) -> Result<Vec<String>, EditFailure> {
    let sides = Sides { engine, database, timeout, edit };
    let old = find_table(engine, database, &edit.base, &edit.table)?.ok_or(EditFailure::NoSuchTable)?;
    let new = find_table(engine, database, head, &edit.table)?.ok_or(EditFailure::NoSuchTable)?;
    let (mut wrong, mut conflicts, mut count, mut statements) = (Vec::new(), Vec::new(), 0, Vec::new());
    let (mut line, mut seen) = (0, HashMap::new());
    for rows in edit.rows.chunks(AT_ONCE) {
        let base = sides.find(&edit.base, &old, rows)?;
        let ours = if *head == edit.base { base.clone() } else { sides.find(head, &new, rows)? };
        for ((row, base), ours) in rows.iter().zip(base).zip(ours) {
            line += 1;
            let problem = row.key().and_then(|_| match &base {
                None => Some("there was no row with this key".to_owned()),
                // The second of two statements for a row would find another row than the caller has seen, or none.
                Some(cells) => seen.insert(stored_key(&old, cells), line).map(|first| {
                    format!("row {first} of the request has the same key; put all changes of a row together")
                }),
            });
            if let Some(detail) = problem {
                wrong.push(RowProblem { line, column: None, detail });
            } else {
                let found = compare(line, row, (&old, base.as_deref()), (&new, ours.as_deref()));
                count += found.len();
                conflicts.extend(found.into_iter().take(MOST_PROBLEMS - conflicts.len()));
            }
            statements.push(format!("{};\n", statement(&new.name, row)));
        }
        if wrong.len() >= MOST_PROBLEMS {
            break;
        }
    }
    wrong.truncate(MOST_PROBLEMS);
    match (wrong.is_empty(), conflicts.is_empty()) {
        (false, _) => Err(EditFailure::Rows(wrong)),
        (true, false) => Err(EditFailure::Conflicts { cells: conflicts, count }),
        (true, true) => Ok(statements),
    }
}

/// Returns the primary key of a stored row, as text that differs if the key does.
fn stored_key(schema: &TableSchema, cells: &[Cell]) -> String {
    let key = schema.columns.iter().zip(cells).filter(|(column, _)| column.in_primary_key);
    key.map(|(_, cell)| format!("{cell:?} ")).collect()
}

/// The rows of a table at a commit.
struct Sides<'a> {
    engine: &'a dyn Engine,
    database: DatabaseId,
    timeout: Duration,
    edit: &'a EditRequest,
}

impl Sides<'_> {
    /// Returns the rows at a commit that edits are about: by their keys, or, for new rows, by the keys that they set.
    fn find(
        &self,
        at: &CommitHash,
        schema: &TableSchema,
        edits: &[RowEdit],
    ) -> Result<Vec<Option<Vec<Cell>>>, EditFailure> {
        let columns: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        let mut parts = Vec::new();
        for (number, edit) in edits.iter().enumerate() {
            if let Some(key) = key_literals(schema, edit) {
                parts.push(select_row(number, &schema.name, &columns, &key));
            }
        }
        let mut rows = vec![None; edits.len()];
        if parts.is_empty() {
            return Ok(rows);
        }
        let sql = parts.join(" UNION ALL ");
        let query = ReadQuery { sql: &sql, timeout: self.timeout, canceled: CancellationToken::default() };
        let mut found = CollectedRows::default();
        match self.engine.read(self.database, at, &query, &mut found) {
            Ok(_) => {}
            // The key has other columns here, for example.
            Err(EngineError::Sql { failure, .. }) => {
                let detail = format!("the rows of {} cannot be compared: {failure}", self.edit.table);
                return Err(EditFailure::Incomparable(detail));
            }
            Err(error) => return Err(error.into()),
        }
        for mut row in found.rows {
            if let Some(Cell::Integer(number)) = row.first()
                && let Some(place) = usize::try_from(*number).ok().and_then(|number| rows.get_mut(number))
            {
                row.remove(0);
                *place = Some(row);
            }
        }
        Ok(rows)
    }
}

/// Returns the primary key of the row of an edit. `None` for a new row that does not set all of it.
fn key_literals<'a>(schema: &'a TableSchema, edit: &RowEdit) -> Option<Vec<NamedLiteral<'a>>> {
    let given = edit.key().unwrap_or_else(|| edit.set());
    if schema.primary_key.is_empty() {
        return None;
    }
    let value = |name: &'a String| {
        let (_, value) = given.iter().find(|(column, _)| column.eq_ignore_ascii_case(name))?;
        Some((name.as_str(), literal(value)))
    };
    schema.primary_key.iter().map(value).collect()
}

/// Returns the cells that an edit touches and that are others at the head than at the base, unless the head has the wanted value.
fn compare(
    line: u64,
    edit: &RowEdit,
    (old, base): (&TableSchema, Option<&[Cell]>),
    (new, ours): (&TableSchema, Option<&[Cell]>),
) -> Vec<CellConflict> {
    let cell = |schema: &TableSchema, row: Option<&[Cell]>, name: &str| -> Option<Cell> {
        let at = schema.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))?;
        row?.get(at).cloned()
    };
    let three = |name: &str, wanted: Option<&EditedValue>| CellConflict {
        line,
        column: name.to_owned(),
        base: cell(old, base, name),
        current: cell(new, ours, name),
        wanted: wanted.cloned(),
    };
    match (edit, ours) {
        (RowEdit::Insert { set }, Some(_)) if base.is_none() => {
            let differs = |(name, value): &&(String, EditedValue)| {
                cell(new, ours, name).is_none_or(|now| !value.is_shown_by(&now))
            };
            set.iter().filter(differs).map(|(name, value)| three(name, Some(value))).collect()
        }
        // Without a new row of the key, or with one that was there before, the statement decides.
        (RowEdit::Insert { .. }, _) => Vec::new(),
        (RowEdit::Update { set, .. }, _) => {
            let changed = |(name, value): &&(String, EditedValue)| {
                let (was, now) = (cell(old, base, name), cell(new, ours, name));
                was != now && now.is_none_or(|now| !value.is_shown_by(&now))
            };
            set.iter().filter(changed).map(|(name, value)| three(name, Some(value))).collect()
        }
        // Both sides removed it.
        (RowEdit::Delete { .. }, None) => Vec::new(),
        (RowEdit::Delete { .. }, Some(_)) => {
            let names = old.columns.iter().map(|column| column.name.as_str());
            let changed = names.filter(|name| cell(old, base, name) != cell(new, ours, name));
            changed.map(|name| three(name, None)).collect()
        }
    }
}

impl CellConflict {
    /// Returns the conflict in words.
    pub(super) fn problem(&self) -> RowProblem {
        let stored = |cell: &Option<Cell>| cell.as_ref().map_or_else(|| "nothing".to_owned(), shown);
        let (base, current) = (stored(&self.base), stored(&self.current));
        let wanted = self.wanted.as_ref().map_or_else(|| "nothing".to_owned(), shown_value);
        let detail = format!("was {base} at the base, is {current} now, and would become {wanted}");
        RowProblem { line: self.line, column: Some(self.column.clone()), detail }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => format!("{number:?}"),
        Cell::Text(bytes) => format!("'{}'", cut(&String::from_utf8_lossy(bytes))),
        Cell::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

fn shown_value(value: &EditedValue) -> String {
    match value {
        EditedValue::Null => "NULL".to_owned(),
        EditedValue::Number(number) => number.as_str().to_owned(),
        EditedValue::Text(text) => format!("'{}'", cut(text)),
        EditedValue::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

fn literal(value: &EditedValue) -> String {
    match value {
        EditedValue::Null => "NULL".to_owned(),
        EditedValue::Number(number) => number.as_str().to_owned(),
        // Text with NUL has no literal.
        EditedValue::Text(text) => {
            quote_text(text).unwrap_or_else(|| format!("CAST(X'{}' AS TEXT)", HEXUPPER.encode(text.as_bytes())))
        }
        EditedValue::Blob(bytes) => format!("X'{}'", HEXUPPER.encode(bytes)),
    }
}

/// Returns the statement of an edit.
fn statement(table: &str, edit: &RowEdit) -> String {
    fn literals(cells: &[(String, EditedValue)]) -> Vec<NamedLiteral<'_>> {
        cells.iter().map(|(name, value)| (name.as_str(), literal(value))).collect()
    }
    match edit {
        RowEdit::Insert { set } => insert_row(table, &literals(set)),
        RowEdit::Update { key, set } => update_row(table, &literals(key), &literals(set)),
        RowEdit::Delete { key } => delete_row(table, &literals(key)),
    }
}
