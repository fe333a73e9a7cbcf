//! Replacements of the tables that exist once, such as `dolt_log`.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, Error, ffi};

use super::callbacks::{bytes, fail, fail_as, slice};
use super::{current, refused};
use crate::guard::lists;
use crate::reach::Scope;
use branchyard_sqlite_lexer::{quote_name, quote_names};

/// A table that exists once, not once per user table.
pub(super) struct FixedTable {
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
pub(super) fn fixed_tables() -> rusqlite::Result<&'static HashMap<String, FixedTable>> {
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
pub(super) fn replace(connection: &Connection, table: &'static FixedTable) -> rusqlite::Result<()> {
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
