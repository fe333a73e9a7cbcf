//! Formats doubles as the engine does.
#![expect(
    unsafe_code,
    reason = "the engine's own formatting has no safe wrapper, and nothing else gives the same digits"
)]

use std::ffi::{CStr, c_char};

use rusqlite::ffi;

/// Returns the text that the engine converts a double to.
#[expect(clippy::expect_used, reason = "the engine ends the text with a zero")]
pub(super) fn text(x: f64) -> String {
    let mut buffer = [0_u8; 64];
    let length = i32::try_from(buffer.len()).unwrap_or(0);
    // SAFETY: the format takes exactly one double; the engine writes at most `length` bytes, including the final zero.
    unsafe {
        ffi::sqlite3_snprintf(length, buffer.as_mut_ptr().cast::<c_char>(), c"%!.17g".as_ptr(), x);
    }
    CStr::from_bytes_until_nul(&buffer).expect("a final zero").to_string_lossy().into_owned()
}
