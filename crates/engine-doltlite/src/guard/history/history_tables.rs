//! Wrappers of the tables that exist once per user table, such as `dolt_at_t`.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::{Connection, ffi};

use super::callbacks::{bytes, fail, slice};
use super::{failure, refused};

/// The kinds of tables that exist once per user table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryTable {
    At,
    Diff,
    History,
}

impl HistoryTable {
    /// Returns the kind and the name of the user's table.
    pub(super) fn of(name: &str) -> Option<(Self, &str)> {
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
pub(super) fn put_before(connection: &Connection, kind: HistoryTable, name: &str) -> rusqlite::Result<()> {
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
