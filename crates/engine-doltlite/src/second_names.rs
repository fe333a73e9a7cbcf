//! Files with a second name, for copies that are put off.
//!
//! The engine writes no file that has several names when it is opened: writers under different names would not see each other's locks.
//! Here a second name is only ever read, byte by byte, and never opened by the engine ([`crate::put_off`]). So its look at a file
//! finds one name.

#![expect(unsafe_code, reason = "SQLite's system calls are replaced through its C interface")]

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::Once;

use rusqlite::ffi;

/// Has the engine open files that have a second name as it opens others. Counts for the whole process.
///
/// # Errors
/// An error if SQLite does not know the system call.
pub(crate) fn allow_second_names() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut is_replaced = true;
    ONCE.call_once(|| {
        // SAFETY: a null name asks for the default VFS, which is never freed.
        let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        // SAFETY: the pointer is null or leads to a VFS that stays valid.
        let replace = unsafe { vfs.as_ref() }.and_then(|vfs| vfs.xSetSystemCall);
        // SAFETY: a pointer to a function is as large as the type that stands for any of them.
        let call = unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn()>(fstat as *const ()) };
        // SAFETY: the VFS and the name are valid, and the function stays valid for as long as the process runs.
        is_replaced =
            replace.is_some_and(|replace| unsafe { replace(vfs, c"fstat".as_ptr(), Some(call)) } == ffi::SQLITE_OK);
    });
    if is_replaced { Ok(()) } else { Err(io::Error::other("SQLite has no system call fstat")) }
}

unsafe extern "C" fn fstat(file: c_int, into: *mut libc::stat) -> c_int {
    // SAFETY: SQLite passes a structure to fill.
    let result = unsafe { libc::fstat(file, into) };
    // SAFETY: it is filled if the call succeeded. A file without a name stays one.
    if result == 0 && unsafe { (*into).st_nlink } > 1 {
        // SAFETY: as above.
        unsafe { (*into).st_nlink = 1 };
    }
    result
}
