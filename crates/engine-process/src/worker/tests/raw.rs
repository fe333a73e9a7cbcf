//! What only a compromised process does: system calls by number, and a fault.

#![expect(unsafe_code, reason = "the libraries that check arguments would refuse some of these calls themselves")]

use std::ffi::c_long;

/// Makes a system call, and returns its result or the error's number.
///
/// Callers pass null pointers, pointers to values that outlive the call, or calls that must not be reached.
pub(super) fn call<const N: usize>(number: c_long, arguments: [usize; N]) -> Result<usize, i32> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: the kernel checks every address that it is given, and writes only to memory that the caller lends it.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Ends the process with `SIGSEGV`.
pub(super) fn crash() -> ! {
    let page = std::hint::black_box(64_usize) as *const u64;
    // SAFETY: nothing is mapped at this address, so the read ends the process, which is the purpose.
    let read = unsafe { std::ptr::read_volatile(page) };
    unreachable!("{read} was read at an address that is not mapped")
}
