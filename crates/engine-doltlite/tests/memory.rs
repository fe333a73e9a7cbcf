//! Memory freed by statements is returned to the system. A separate test binary, because the memory of the whole
//! process is measured.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};

/// Returns the resident memory of the process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Allocates blocks of a size and frees them.
fn hold(blocks: usize, bytes: usize) {
    let blocks: Vec<Vec<u8>> = (0..blocks).map(|_| std::hint::black_box(vec![1; bytes])).collect();
    drop(blocks);
}

#[test]
fn what_was_freed_is_returned_to_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let _engine = DoltliteEngine::open(folder.path().join("databases"), EngineOptions::default()).unwrap();
    // Without other settings, a freed block of this size makes glibc keep blocks of up to its size, and twice as much
    // in all.
    hold(1, 30 << 20);
    let before = resident_kib();
    hold(20, 2 << 20);
    let kept = resident_kib().saturating_sub(before);
    assert!(kept < 8 << 10, "{kept} KiB of 40 MiB were kept");
}
