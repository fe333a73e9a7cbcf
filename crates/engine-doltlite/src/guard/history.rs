//! Wrappers of the engine's tables and functions that take commits, so that commits which the database does not show
//! count as absent.
//!
//! The engine resolves a hash while a statement runs, and a view, a trigger, a join or a computed argument may produce
//! that hash. The check is therefore made where a hash reaches the engine. There are three such places:
//! - Functions (`dolt_hashof`) are replaced. The replacement checks its arguments and calls the engine's function on
//!   the companion connection of the [`Scope`].
//! - Single tables (`dolt_log`) are replaced by modules that check their arguments and read the engine's table on the
//!   companion.
//! - Tables that exist once per user table (`dolt_at_t`) have columns that depend on the commit. Only their methods
//!   that take arguments are wrapped.
//!
//! A connection is wrapped name by name, when the authorizer first meets a name. After that it cannot run internal
//! statements any more.
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
    /// The scope of the user statement on this thread.
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// Sets the scope of this thread until the result is dropped.
pub(super) fn enter(scope: Option<Arc<Scope>>) -> InScope {
    InScope(CURRENT.replace(scope))
}

/// The previous scope of the thread, restored when dropped; see [`enter`].
pub(super) struct InScope(Option<Arc<Scope>>);

impl Drop for InScope {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current() -> Option<Arc<Scope>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns the reason why a statement may not pass this text as a ref. Returns `None` if it may.
fn refused(spec: &[u8]) -> Option<String> {
    let scope = current()?;
    let spec = String::from_utf8_lossy(spec);
    for commit in reach::hashes(&spec) {
        match scope.shows(&commit) {
            Ok(true) => {}
            Ok(false) => return Some(absent(&commit)),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot look up a commit");
                return Some("commits cannot be looked up at the moment".to_owned());
            }
        }
    }
    None
}

fn absent(commit: &CommitHash) -> String {
    format!("no such commit: {commit}")
}

/// Returns the error of a statement that names a commit which the database does not show.
pub(crate) fn no_such_commit(commit: &CommitHash) -> Error {
    failure(absent(commit))
}

fn failure(text: String) -> Error {
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(text))
}

/// Wraps the function or table with this name.
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

/// Returns `true` if the table exists or existed in the history that is read. The engine itself also looks for the
/// columns of the table in the last written commit, which the database may not show.
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
        // With the flags of the engine's own functions: not for views, triggers and defaults.
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

/// A table that exists once, not once per user table.
struct FixedTable {
    name: String,
    c_name: CString,
    /// The declaration that is passed to SQLite.
    declaration: CString,
    columns: Vec<FixedColumn>,
}

struct FixedColumn {
    name: String,
    /// Whether the column is an argument.
    hidden: bool,
}

impl FixedTable {
    /// Returns the visible columns, in order.
    fn shown(&self) -> impl Iterator<Item = &FixedColumn> {
        self.columns.iter().filter(|column| !column.hidden)
    }

    /// Returns how a hash in this column is to be checked.
    fn takes(&self, column: usize) -> Takes {
        match self.columns.get(column) {
            Some(column) if column.hidden && column.name == "table_name" => Takes::NoCommit,
            Some(column) if column.hidden => Takes::Ref,
            // `dolt_log` itself checks whether the commit is in the history that is read.
            Some(column) if column.name == "commit_hash" && self.name == "dolt_diff" => Takes::Hash,
            _ => Takes::NoCommit,
        }
    }

    /// Returns the query for the companion, with one parameter for each column of the plan.
    fn question(&self, plan: &[usize]) -> String {
        let shown: Vec<&str> = self.shown().map(|column| column.name.as_str()).collect();
        let hidden: Vec<usize> = (0..self.columns.len()).filter(|at| self.columns[*at].hidden).collect();
        let given: Vec<usize> = plan.iter().copied().filter(|at| self.columns[*at].hidden).collect();
        let place = |at: usize| plan.iter().position(|planned| *planned == at).map_or(0, |place| place + 1);
        // Uses the form of a call where possible, because some tables distinguish a call from a condition.
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
    /// A ref, a path to an ancestor, or a range.
    Ref,
    /// A commit hash. A hash that is not shown matches no row.
    Hash,
    /// Neither a ref nor a hash.
    NoCommit,
}

/// Returns all single tables that take commits, as the engine declares them. They do not depend on a database.
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

/// Registers the wrapper module in place of the engine's module.
fn replace(connection: &Connection, table: &'static FixedTable) -> rusqlite::Result<()> {
    static MODULE: OnceLock<ffi::sqlite3_module> = OnceLock::new();
    let module = MODULE.get_or_init(|| {
        // SAFETY: the type consists of a number and nullable function pointers; all null is a valid value.
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
    // SAFETY: the handle is that of an open connection. Name, module and table live as long as the process. The module
    // only reads the table.
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
    /// Keeps the companion connection open.
    scope: Option<Arc<Scope>>,
    statement: *mut ffi::sqlite3_stmt,
    companion: *mut ffi::sqlite3,
    has_row: bool,
    row: i64,
}

impl FixedCursor {
    fn finish(&mut self) {
        // SAFETY: the statement is null, or was prepared by this cursor and not finalized yet; the scope keeps its
        // connection open.
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
    // SAFETY: `replace` registered this pointer.
    let table: &'static FixedTable = unsafe { &*aux.cast() };
    // SAFETY: SQLite calls this method while it constructs the table, with the table's connection; the declaration ends
    // with a NUL.
    let declared = unsafe { ffi::sqlite3_declare_vtab(db, table.declaration.as_ptr()) };
    if declared != ffi::SQLITE_OK {
        return declared;
    }
    // SAFETY: as above; the option takes no further argument. Views may use the table, like the engine's own.
    unsafe { ffi::sqlite3_vtab_config(db, ffi::SQLITE_VTAB_INNOCUOUS) };
    let made = Box::new(FixedVtab { base: ffi::sqlite3_vtab::default(), table });
    // SAFETY: SQLite provides the place for the pointer, and later passes the pointer to `fixed_disconnect`. The
    // structure begins with its base.
    unsafe { *vtab = Box::into_raw(made).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_disconnect(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: the box was created by `fixed_connect`, and is returned once.
    drop(unsafe { Box::from_raw(vtab.cast::<FixedVtab>()) });
    ffi::SQLITE_OK
}

/// The plan lists the columns whose values `xFilter` receives, in order, as bytes that start at 1.
unsafe extern "C" fn fixed_best_index(vtab: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    // SAFETY: the table was created by `fixed_connect`, and lives during the call.
    let table = unsafe { &*vtab.cast::<FixedVtab>() }.table;
    // SAFETY: SQLite's own structure, which this call may change.
    let info_ref = unsafe { &mut *info };
    let count = usize::try_from(info_ref.nConstraint).unwrap_or(0);
    let mut plan: Vec<u8> = Vec::new();
    let mut arguments = false;
    for at in 0..count {
        // SAFETY: both arrays have one element for each constraint.
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
    // SAFETY: the memory is allocated by SQLite with the number of bytes that are written; SQLite frees it.
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

/// Returns `true` if a constraint compares byte by byte.
///
/// # Safety
/// Must be called within `xBestIndex`, with its structure and the index of a constraint in it.
unsafe fn is_binary(info: *mut ffi::sqlite3_index_info, at: usize) -> bool {
    let Ok(at) = c_int::try_from(at) else { return false };
    // SAFETY: guaranteed by the caller.
    let collation = unsafe { ffi::sqlite3_vtab_collation(info, at) };
    // SAFETY: the collation is null, or a text of SQLite that lives during the call.
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
    // SAFETY: SQLite provides the place for the pointer, and later passes the pointer to `fixed_close`. The structure
    // begins with its base.
    unsafe { *cursor = Box::into_raw(made).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: the box was created by `fixed_open`, and is returned once.
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
    // SAFETY: the cursor was created by `fixed_open`, and is used by one call at a time.
    let at = unsafe { &mut *cursor.cast::<FixedCursor>() };
    // SAFETY: SQLite sets the field before the first call; the table outlives its cursors.
    let vtab = at.base.pVtab;
    // SAFETY: as above; the table was created by `fixed_connect`.
    let table = unsafe { &*vtab.cast::<FixedVtab>() }.table;
    at.finish();
    at.row = 0;
    // SAFETY: `fixed_best_index` wrote the plan, which ends with a NUL.
    let plan = unsafe { CStr::from_ptr(plan) }.to_bytes();
    let plan: Vec<usize> = plan.iter().map(|byte| usize::from(*byte) - 1).collect();
    // SAFETY: there are as many values as the plan has columns, and they live during the call.
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
        // SAFETY: an open connection, which the scope keeps open; only this thread uses it.
        let db = unsafe { companion.handle() };
        let mut statement = ptr::null_mut();
        // SAFETY: the text ends with a NUL, and `statement` is a local variable.
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
        // SAFETY: the table of the cursor, and the connection that its scope keeps open.
        return unsafe { fail_as(vtab, db, code) };
    }
    for (number, value) in (1..).zip(values) {
        // SAFETY: the statement was just prepared; SQLite copies the value.
        let code = unsafe { ffi::sqlite3_bind_value(statement, number, *value) };
        if code != ffi::SQLITE_OK {
            return code;
        }
    }
    step(at)
}

/// Moves a cursor to its next row.
fn step(at: &mut FixedCursor) -> c_int {
    // SAFETY: the statement belongs to the cursor.
    let code = unsafe { ffi::sqlite3_step(at.statement) };
    at.has_row = code == ffi::SQLITE_ROW;
    if at.has_row || code == ffi::SQLITE_DONE {
        return ffi::SQLITE_OK;
    }
    // SAFETY: the table of the cursor, and the connection that its scope keeps open.
    unsafe { fail_as(at.base.pVtab, at.companion, code) }
}

unsafe extern "C" fn fixed_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: the cursor was created by `fixed_open`, and is used by one call at a time.
    let at = unsafe { &mut *cursor.cast::<FixedCursor>() };
    at.row += 1;
    step(at)
}

unsafe extern "C" fn fixed_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: the cursor was created by `fixed_open`, and is used by one call at a time.
    c_int::from(!unsafe { &*cursor.cast::<FixedCursor>() }.has_row)
}

unsafe extern "C" fn fixed_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: the cursor was created by `fixed_open`, and is used by one call at a time.
    let at = unsafe { &*cursor.cast::<FixedCursor>() };
    // SAFETY: the table of the cursor, which was created by `fixed_connect`.
    let table = unsafe { &*at.base.pVtab.cast::<FixedVtab>() }.table;
    let Ok(column) = usize::try_from(column) else { return ffi::SQLITE_OK };
    if !at.has_row || table.columns.get(column).is_none_or(|column| column.hidden) {
        return ffi::SQLITE_OK;
    }
    let place = table.columns[..column].iter().filter(|column| !column.hidden).count();
    let Ok(place) = c_int::try_from(place) else { return ffi::SQLITE_OK };
    // SAFETY: the statement stands on a row that has this column; SQLite copies the value.
    unsafe { ffi::sqlite3_result_value(context, ffi::sqlite3_column_value(at.statement, place)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn fixed_rowid(cursor: *mut ffi::sqlite3_vtab_cursor, rowid: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: the cursor was created by `fixed_open`, and is used by one call at a time; SQLite provides the place for
    // the number.
    unsafe { *rowid = (*cursor.cast::<FixedCursor>()).row };
    ffi::SQLITE_OK
}

/// The kinds of tables that exist once per user table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HistoryTable {
    At,
    Diff,
    History,
}

impl HistoryTable {
    /// Returns the kind and the name of the user's table.
    fn of(name: &str) -> Option<(Self, &str)> {
        [(Self::At, "dolt_at_"), (Self::Diff, "dolt_diff_"), (Self::History, "dolt_history_")]
            .into_iter()
            .find_map(|(kind, prefix)| Some((kind, name.strip_prefix(prefix)?)))
    }

    /// Returns which of the `count` arguments of an engine's plan are refs.
    fn refs(self, plan: c_int, count: usize) -> std::ops::Range<usize> {
        match self {
            // `AT_IDX_REF`: the first argument is a ref.
            Self::At => 0..usize::from(plan & 1 != 0).min(count),
            // `DT_IDX_SLICE` and `DT_IDX_RANGE_SPEC`: all arguments are refs. Conditions on `from_commit` and
            // `to_commit` only select among the commits that are reached from the commit that is read.
            Self::Diff if plan & (2 | 4) != 0 => 0..count,
            Self::Diff => 0..0,
            // `HIST_IDX_COMMIT_EQ` and `HIST_IDX_START_REF`: the refs follow the arguments about the key.
            Self::History => count.saturating_sub((plan & (0x20 | 0x40)).count_ones() as usize)..count,
        }
    }
}

/// The engine's own module, and the module that wraps it.
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

/// An opaque module as the engine registered it.
#[repr(C)]
struct EngineModule {
    _private: [u8; 0],
}

// The engine uses these functions to create such a table when a statement names it, and to exchange the module of a
// table. The last function is part of SQLite and newer than the bindings.
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

/// Registers the engine's table of this name, with its argument methods wrapped.
fn put_before(connection: &Connection, kind: HistoryTable, name: &str) -> rusqlite::Result<()> {
    let missing = || failure(format!("no such table: {name}"));
    let c_name = CString::new(name)?;
    // SAFETY: an open connection, and a text that ends with a NUL. The engine registers a module of this name, or
    // returns null. No prepared statement on the connection uses a table of this name.
    let module = unsafe { doltliteHistoricalModuleRegister(connection.handle(), c_name.as_ptr()) };
    if module.is_null() {
        return Err(missing());
    }
    // SAFETY: the engine just registered this module.
    let inner = unsafe { doltliteShieldInner(module) };
    if inner.is_null() {
        return Err(missing());
    }
    let ours = before(kind).get_or_init(|| {
        // SAFETY: a static of the engine; modules of this version (0) have all fields that are copied.
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
    // SAFETY: as above; no table of this module exists yet, and the wrapper lives as long as the process.
    unsafe { doltliteShieldSetInner(module, &raw const ours.module) };
    Ok(())
}

macro_rules! methods {
    ($($kind:ident: $best_index:ident, $filter:ident;)+) => {$(
        unsafe extern "C" fn $best_index(vtab: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
            // SAFETY: the arguments come from SQLite unchanged.
            unsafe { best_index(HistoryTable::$kind, vtab, info) }
        }

        unsafe extern "C" fn $filter(
            cursor: *mut ffi::sqlite3_vtab_cursor,
            plan: c_int,
            text: *const c_char,
            argc: c_int,
            argv: *mut *mut ffi::sqlite3_value,
        ) -> c_int {
            // SAFETY: the arguments come from SQLite unchanged.
            unsafe { filter(HistoryTable::$kind, cursor, plan, text, argc, argv) }
        }
    )+};
}

methods! {
    At: at_best_index, at_filter;
    Diff: diff_best_index, diff_filter;
    History: history_best_index, history_filter;
}

/// Checks constant arguments. The columns of such a table are those at the named commit, even if no row is read.
///
/// # Safety
/// Must be called as `xBestIndex`, for a table of this kind.
unsafe fn best_index(kind: HistoryTable, vtab: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    let Some(planned) = before(kind).get().and_then(|before| before.inner.xBestIndex) else {
        return ffi::SQLITE_ERROR;
    };
    // SAFETY: guaranteed by the caller; the method belongs to the module that created the table.
    let code = unsafe { planned(vtab, info) };
    if code != ffi::SQLITE_OK {
        return code;
    }
    // SAFETY: SQLite's own structure; both arrays have one element for each constraint.
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

/// Checks all arguments.
///
/// # Safety
/// Must be called as `xFilter`, for a cursor of a table of this kind.
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
    // SAFETY: guaranteed by the caller.
    let values = unsafe { slice(argc, argv) };
    for value in &values[kind.refs(plan, values.len())] {
        // SAFETY: a value of this call.
        if let Some(text) = refused(unsafe { bytes(*value) }) {
            // SAFETY: the table of the cursor.
            return unsafe { fail((*cursor).pVtab, ffi::SQLITE_ERROR, &text) };
        }
    }
    // SAFETY: guaranteed by the caller; the method belongs to the module that created the cursor.
    unsafe { filtered(cursor, plan, text, argc, argv) }
}

/// # Safety
/// `argv` must have `argc` values.
unsafe fn slice<'a>(argc: c_int, argv: *mut *mut ffi::sqlite3_value) -> &'a [*mut ffi::sqlite3_value] {
    match usize::try_from(argc) {
        Ok(0) | Err(_) => &[],
        // SAFETY: guaranteed by the caller.
        Ok(count) => unsafe { std::slice::from_raw_parts(argv, count) },
    }
}

/// Returns a value as text, as the engine reads a ref from it.
///
/// # Safety
/// The value must live as long as the result is used, and must not be converted to another type meanwhile.
unsafe fn bytes<'a>(value: *mut ffi::sqlite3_value) -> &'a [u8] {
    // SAFETY: guaranteed by the caller.
    let (text, length) = unsafe { (ffi::sqlite3_value_text(value), ffi::sqlite3_value_bytes(value)) };
    match usize::try_from(length) {
        // SAFETY: the text has this many bytes.
        Ok(length) if !text.is_null() => unsafe { std::slice::from_raw_parts(text, length) },
        _ => &[],
    }
}

/// Stores an error message in the table, from where SQLite takes it. Returns `code`.
///
/// # Safety
/// The table must be alive.
unsafe fn fail(vtab: *mut ffi::sqlite3_vtab, code: c_int, message: &str) -> c_int {
    let Ok(message) = CString::new(message.replace('\0', "\u{fffd}")) else { return code };
    // SAFETY: guaranteed by the caller; the old message is null or memory of SQLite, and is replaced by a copy in
    // memory of SQLite.
    unsafe {
        ffi::sqlite3_free((*vtab).zErrMsg.cast());
        (*vtab).zErrMsg = ffi::sqlite3_mprintf(c"%s".as_ptr(), message.as_ptr());
    }
    code
}

/// Works like [`fail`], with the message of the last error of a connection.
///
/// # Safety
/// The table and the connection must be alive.
unsafe fn fail_as(vtab: *mut ffi::sqlite3_vtab, db: *mut ffi::sqlite3, code: c_int) -> c_int {
    // SAFETY: guaranteed by the caller; the text is copied before the connection is used again.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db)) }.to_string_lossy().into_owned();
    // SAFETY: guaranteed by the caller.
    unsafe { fail(vtab, code, &message) }
}
