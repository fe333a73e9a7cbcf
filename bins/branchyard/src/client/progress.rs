//! What a client shows while its user waits: on a terminal, a line that changes.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_remote_client::Progress;

/// Time between two changes of the line.
const STEP: Duration = Duration::from_millis(200);

/// Writes the line, in place of the last one.
fn show(line: &str) {
    // A terminal that is gone is no reason to end.
    let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
}

fn clear() {
    show("");
}

fn is_shown() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns a number of bytes with a unit.
pub(super) fn size(bytes: u64) -> String {
    let mebibytes = bytes / (1 << 20);
    match mebibytes {
        0 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        1..1024 => format!("{mebibytes}.{} MiB", bytes % (1 << 20) * 10 / (1 << 20)),
        _ => format!("{}.{} GiB", bytes >> 30, bytes % (1 << 30) * 10 / (1 << 30)),
    }
}

/// Shows that something is going on, until it is dropped.
pub(super) struct Waiting {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    pub(super) fn start(what: String) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (ended, began) = (Arc::clone(&done), Instant::now());
        let thread = is_shown().then(|| {
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    show(&format!("{what} … {} s", began.elapsed().as_secs()));
                    thread::park_timeout(STEP);
                }
                clear();
            })
        });
        Self { done, thread }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The progress of a clone.
pub(super) struct CloneProgress {
    began: Instant,
    shown: Option<Instant>,
}

impl CloneProgress {
    pub(super) fn start() -> Self {
        Self { began: Instant::now(), shown: None }
    }

    /// Shows how far it is. `before` is what an earlier run had brought.
    pub(super) fn at(&mut self, progress: Progress, before: u64) {
        if !is_shown() || self.shown.is_some_and(|shown| shown.elapsed() < STEP) {
            return;
        }
        self.shown = Some(Instant::now());
        show(&line(progress, before, self.began.elapsed()));
    }

    pub(super) fn end(&self) {
        if is_shown() {
            clear();
        }
    }
}

/// How much there is in all is known at the end only: what arrives names more.
fn line(Progress { chunks, bytes, waiting }: Progress, before: u64, took: Duration) -> String {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let left = match chunks {
        0 => String::new(),
        _ => format!(", at least {} s left", waiting.saturating_mul(ms) / chunks / 1_000),
    };
    let rate = size(bytes.saturating_mul(1_000) / ms);
    format!("{} objects, {} more are known, {}, {rate}/s{left}", before + chunks, waiting, size(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_progress_have_units() {
        let at = |chunks, bytes, waiting, ms| line(Progress { chunks, bytes, waiting }, 5, Duration::from_millis(ms));
        assert_eq!(at(0, 0, 7, 0), "5 objects, 7 more are known, 0 KiB, 0 KiB/s");
        assert_eq!(
            at(100, 3 << 20, 200, 2_000),
            "105 objects, 200 more are known, 3.0 MiB, 1.5 MiB/s, at least 4 s left"
        );
        assert_eq!([size(1), size((1 << 30) + (1 << 29))], ["1 KiB", "1.5 GiB"]);
    }
}
