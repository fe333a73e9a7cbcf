//! Names of the engine's primary result codes, without the `SQLITE_` prefix.

use branchyard_domain::ports::SessionError;
use rusqlite::{Error, ffi};

use crate::sql::errors;

const NAMES: &[&str] = &[
    "OK",
    "ERROR",
    "INTERNAL",
    "PERM",
    "ABORT",
    "BUSY",
    "LOCKED",
    "NOMEM",
    "READONLY",
    "INTERRUPT",
    "IOERR",
    "CORRUPT",
    "NOTFOUND",
    "FULL",
    "CANTOPEN",
    "PROTOCOL",
    "EMPTY",
    "SCHEMA",
    "TOOBIG",
    "CONSTRAINT",
    "MISMATCH",
    "MISUSE",
    "NOLFS",
    "AUTH",
    "FORMAT",
    "RANGE",
    "NOTADB",
    "NOTICE",
    "WARNING",
];

fn name(primary: i32) -> &'static str {
    usize::try_from(primary).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("ERROR")
}

/// Returns the error of a statement. `refused` is set if the guard refused the statement.
pub(super) fn failure(error: &Error, refused: bool) -> SessionError {
    let (code, message) = errors::parts(error);
    let extended = code.map_or(ffi::SQLITE_ERROR, |code| code.extended_code);
    // The engine reports a failed write, not a full disk, if the file may not grow any more. To the client the disk is
    // full.
    let primary = if extended == ffi::SQLITE_IOERR_WRITE { ffi::SQLITE_FULL } else { extended & 0xff };
    // A replaced function that refuses can set only a message, not a code.
    let refused = refused
        || message.starts_with("not authorized")
        // The engine refuses such a change before the guard does.
        || (message.starts_with("table sqlite_") && message.ends_with("may not be modified"));
    let code = if refused { "AUTH" } else { name(primary) };
    SessionError::Statement { code, message }
}

/// Returns the error for a statement that is refused before the engine sees it.
pub(super) fn not_authorized() -> SessionError {
    SessionError::Statement { code: "AUTH", message: "not authorized".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_names() {
        for (code, expected) in [
            (ffi::SQLITE_ERROR, "ERROR"),
            (ffi::SQLITE_CONSTRAINT, "CONSTRAINT"),
            (ffi::SQLITE_BUSY, "BUSY"),
            (ffi::SQLITE_READONLY, "READONLY"),
            (ffi::SQLITE_AUTH, "AUTH"),
            (ffi::SQLITE_FULL, "FULL"),
            (ffi::SQLITE_NOMEM, "NOMEM"),
            (ffi::SQLITE_NOTADB, "NOTADB"),
            (101, "ERROR"),
        ] {
            assert_eq!(name(code), expected);
        }
    }
}
