//! Memory of processes.

use std::fs;

use branchyard_testkit::descendants;

/// Returns the memory of a process and of those that it started, in MiB. Memory that they share counts once (PSS).
pub(crate) fn of_all(process: u32) -> f64 {
    std::iter::once(process).chain(descendants(process)).map(proportional).sum()
}

/// Returns the memory of a process, in MiB, with its part of what it shares with others.
pub(crate) fn proportional(process: u32) -> f64 {
    rollup(process, &["Pss:"])
}

/// Returns the memory that no other process shares, in MiB.
pub(crate) fn own(process: u32) -> f64 {
    rollup(process, &["Private_Clean:", "Private_Dirty:"])
}

/// Returns the sum of values of a process's memory summary, in MiB.
fn rollup(process: u32, names: &[&str]) -> f64 {
    let summary = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let kib = summary.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|name| names.contains(name))?;
        words.next()?.parse::<f64>().ok()
    });
    kib.sum::<f64>() / 1024.0
}
