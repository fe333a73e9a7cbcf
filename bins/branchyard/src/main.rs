//! The `branchyard` command.

#![expect(unsafe_code, reason = "options of the allocator have no safe wrapper")]

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Of the system's allocators, that of glibc shares a few heaps between all threads. A thread of lowered priority that is interrupted while it holds one
/// keeps the others waiting, and what is freed in one of them stays there. This one has a heap for each thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is freed goes back to the system at once, and not after a second: a crowd that has gone leaves nothing behind.
fn return_freed_memory() {
    /// `mi_option_purge_delay`, which the crate does not name.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: takes plain numbers, and may be called at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

fn main() -> ExitCode {
    return_freed_memory();
    match branchyard::commands::run(branchyard::cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain in one line: what failed, then why.
            let _ = writeln!(std::io::stderr(), "branchyard: {error:#}");
            ExitCode::FAILURE
        }
    }
}
