//! Doubles as the engine writes them.
#![expect(
    unsafe_code,
    reason = "the engine's own formatting has no safe wrapper, and nothing else gives the same digits"
)]

use std::ffi::{CStr, c_char};

use rusqlite::ffi;

/// The text a double is turned into where a text is wanted.
pub(super) fn text(x: f64) -> String {
    let mut buffer = [0_u8; 64];
    let length = i32::try_from(buffer.len()).unwrap_or(0);
    // SAFETY: the format takes exactly one double; the engine writes at most `length` bytes, the last of which is zero.
    unsafe {
        ffi::sqlite3_snprintf(length, buffer.as_mut_ptr().cast::<c_char>(), c"%!.17g".as_ptr(), x);
    }
    CStr::from_bytes_until_nul(&buffer).unwrap_or_default().to_string_lossy().into_owned()
}
