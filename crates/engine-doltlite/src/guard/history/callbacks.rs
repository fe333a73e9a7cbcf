//! Arguments and errors of the callbacks of both kinds of tables.

use std::ffi::{CStr, CString, c_int};

use rusqlite::ffi;

/// # Safety
/// `argv` must have `argc` values.
pub(super) unsafe fn slice<'a>(argc: c_int, argv: *mut *mut ffi::sqlite3_value) -> &'a [*mut ffi::sqlite3_value] {
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
pub(super) unsafe fn bytes<'a>(value: *mut ffi::sqlite3_value) -> &'a [u8] {
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
pub(super) unsafe fn fail(vtab: *mut ffi::sqlite3_vtab, code: c_int, message: &str) -> c_int {
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
pub(super) unsafe fn fail_as(vtab: *mut ffi::sqlite3_vtab, db: *mut ffi::sqlite3, code: c_int) -> c_int {
    // SAFETY: guaranteed by the caller; the text is copied before the connection is used again.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db)) }.to_string_lossy().into_owned();
    // SAFETY: guaranteed by the caller.
    unsafe { fail(vtab, code, &message) }
}
