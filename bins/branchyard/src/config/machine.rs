//! Defaults derived from the machine's resources.

use std::fs;

/// Upper bound of the default, in bytes.
const MOST: u64 = 1 << 30;
/// Memory in bytes to assume if the system does not report its memory.
const UNKNOWN: u64 = 1 << 30;

/// Returns a quarter of the memory available to this process, in bytes. The result is at least 32 MiB, which is the minimum of
/// the setting, and at most 1 GiB.
pub(super) fn share_of_memory() -> usize {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    // The memory limit of a container may be lower than the machine's memory.
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    share(&meminfo, &container)
}

fn share(meminfo: &str, container: &str) -> usize {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let machine = total.map_or(UNKNOWN, |kib| kib.saturating_mul(1024));
    let memory = container.trim().parse::<u64>().map_or(machine, |bytes| bytes.min(machine));
    usize::try_from((memory / 4).clamp(32 << 20, MOST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn statements_share_a_quarter_of_the_memory_up_to_a_bound() {
        let meminfo = |kib: u64| format!("MemTotal:       {kib} kB\nMemFree:  1 kB\n");
        for (kib, container, share_mib) in [
            (16 << 20, "max\n", 1024),
            (2 << 20, "max\n", 512),
            (2 << 20, "1073741824\n", 256),
            (2 << 20, "8589934592\n", 512),
            (64 << 10, "", 32),
        ] {
            assert_eq!(share(&meminfo(kib), container), share_mib << 20, "{kib} {container}");
        }
        assert_eq!(share("", ""), 256 << 20);
    }
}
