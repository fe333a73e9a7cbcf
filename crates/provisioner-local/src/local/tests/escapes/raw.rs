//! System calls by number, as a compromised process would make them.

#![expect(unsafe_code, reason = "the libraries that check arguments would refuse some of these calls themselves")]

use std::ffi::c_long;
use std::io;

/// Makes a system call.
///
/// Callers pass null pointers, pointers to values that outlive the call, or calls that must not be reached.
pub(super) fn call<const N: usize>(number: c_long, arguments: [usize; N]) -> io::Result<()> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: the kernel checks every address that it is given, and writes only to memory that the caller lends it.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
