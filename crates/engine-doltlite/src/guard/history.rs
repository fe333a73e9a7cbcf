//! The engine's tables and functions that take commits, so that those the database does not show count as absent.
//!
//! The engine resolves a hash while a statement runs, whatever a view, a trigger, a join or a computed argument made of it, so hashes are checked there: where
//! they reach the engine. That is three places.
//! - Functions (`dolt_hashof`) are replaced: ours looks at its arguments and asks the engine's on the companion of the [`Scope`].
//! - The tables there is one of (`dolt_log`) are replaced by modules of ours that look at their arguments and read the engine's on the companion.
//! - Of the tables there is one of for each table of the user (`dolt_at_t`), whose columns depend on the commit, only the methods that take arguments are
//!   put before the engine's own.
//!
//! A connection is wrapped name by name, when the authorizer meets a name for the first time. It is of no use for statements of ours afterwards.
#![expect(
    unsafe_code,
    reason = "modules of virtual tables have no safe interface that could stand before another module"
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, ffi, params_from_iter};

use super::lists;
use crate::reach::{self, Scope};

thread_local! {
    /// The commits that the user's statement on this thread may name.
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// Makes `scope` that of this thread until the result is dropped.
pub(super) fn enter(scope: Option<Arc<Scope>>) -> InScope {
    InScope(CURRENT.replace(scope))
}

/// See [`enter`].
pub(super) struct InScope(Option<Arc<Scope>>);

impl Drop for InScope {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current() -> Option<Arc<Scope>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns why a statement may not pass this text where the engine takes a ref.
fn refused(spec: &[u8]) -> Option<String> {
    let scope = current()?;
    let spec = String::from_utf8_lossy(spec);
    for commit in reach::hashes(&spec) {
        match scope.shows(&commit) {
            Ok(true) => {}
            Ok(false) => return Some(absent(&commit)),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a commit could not be looked up");
                return Some("commits cannot be looked up at the moment".to_owned());
            }
        }
    }
    None
}

fn absent(commit: &CommitHash) -> String {
    format!("no such commit: {commit}")
}

/// The error of a statement that names a commit the database does not show.
pub(crate) fn no_such_commit(commit: &CommitHash) -> Error {
    failure(absent(commit))
}

fn failure(text: String) -> Error {
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(text))
}

/// Wraps what the engine has under a name.
pub(crate) fn wrap(connection: &Connection, scope: Option<&Scope>, name: &str) -> rusqlite::Result<()> {
    if lists::function_takes_commits(name) {
        return functions(connection);
    }
    if lists::is_fixed_table_of_commits(name) {
        let table = fixed_tables()?.get(name).ok_or_else(|| failure(format!("no such table: {name}")))?;
        return replace(connection, table);
    }
    let Some((kind, table)) = HistoryTable::of(name) else { return Err(failure(format!("no such table: {name}"))) };
    if !is_known(connection, scope, table)? {
        return Err(failure(format!("no such table: {name}")));
    }
    put_before(connection, kind, name)
}

/// Whether the table is, or was, in the history that is read. The engine itself also looks for its columns in what was written last, which may be
/// nothing the database shows.
fn is_known(connection: &Connection, scope: Option<&Scope>, table: &str) -> rusqlite::Result<bool> {
    let here = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE";
    if connection.prepare(here)?.exists([table])? {
        return Ok(true);
    }
    let Some(scope) = scope else { return Ok(true) };
    let once = "SELECT 1 FROM dolt_diff WHERE table_name = ? COLLATE NOCASE LIMIT 1";
    scope.with(|companion| companion.prepare(once)?.exists([table]))
}

/// Replaces all functions that take a commit.
fn functions(connection: &Connection) -> rusqlite::Result<()> {
    for (name, arguments, refs) in [
        ("dolt_hashof", 1, 0..1),
        ("dolt_hashof_catalog", 1, 0..1),
        ("dolt_hashof_db", 1, 0..1),
        ("dolt_hashof_index", 2, 1..2),
        ("dolt_hashof_table", 2, 1..2),
        ("dolt_merge_base", 2, 0..2),
    ] {
        let marks = vec!["?"; refs.end].join(", ");
        let ask = format!("SELECT {name}({marks})");
        // As the engine's own: not for views, triggers and defaults.
        connection.create_scalar_function(name, arguments, FunctionFlags::SQLITE_UTF8, move |context| {
            for at in refs.clone() {
                if let ValueRef::Text(spec) | ValueRef::Blob(spec) = context.get_raw(at)
                    && let Some(text) = refused(spec)
                {
                    return Err(failure(text));
                }
            }
            on_companion(context, &ask)
        })?;
    }
    Ok(())
}

fn on_companion(context: &Context<'_>, ask: &str) -> rusqlite::Result<Value> {
    let scope = current().ok_or_else(|| failure("not available here".to_owned()))?;
    let values = (0..context.len()).map(|at| context.get(at)).collect::<rusqlite::Result<Vec<Value>>>()?;
    scope.with(|companion| companion.prepare_cached(ask)?.query_row(params_from_iter(values), |row| row.get(0)))
}

/// A table of which there is one.
struct FixedTable {
    name: String,
    c_name: CString,
    /// The declaration that SQLite gets.
    declaration: CString,
    columns: Vec<FixedColumn>,
}

struct FixedColumn {
    name: String,
    /// An argument.
    hidden: bool,
}

impl FixedTable {
    /// The columns that are shown, in order.
    fn shown(&self) -> impl Iterator<Item = &FixedColumn> {
        self.columns.iter().filter(|column| !column.hidden)
    }

    /// What a hash that the database does not show means in this column.
    fn takes(&self, column: usize) -> Takes {
        match self.columns.get(column) {
            Some(column) if column.hidden && column.name == "table_name" => Takes::NoCommit,
            Some(column) if column.hidden => Takes::Ref,
            // `dolt_log` looks itself whether the commit is in the history that is read.
            Some(column) if column.name == "commit_hash" && self.name == "dolt_diff" => Takes::Hash,
            _ => Takes::NoCommit,
        }
    }

    /// The question for the companion, with a parameter for each of the columns in a plan.
    fn question(&self, plan: &[usize]) -> String {
        let shown: Vec<&str> = self.shown().map(|column| column.name.as_str()).collect();
        let hidden: Vec<usize> = (0..self.columns.len()).filter(|at| self.columns[*at].hidden).collect();
        let given: Vec<usize> = plan.iter().copied().filter(|at| self.columns[*at].hidden).collect();
        let place = |at: usize| plan.iter().position(|planned| *planned == at).map_or(0, |place| place + 1);
        // As a call where it can be one: some tables tell the two apart.
        let is_call = !given.is_empty() && hidden.iter().take(given.len()).all(|at| given.contains(at));
        let call = match is_call {
            true => {
                let marks: Vec<String> = hidden.iter().take(given.len()).map(|at| format!("?{}", place(*at))).collect();
                format!("({})", marks.join(", "))
            }
            false => String::new(),
        };
        let conditions = plan.iter().filter(|at| !(is_call && self.columns[**at].hidden));
        let conditions: Vec<String> =
            conditions.map(|at| format!("{} = ?{}", quote_name(&self.columns[*at].name), place(*at))).collect();
        let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        format!("SELECT {} FROM {}{call}{filter}", quote_names(shown), self.name)
    }
}

/// What a column takes.
enum Takes {
    /// A ref, a way to one, or a range.
    Ref,
    /// A hash; no row has one that is not there.
    Hash,
    /// Neither.
    NoCommit,
}

/// All of them, as the engine declares them; they do not depend on a database.
fn fixed_tables() -> rusqlite::Result<&'static HashMap<String, FixedTable>> {
    static TABLES: OnceLock<HashMap<String, FixedTable>> = OnceLock::new();
    if let Some(tables) = TABLES.get() {
        return Ok(tables);
    }
    let connection = Connection::open_in_memory()?;
    let mut tables = HashMap::new();
    for name in lists::fixed_tables_of_commits() {
        let mut statement = connection.prepare("SELECT name, type, hidden FROM pragma_table_xinfo(?)")?;
        let mut rows = statement.query([name])?;
        let (mut columns, mut declared) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let (column, declared_type, hidden): (String, String, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let mark = if hidden { " HIDDEN" } else { "" };
            declared.push(format!("{} {declared_type}{mark}", quote_name(&column)));
            columns.push(FixedColumn { name: column, hidden });
        }
        let declaration = CString::new(format!("CREATE TABLE x({})", declared.join(", ")))?;
        let table = FixedTable { name: (*name).to_owned(), c_name: CString::new(*name)?, declaration, columns };
        tables.insert(table.name.clone(), table);
    }
    Ok(TABLES.get_or_init(|| tables))
}

/// Registers our module in the place of the engine's.
fn replace(connection: &Connection, table: &'static FixedTable) -> rusqlite::Result<()> {
    static MODULE: OnceLock<ffi::sqlite3_module> = OnceLock::new();
    let module = MODULE.get_or_init(|| {
        // SAFETY: a number and nullable function pointers; all null is a valid value.
        let mut module: ffi::sqlite3_module = unsafe { std::mem::zeroed() };
        module.xConnect = Some(fixed_connect);
        module.xBestIndex = Some(fixed_best_index);
        module.xDisconnect = Some(fixed_disconnect);
        module.xOpen = Some(fixed_open);
        module.xClose = Some(fixed_close);
        module.xFilter = Some(fixed_filter);
        module.xNext = Some(fixed_next);
        module.xEof = Some(fixed_eof);
        module.xColumn = Some(fixed_column);
        module.xRowid = Some(fixed_rowid);
        module
    });
    // SAFETY: the handle is that of an open connection; name, module and table live as long as the process. The module gets the table back as it
    // was given, and only reads it.
    let code = unsafe {
        let aux = ptr::from_ref(table).cast_mut().cast();
        ffi::sqlite3_create_module_v2(connection.handle(), table.c_name.as_ptr(), module, aux, None)
    };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error::SqliteFailure(ffi::Error::new(code), None)) }
}

#[repr(C)]
struct FixedVtab {
    base: ffi::sqlite3_vtab,
    table: &'static FixedTable,
}

#[repr(C)]
struct FixedCursor {
    base: ffi::sqlite3_vtab_cursor,
    /// Keeps the companion open.
    scope: Option<Arc<Scope>>,
    statement: *mut ffi::sqlite3_stmt,
    companion: *mut ffi::sqlite3,
    has_row: bool,
    row: i64,
}

impl FixedCursor {
    fn finish(&mut self) {
        // SAFETY: null, or a statement that was prepared here and not finalized yet; its connection is kept open by the scope.
        unsafe { ffi::sqlite3_finalize(self.statement) };
        self.statement = ptr::null_mut();
        self.has_row = false;
    }
}

impl Drop for FixedCursor {
    fn drop(&mut self) {
        self.finish();
    }
}

unsafe extern "C" fn fixed_connect(
    db: *mut ffi::sqlite3,
    aux: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    vtab: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    // SAFETY: what `replace` gave.
    let table: &'static FixedTable = unsafe { &*aux.cast() };
    // SAFETY: called while the table is constructed, with its connection; the declaration ends with a NUL.
    let declared = unsafe { ffi::sqlite3_declare_vtab(db, table.declaration.as_ptr()) };
    if declared != ffi::SQLITE_OK {
        return declared;
    }
    // SAFETY: as above; this option takes no further argument. Views may use it, as the engine's own.
    unsafe { ffi::sqlite3_vtab_config(db, ffi::SQLITE_VTAB_INNOCUOUS) };
    let made = Box::new(FixedVtab { base: ffi::sqlite3_vtab::default(), table });
    // SAFETY: SQLite gives a place for the pointer, and gives it back to `fixed_disconnect`. The structure begins with its base.
    unsafe { *vtab = Box::into_raw(made).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_disconnect(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: the box of `fixed_connect`, given back once.
    drop(unsafe { Box::from_raw(vtab.cast::<FixedVtab>()) });
    ffi::SQLITE_OK
}

/// The plan is the columns whose values `xFilter` gets, in order, as bytes beginning at 1.
unsafe extern "C" fn fixed_best_index(vtab: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    // SAFETY: a table of ours, alive during the call.
    let table = unsafe { &*vtab.cast::<FixedVtab>() }.table;
    // SAFETY: SQLite's own structure, ours during the call.
    let info_ref = unsafe { &mut *info };
    let count = usize::try_from(info_ref.nConstraint).unwrap_or(0);
    let mut plan: Vec<u8> = Vec::new();
    let mut arguments = false;
    for at in 0..count {
        // SAFETY: both arrays have as many elements as there are constraints.
        let (constraint, usage) = unsafe { (&*info_ref.aConstraint.add(at), &mut *info_ref.aConstraintUsage.add(at)) };
        let Ok(column) = usize::try_from(constraint.iColumn) else { continue };
        let Some(hidden) = table.columns.get(column).map(|column| column.hidden) else { continue };
        if i32::from(constraint.op) != ffi::SQLITE_INDEX_CONSTRAINT_EQ {
            continue;
        }
        if constraint.usable == 0 {
            if hidden {
                return ffi::SQLITE_CONSTRAINT;
            }
            continue;
        }
        let Ok(byte) = u8::try_from(column + 1) else { continue };
        // SAFETY: the structure of this call, and a constraint in it.
        if plan.contains(&byte) || !(hidden || unsafe { is_binary(info, at) }) {
            continue;
        }
        plan.push(byte);
        arguments |= hidden;
        usage.argvIndex = c_int::try_from(plan.len()).unwrap_or(c_int::MAX);
        usage.omit = c_uchar::from(hidden);
    }
    (info_ref.estimatedCost, info_ref.estimatedRows) = match (arguments, plan.is_empty()) {
        (true, _) => (100.0, 10),
        (false, false) => (10.0, 1),
        (false, true) => (1000.0, 100),
    };
    plan.push(0);
    // SAFETY: memory of SQLite's own, as many bytes as are written; SQLite frees it.
    unsafe {
        let text = ffi::sqlite3_malloc64(plan.len() as u64).cast::<u8>();
        if text.is_null() {
            return ffi::SQLITE_NOMEM;
        }
        ptr::copy_nonoverlapping(plan.as_ptr(), text, plan.len());
        info_ref.idxStr = text.cast();
    }
    info_ref.needToFreeIdxStr = 1;
    ffi::SQLITE_OK
}

/// Whether a constraint compares byte by byte.
///
/// # Safety
/// For `xBestIndex`, with its structure and the number of a constraint in it.
unsafe fn is_binary(info: *mut ffi::sqlite3_index_info, at: usize) -> bool {
    let Ok(at) = c_int::try_from(at) else { return false };
    // SAFETY: as demanded of the caller.
    let collation = unsafe { ffi::sqlite3_vtab_collation(info, at) };
    // SAFETY: null or a text of SQLite's that lives during the call.
    collation.is_null() || unsafe { CStr::from_ptr(collation) }.to_bytes().eq_ignore_ascii_case(b"BINARY")
}

unsafe extern "C" fn fixed_open(_: *mut ffi::sqlite3_vtab, cursor: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let made = Box::new(FixedCursor {
        base: ffi::sqlite3_vtab_cursor::default(),
        scope: None,
        statement: ptr::null_mut(),
        companion: ptr::null_mut(),
        has_row: false,
        row: 0,
    });
    // SAFETY: SQLite gives a place for the pointer, and gives it back to `fixed_close`. The structure begins with its base.
    unsafe { *cursor = Box::into_raw(made).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: the box of `fixed_open`, given back once.
    drop(unsafe { Box::from_raw(cursor.cast::<FixedCursor>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    _: c_int,
    plan: *const c_char,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: a cursor of ours, used by one call at a time.
    let at = unsafe { &mut *cursor.cast::<FixedCursor>() };
    // SAFETY: SQLite sets it before the first call; the table outlives its cursors.
    let vtab = at.base.pVtab;
    // SAFETY: as above, and it is one of ours.
    let table = unsafe { &*vtab.cast::<FixedVtab>() }.table;
    at.finish();
    at.row = 0;
    // SAFETY: what `fixed_best_index` left, which ends with a NUL.
    let plan = unsafe { CStr::from_ptr(plan) }.to_bytes();
    let plan: Vec<usize> = plan.iter().map(|byte| usize::from(*byte) - 1).collect();
    // SAFETY: as many values as the plan has columns, alive during the call.
    let values = unsafe { slice(argc, argv) };
    for (column, value) in plan.iter().zip(values) {
        // SAFETY: one of the values of this call.
        let text = || refused(unsafe { bytes(*value) });
        match table.takes(*column) {
            Takes::NoCommit => {}
            Takes::Hash => {
                if text().is_some() {
                    return ffi::SQLITE_OK;
                }
            }
            Takes::Ref => {
                if let Some(text) = text() {
                    // SAFETY: the table of the cursor.
                    return unsafe { fail(vtab, ffi::SQLITE_ERROR, &text) };
                }
            }
        }
    }
    let Some(scope) = current() else {
        // SAFETY: the table of the cursor.
        return unsafe { fail(vtab, ffi::SQLITE_ERROR, "not available here") };
    };
    let Ok(question) = CString::new(table.question(&plan)) else { return ffi::SQLITE_ERROR };
    let prepared = scope.with(|companion| {
        // SAFETY: an open connection, which the scope keeps; it is used by this thread only.
        let db = unsafe { companion.handle() };
        let mut statement = ptr::null_mut();
        // SAFETY: the text ends with a NUL, and the place for the statement is ours.
        let code = unsafe { ffi::sqlite3_prepare_v2(db, question.as_ptr(), -1, &raw mut statement, ptr::null_mut()) };
        Ok((db, statement, code))
    });
    let (db, statement, code) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let (code, text) = crate::sql::errors::parts(&error);
            // SAFETY: the table of the cursor.
            return unsafe { fail(vtab, code.map_or(ffi::SQLITE_ERROR, |code| code.extended_code), &text) };
        }
    };
    (at.scope, at.companion, at.statement) = (Some(scope), db, statement);
    if code != ffi::SQLITE_OK {
        // SAFETY: the cursor's table, and the connection its scope keeps.
        return unsafe { fail_as(vtab, db, code) };
    }
    for (number, value) in (1..).zip(values) {
        // SAFETY: the statement was just prepared; the value is copied.
        let code = unsafe { ffi::sqlite3_bind_value(statement, number, *value) };
        if code != ffi::SQLITE_OK {
            return code;
        }
    }
    step(at)
}

/// Moves a cursor to its next row.
fn step(at: &mut FixedCursor) -> c_int {
    // SAFETY: a statement of the cursor's own.
    let code = unsafe { ffi::sqlite3_step(at.statement) };
    at.has_row = code == ffi::SQLITE_ROW;
    if at.has_row || code == ffi::SQLITE_DONE {
        return ffi::SQLITE_OK;
    }
    // SAFETY: the cursor's table, and the connection its scope keeps.
    unsafe { fail_as(at.base.pVtab, at.companion, code) }
}

unsafe extern "C" fn fixed_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a cursor of ours, used by one call at a time.
    let at = unsafe { &mut *cursor.cast::<FixedCursor>() };
    at.row += 1;
    step(at)
}

unsafe extern "C" fn fixed_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a cursor of ours, used by one call at a time.
    c_int::from(!unsafe { &*cursor.cast::<FixedCursor>() }.has_row)
}

unsafe extern "C" fn fixed_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: a cursor of ours, used by one call at a time.
    let at = unsafe { &*cursor.cast::<FixedCursor>() };
    // SAFETY: its table, one of ours.
    let table = unsafe { &*at.base.pVtab.cast::<FixedVtab>() }.table;
    let Ok(column) = usize::try_from(column) else { return ffi::SQLITE_OK };
    if !at.has_row || table.columns.get(column).is_none_or(|column| column.hidden) {
        return ffi::SQLITE_OK;
    }
    let place = table.columns[..column].iter().filter(|column| !column.hidden).count();
    let Ok(place) = c_int::try_from(place) else { return ffi::SQLITE_OK };
    // SAFETY: the statement stands on a row with such a column; the value is copied.
    unsafe { ffi::sqlite3_result_value(context, ffi::sqlite3_column_value(at.statement, place)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_rowid(cursor: *mut ffi::sqlite3_vtab_cursor, rowid: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: a cursor of ours, used by one call at a time, and a place of SQLite's for the number.
    unsafe { *rowid = (*cursor.cast::<FixedCursor>()).row };
    ffi::SQLITE_OK
}

/// The tables there is one of for each table of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HistoryTable {
    At,
    Diff,
    History,
}

impl HistoryTable {
    /// The kind, and the name of the user's table.
    fn of(name: &str) -> Option<(Self, &str)> {
        [(Self::At, "dolt_at_"), (Self::Diff, "dolt_diff_"), (Self::History, "dolt_history_")]
            .into_iter()
            .find_map(|(kind, prefix)| Some((kind, name.strip_prefix(prefix)?)))
    }

    /// How many of the last arguments, or all after the first `n`, are refs: the range among `count` arguments of a plan of the engine's.
    fn refs(self, plan: c_int, count: usize) -> std::ops::Range<usize> {
        match self {
            // `AT_IDX_REF`: the first argument.
            Self::At => 0..usize::from(plan & 1 != 0).min(count),
            // `DT_IDX_SLICE` and `DT_IDX_RANGE_SPEC`: all. Conditions on `from_commit` and `to_commit` choose among what is walked from the commit that
            // is read.
            Self::Diff if plan & (2 | 4) != 0 => 0..count,
            Self::Diff => 0..0,
            // `HIST_IDX_COMMIT_EQ` and `HIST_IDX_START_REF`: behind those about the key.
            Self::History => count.saturating_sub((plan & (0x20 | 0x40)).count_ones() as usize)..count,
        }
    }
}

/// The engine's own module, and what is put before it.
struct Before {
    inner: ffi::sqlite3_module,
    module: ffi::sqlite3_module,
}

static AT: OnceLock<Before> = OnceLock::new();
static DIFF: OnceLock<Before> = OnceLock::new();
static HISTORY: OnceLock<Before> = OnceLock::new();

fn before(kind: HistoryTable) -> &'static OnceLock<Before> {
    match kind {
        HistoryTable::At => &AT,
        HistoryTable::Diff => &DIFF,
        HistoryTable::History => &HISTORY,
    }
}

/// A module as the engine registered it; only the engine looks inside.
#[repr(C)]
struct EngineModule {
    _private: [u8; 0],
}

// What the engine itself uses to make such a table when it is named, and to exchange the module behind one. The rest is SQLite's, newer than the
// bindings.
unsafe extern "C" {
    fn doltliteHistoricalModuleRegister(db: *mut ffi::sqlite3, name: *const c_char) -> *mut EngineModule;
    fn doltliteShieldInner(module: *mut EngineModule) -> *const ffi::sqlite3_module;
    fn doltliteShieldSetInner(module: *mut EngineModule, inner: *const ffi::sqlite3_module);
    fn sqlite3_vtab_rhs_value(
        info: *mut ffi::sqlite3_index_info,
        constraint: c_int,
        value: *mut *mut ffi::sqlite3_value,
    ) -> c_int;
}

/// Registers the engine's table of this name, with our methods before the engine's.
fn put_before(connection: &Connection, kind: HistoryTable, name: &str) -> rusqlite::Result<()> {
    let missing = || failure(format!("no such table: {name}"));
    let c_name = CString::new(name)?;
    // SAFETY: an open connection, and a text that ends with a NUL. The engine registers a module of this name, or gives null. Nothing is prepared on
    // the connection that uses one of this name.
    let module = unsafe { doltliteHistoricalModuleRegister(connection.handle(), c_name.as_ptr()) };
    if module.is_null() {
        return Err(missing());
    }
    // SAFETY: what the engine just registered.
    let inner = unsafe { doltliteShieldInner(module) };
    if inner.is_null() {
        return Err(missing());
    }
    let ours = before(kind).get_or_init(|| {
        // SAFETY: a static of the engine's; modules of this version (0) have all fields that are copied.
        let inner = unsafe { *inner };
        let mut module = inner;
        match kind {
            HistoryTable::At => {
                module.xBestIndex = Some(at_best_index);
                module.xFilter = Some(at_filter);
            }
            HistoryTable::Diff => {
                module.xBestIndex = Some(diff_best_index);
                module.xFilter = Some(diff_filter);
            }
            HistoryTable::History => {
                module.xBestIndex = Some(history_best_index);
                module.xFilter = Some(history_filter);
            }
        }
        Before { inner, module }
    });
    // SAFETY: as above; no table of this module was made yet, and ours lives as long as the process.
    unsafe { doltliteShieldSetInner(module, &raw const ours.module) };
    Ok(())
}

macro_rules! methods {
    ($($kind:ident: $best_index:ident, $filter:ident;)+) => {$(
        unsafe extern "C" fn $best_index(vtab: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
            // SAFETY: SQLite's arguments, passed on.
            unsafe { best_index(HistoryTable::$kind, vtab, info) }
        }

        unsafe extern "C" fn $filter(
            cursor: *mut ffi::sqlite3_vtab_cursor,
            plan: c_int,
            text: *const c_char,
            argc: c_int,
            argv: *mut *mut ffi::sqlite3_value,
        ) -> c_int {
            // SAFETY: SQLite's arguments, passed on.
            unsafe { filter(HistoryTable::$kind, cursor, plan, text, argc, argv) }
        }
    )+};
}

methods! {
    At: at_best_index, at_filter;
    Diff: diff_best_index, diff_filter;
    History: history_best_index, history_filter;
}

/// Looks at arguments that are constants: the columns of such a table are those at that commit, also when no row is asked for.
///
/// # Safety
/// As `xBestIndex`, for a table of this kind.
unsafe fn best_index(kind: HistoryTable, vtab: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    let Some(planned) = before(kind).get().and_then(|before| before.inner.xBestIndex) else {
        return ffi::SQLITE_ERROR;
    };
    // SAFETY: as demanded of the caller; the method of the module that made the table.
    let code = unsafe { planned(vtab, info) };
    if code != ffi::SQLITE_OK {
        return code;
    }
    // SAFETY: SQLite's own structure; both arrays have as many elements as there are constraints.
    let (plan, usages) = unsafe {
        let count = usize::try_from((*info).nConstraint).unwrap_or(0);
        let usages = match count {
            0 => &[],
            _ => std::slice::from_raw_parts((*info).aConstraintUsage, count),
        };
        ((*info).idxNum, usages)
    };
    let places: Vec<usize> = usages.iter().map(|usage| usize::try_from(usage.argvIndex).unwrap_or(0)).collect();
    let refs = kind.refs(plan, places.iter().copied().max().unwrap_or(0));
    for (constraint, place) in (0..).zip(&places) {
        if *place == 0 || !refs.contains(&(place - 1)) {
            continue;
        }
        let mut value = ptr::null_mut();
        // SAFETY: the structure of this call and a constraint in it; the value lives during the call.
        let constant = unsafe { sqlite3_vtab_rhs_value(info, constraint, &raw mut value) } == ffi::SQLITE_OK;
        if constant && !value.is_null() {
            // SAFETY: as above.
            if let Some(text) = refused(unsafe { bytes(value) }) {
                // SAFETY: the table of this call.
                return unsafe { fail(vtab, ffi::SQLITE_ERROR, &text) };
            }
        }
    }
    ffi::SQLITE_OK
}

/// Looks at all arguments.
///
/// # Safety
/// As `xFilter`, for a cursor of a table of this kind.
unsafe fn filter(
    kind: HistoryTable,
    cursor: *mut ffi::sqlite3_vtab_cursor,
    plan: c_int,
    text: *const c_char,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
) -> c_int {
    let Some(filtered) = before(kind).get().and_then(|before| before.inner.xFilter) else {
        return ffi::SQLITE_ERROR;
    };
    // SAFETY: as demanded of the caller.
    let values = unsafe { slice(argc, argv) };
    for value in &values[kind.refs(plan, values.len())] {
        // SAFETY: a value of this call.
        if let Some(text) = refused(unsafe { bytes(*value) }) {
            // SAFETY: the table of the cursor.
            return unsafe { fail((*cursor).pVtab, ffi::SQLITE_ERROR, &text) };
        }
    }
    // SAFETY: as demanded of the caller; the method of the module that made the cursor.
    unsafe { filtered(cursor, plan, text, argc, argv) }
}

/// # Safety
/// `argv` has `argc` values.
unsafe fn slice<'a>(argc: c_int, argv: *mut *mut ffi::sqlite3_value) -> &'a [*mut ffi::sqlite3_value] {
    match usize::try_from(argc) {
        Ok(0) | Err(_) => &[],
        // SAFETY: as demanded of the caller.
        Ok(count) => unsafe { std::slice::from_raw_parts(argv, count) },
    }
}

/// A value as the engine reads a ref from it: as text.
///
/// # Safety
/// A value that lives, and is not converted otherwise, as long as the result is used.
unsafe fn bytes<'a>(value: *mut ffi::sqlite3_value) -> &'a [u8] {
    // SAFETY: as demanded of the caller.
    let (text, length) = unsafe { (ffi::sqlite3_value_text(value), ffi::sqlite3_value_bytes(value)) };
    match usize::try_from(length) {
        // SAFETY: that many bytes are there.
        Ok(length) if !text.is_null() => unsafe { std::slice::from_raw_parts(text, length) },
        _ => &[],
    }
}

/// Leaves a message with the table, for SQLite to take.
///
/// # Safety
/// A table that lives.
unsafe fn fail(vtab: *mut ffi::sqlite3_vtab, code: c_int, message: &str) -> c_int {
    let Ok(message) = CString::new(message.replace('\0', "\u{fffd}")) else { return code };
    // SAFETY: as demanded of the caller; the message is null or memory of SQLite's own, and is exchanged for a copy of ours in such memory.
    unsafe {
        ffi::sqlite3_free((*vtab).zErrMsg.cast());
        (*vtab).zErrMsg = ffi::sqlite3_mprintf(c"%s".as_ptr(), message.as_ptr());
    }
    code
}

/// The same with what a connection says of its last call.
///
/// # Safety
/// A table and a connection that live.
unsafe fn fail_as(vtab: *mut ffi::sqlite3_vtab, db: *mut ffi::sqlite3, code: c_int) -> c_int {
    // SAFETY: as demanded of the caller; the text is copied before anything else is asked of the connection.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db)) }.to_string_lossy().into_owned();
    // SAFETY: as demanded of the caller.
    unsafe { fail(vtab, code, &message) }
}
