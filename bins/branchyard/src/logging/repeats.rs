//! Lines that say the same again and again, such as those of an outage.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Least time between two equal lines.
const EVERY: Duration = Duration::from_secs(60);
/// Lines that are remembered. Beyond it, those whose time is over are forgotten, and then all.
const REMEMBERED_MAX: usize = 1_000;

/// Decides which lines are left out because an equal one was written less than a minute ago.
#[derive(Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    written: Mutex<HashMap<u64, Written>>,
}

/// A line that was written.
struct Written {
    at: Instant,
    /// Number of equal lines that were left out since.
    left_out: u64,
}

impl Repeats {
    /// Returns the number of equal lines that were left out since the last one, or `None` if this line is to be left out too. `parts` is
    /// all of the line but for its time.
    pub(super) fn admit(&self, parts: &[&[u8]], now: Instant) -> Option<u64> {
        let line = self.hasher.hash_one(parts);
        let mut written = self.written.lock();
        if let Some(last) = written.get_mut(&line)
            && now.duration_since(last.at) < EVERY
        {
            last.left_out += 1;
            return None;
        }
        let left_out = written.remove(&line).map_or(0, |last| last.left_out);
        if written.len() >= REMEMBERED_MAX {
            written.retain(|_, last| now.duration_since(last.at) < EVERY);
        }
        if written.len() >= REMEMBERED_MAX {
            written.clear();
        }
        written.insert(line, Written { at: now, left_out: 0 });
        Some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_written_once_a_minute_with_their_number() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        let admit =
            |line: &str, seconds| repeats.admit(&[b"WARN", line.as_bytes()], start + Duration::from_secs(seconds));
        assert_eq!(admit("gone", 0), Some(0));
        assert!((1..60).all(|second| admit("gone", second).is_none()));
        assert_eq!(admit("another", 1), Some(0));
        assert_eq!(admit("gone", 60), Some(59));
        assert_eq!(admit("gone", 61), None);
        assert_eq!(admit("gone", 120), Some(1));
    }

    #[test]
    fn memory_is_bounded() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for line in 0..3 * REMEMBERED_MAX {
            assert_eq!(repeats.admit(&[line.to_string().as_bytes()], now), Some(0));
            assert!(repeats.written.lock().len() <= REMEMBERED_MAX);
        }
    }
}
