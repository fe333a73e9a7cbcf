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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// Memory of the process in KiB.
    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
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
