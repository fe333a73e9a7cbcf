//! Asks the engine whether the open transaction breaks references that are checked at its end.

#![expect(unsafe_code, reason = "rusqlite has no function for the status of a connection")]

use std::ffi::c_int;

use rusqlite::{Connection, ffi};

/// Returns `true` if a commit of the open transaction would fail, because a deferred reference leads nowhere.
pub(crate) fn has_broken_references(connection: &Connection) -> bool {
    let (mut now, mut highest): (c_int, c_int) = (0, 0);
    // SAFETY: the handle is that of an open connection, which this thread uses, and both results outlive the call.
    let status = unsafe {
        ffi::sqlite3_db_status(connection.handle(), ffi::SQLITE_DBSTATUS_DEFERRED_FKS, &mut now, &mut highest, 0)
    };
    status == ffi::SQLITE_OK && now != 0
}
