//! How long something took, whatever else the machine does.

use std::time::{Duration, Instant};

/// Ticks of processor time in a second, as Linux shows them to programs.
const TICKS: u64 = 100;

/// Measures what processes do: wall-clock time, but no more than the processor time that they used meanwhile. On a machine with other work the
/// first also holds the time in which others had the processors. What waits for something else without end is not seen.
#[derive(Debug)]
pub struct Stopwatch {
    began: Instant,
    processes: Vec<u32>,
    used: Duration,
}

impl Stopwatch {
    /// Measures what this process does, all its threads.
    pub fn of_this_process() -> Self {
        Self::of(vec![std::process::id()])
    }

    /// Measures what these processes do together.
    pub fn of(processes: Vec<u32>) -> Self {
        Self { began: Instant::now(), used: processor_time(&processes), processes }
    }

    /// How long it took until now, to a hundredth of a second.
    pub fn elapsed(&self) -> Duration {
        let used = processor_time(&self.processes).saturating_sub(self.used);
        self.began.elapsed().min(used)
    }
}

#[cfg(target_os = "linux")]
fn processor_time(processes: &[u32]) -> Duration {
    let ticks = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        // The name before them may hold anything.
        let mut fields =
            stat.rsplit(") ").next().unwrap().split(' ').skip(11).map(|field| field.parse::<u64>().unwrap());
        fields.next().unwrap() + fields.next().unwrap()
    };
    Duration::from_millis(processes.iter().map(ticks).sum::<u64>() * 1_000 / TICKS)
}

/// Where nothing is known, all of the time counts.
#[cfg(not(target_os = "linux"))]
fn processor_time(_: &[u32]) -> Duration {
    use std::sync::LazyLock;
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::Stopwatch;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn it_counts_what_a_process_computes_and_not_what_it_waits() {
        let took = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let (watch, began) = (Stopwatch::of(vec![child.id()]), Instant::now());
            std::thread::sleep(Duration::from_millis(500));
            let took = watch.elapsed();
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(took <= began.elapsed());
            took
        };
        assert!(took("exec sleep 60") < Duration::from_millis(200));
        assert!(took("while :; do :; done") > Duration::from_millis(20));
    }
}
