//! Descriptors that a program inherits from the one that started it.
#![expect(unsafe_code, reason = "the system call has no safe wrapper")]

use std::io;

/// Lets no program that this process starts inherit a descriptor, except the standard ones that it is given.
///
/// # Errors
/// An error of the kernel. Those before 5.11 have no such call, and no means to confine files either.
pub(crate) fn close_at_exec() -> io::Result<()> {
    let (first, last) = (3 as libc::c_ulong, libc::c_ulong::from(u32::MAX));
    // SAFETY: the call takes no address, and only marks descriptors.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::c_ulong::from(libc::CLOSE_RANGE_CLOEXEC)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
