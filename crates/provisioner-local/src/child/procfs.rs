//! Resource usage of this process according to the operating system. Unavailable values are `None`.

use std::fs;

/// Clock ticks per second in `/proc`, which Linux fixes at 100 for user space.
const TICKS: f64 = 100.0;
const PAGE: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
}

pub(super) fn read() -> Process {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process name in parentheses may contain any character.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let of_io =
        |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse::<u64>().ok());
    Process {
        resident_bytes: resident_pages().map(|pages| pages * PAGE),
        cpu_seconds: ticks(11).zip(ticks(12)).map(|(user, system)| (user + system) / TICKS),
        read_bytes: of_io("read_bytes"),
        written_bytes: of_io("write_bytes"),
    }
}

fn resident_pages() -> Option<u64> {
    fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn this_process_is_known() {
        let process = super::read();
        assert!(process.resident_bytes.unwrap() > 1 << 20);
        assert!(process.cpu_seconds.is_some());
    }
}
