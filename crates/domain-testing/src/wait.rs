//! Waiting for the effect of another thread or process.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A limit for [`wait_until`] and [`wait_for`] that a correct implementation does not reach, even on a slow and busy machine.
pub const AMPLE: Duration = Duration::from_secs(300);

/// Time between the first two probes. It doubles from probe to probe.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Calls `holds` until it returns `true`. Panics with `what` if it does not within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    wait_for(what, limit, || if holds() { Ok(()) } else { Err("it does not hold") });
}

/// Calls `probe` until it returns `Ok`, and returns the value. Panics with `what` and the last error if that takes longer than `limit`.
#[track_caller]
pub fn wait_for<T, E: Display>(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match probe() {
            Ok(value) => return value,
            Err(error) => assert!(began.elapsed() < limit, "{what}: not within {limit:?}: {error}"),
        }
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Aborts the process if it is not dropped within its limit. Guards a test of a call that nothing can interrupt, whose thread a panic of
/// another thread would not end.
pub struct Watchdog {
    _dropped: mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts a watchdog with the limit [`AMPLE`] for the test of this thread.
    pub fn start() -> Self {
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        let (_dropped, alive) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if alive.recv_timeout(AMPLE) == Err(mpsc::RecvTimeoutError::Timeout) {
                // The error stream, because the output of the test is captured and lost.
                let _ = writeln!(std::io::stderr(), "{name} hangs: not over within {AMPLE:?}");
                std::process::abort();
            }
        });
        Self { _dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::{AMPLE, wait_for, wait_until};
    use std::time::Duration;

    #[test]
    fn it_returns_the_first_value() {
        let mut probes = 0;
        let value = wait_for("three probes", AMPLE, || {
            probes += 1;
            if probes == 3 { Ok(probes) } else { Err(probes) }
        });
        assert_eq!((value, probes), (3, 3));
    }

    #[test]
    #[should_panic(expected = "the impossible: not within 0ns: it does not hold")]
    fn it_panics_after_the_limit() {
        wait_until("the impossible", Duration::ZERO, || false);
    }
}
