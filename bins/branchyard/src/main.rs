//! The `branchyard` command.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Of the system's allocators, that of glibc shares a few heaps between all threads. A thread of lowered priority that is interrupted while it holds one
/// keeps the others waiting, and what is freed in one of them stays there. This one has a heap for each thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match branchyard::commands::run(branchyard::cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain in one line: what failed, then why.
            let _ = writeln!(std::io::stderr(), "branchyard: {error:#}");
            ExitCode::FAILURE
        }
    }
}
