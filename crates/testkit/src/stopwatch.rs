//! A stopwatch that other work on the machine does not distort.

use std::time::{Duration, Instant};

/// Measures processes: the elapsed time, but at most the processor time that they used meanwhile. On a busy machine, the elapsed time
/// also contains the time in which other processes ran. A process that only waits is not noticed.
#[derive(Debug)]
pub struct Stopwatch {
    began: Instant,
    processes: Vec<u32>,
    used: Duration,
}

impl Stopwatch {
    /// Starts measuring this process with all its threads.
    pub fn of_this_process() -> Self {
        Self::of(vec![std::process::id()])
    }

    /// Starts measuring these processes together.
    pub fn of(processes: Vec<u32>) -> Self {
        Self { began: Instant::now(), used: processor_time(&processes), processes }
    }

    /// Returns the time until now, with a resolution of a hundredth of a second.
    pub fn elapsed(&self) -> Duration {
        let used = processor_time(&self.processes).saturating_sub(self.used);
        self.began.elapsed().min(used)
    }
}

#[cfg(target_os = "linux")]
fn processor_time(processes: &[u32]) -> Duration {
    processes.iter().map(|process| crate::proc::processor_time(*process)).sum()
}

/// Returns the elapsed time, because the processor time is not known on this system.
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
