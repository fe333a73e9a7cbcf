//! Defaults derived from the machine's resources.

use std::fs;

/// Upper bound of the default, in bytes.
const MOST: u64 = 1 << 30;
/// Memory in bytes to assume if the system does not report its memory.
const UNKNOWN: u64 = 1 << 30;

/// Returns a quarter of the memory available to this process, in bytes. The result is at least 32 MiB, which is the minimum of
/// the setting, and at most 1 GiB.
pub(super) fn share_of_memory() -> usize {
    // The memory limit of a container may be lower than the machine's memory.
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    share(memory_bytes(), &container)
}

/// Returns the memory of this machine in bytes.
#[cfg(target_os = "linux")]
fn memory_bytes() -> Option<u64> {
    use procfs::Current as _;
    procfs::Meminfo::current().ok().map(|memory| memory.mem_total)
}

/// Returns `None`, because the memory of the machine is unknown on this system.
#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> Option<u64> {
    None
}

fn share(machine: Option<u64>, container: &str) -> usize {
    let machine = machine.unwrap_or(UNKNOWN);
    let memory = container.trim().parse::<u64>().map_or(machine, |bytes| bytes.min(machine));
    usize::try_from((memory / 4).clamp(32 << 20, MOST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn statements_share_a_quarter_of_the_memory_up_to_a_bound() {
        for (mib, container, share_mib) in [
            (16 << 10, "max\n", 1024),
            (2 << 10, "max\n", 512),
            (2 << 10, "1073741824\n", 256),
            (2 << 10, "8589934592\n", 512),
            (64, "", 32),
        ] {
            assert_eq!(share(Some(mib << 20), container), share_mib << 20, "{mib} {container}");
        }
        assert_eq!(share(None, ""), 256 << 20);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_of_the_machine_is_known() {
        assert!(super::memory_bytes().unwrap() > 64 << 20);
    }
}
