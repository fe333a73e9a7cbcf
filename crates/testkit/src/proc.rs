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

/// Returns the processes that a process has started, and those that they have started, parents first.
pub fn descendants(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let ids = |list: String| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>();
    let children: Vec<u32> = lists.flat_map(ids).collect();
    children.into_iter().flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}

/// Returns the command line of a process, with a space after each argument. Empty if the process has ended.
pub fn command_line(process: u32) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}
