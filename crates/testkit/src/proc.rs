//! What Linux reports about a process in `/proc`.

use std::fs;
use std::time::Duration;

/// Ticks of processor time per second.
const TICKS: u64 = 100;

/// Returns the number in a line of `/proc/{process}/status`. The unit of memory sizes, such as `VmRSS` and `VmHWM`, is KiB.
pub fn process_status(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("no {name} in {status}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Resets the peak memory of a process, `VmHWM`.
pub fn reset_peak_memory(process: u32) {
    fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
}

/// Returns the processor time that a process has used so far, with a resolution of a hundredth of a second.
pub fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The process name before these fields may contain anything.
    let fields = stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS)
}

/// Returns the number of open sockets of a process.
pub fn open_sockets(process: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    // The file may be closed before the link is read.
    let names = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    names.filter(|name| name.as_os_str().as_encoded_bytes().starts_with(b"socket:")).count()
}
