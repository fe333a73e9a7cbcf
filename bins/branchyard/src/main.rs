//! The `branchyard` command.

#![expect(unsafe_code, reason = "options of the allocator have no safe wrapper")]

use std::io::Write as _;
use std::process::ExitCode;

use branchyard::cli::{Cli, VersionFlags};
use branchyard::private;
use clap::Parser as _;

/// Uses mimalloc because it has one heap per thread. The glibc allocator shares a few heaps between all threads: a low-priority
/// thread that is preempted while it holds a heap lock blocks the other threads, and freed memory stays in the shared heaps.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes the allocator return freed memory to the operating system at once instead of after a delay, so that memory use drops
/// when a burst of load ends.
fn return_freed_memory() {
    /// The value of `mi_option_purge_delay`, which `libmimalloc_sys` does not define.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: `mi_option_set` takes plain integers and may be called at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

fn main() -> ExitCode {
    return_freed_memory();
    private::create_private_files();
    let outcome = private::hide_password().and_then(|()| {
        if VersionFlags::are_given() {
            branchyard::build_info::print()
        } else {
            branchyard::commands::run(Cli::parse())
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Prints the whole error chain on one line: what failed, then why.
            let _ = writeln!(std::io::stderr(), "branchyard: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// Returns the resident memory of the process in KiB.
    fn resident_kib() -> u64 {
        let memory = procfs::process::Process::myself().and_then(|process| process.statm());
        memory.map_or(0, |memory| memory.resident * procfs::page_size() / 1024)
    }

    #[test]
    fn what_is_freed_goes_back_to_the_system_at_once() {
        super::return_freed_memory();
        let hold = |blocks: usize| (0..blocks).map(|_| std::hint::black_box(vec![1_u8; 2 << 20])).collect::<Vec<_>>();
        drop(hold(1));
        let before = resident_kib();
        let held = hold(20);
        let during = resident_kib();
        assert!(during > before + (30 << 10), "{before} {during}");
        drop(held);
        let kept = resident_kib().saturating_sub(before);
        assert!(kept < 8 << 10, "{kept} KiB of 40 MiB were kept");
    }
}
