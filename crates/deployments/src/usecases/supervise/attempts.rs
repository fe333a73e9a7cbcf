//! Backoff between starts of an instance.

use crate::entities::Attempts;
use branchyard_domain::values::Timestamp;

/// Number of ends within ten minutes that count as a crash loop.
const LOOP_ENDS: usize = 20;
/// Number of consecutive starts without becoming ready that count as a crash loop.
const LOOP_STARTS: u32 = 3;
/// Number of ends within a minute from which on the delay is longer.
const MANY_ENDS: usize = 5;

/// Records an end and sets the earliest time of the next start.
///
/// A process that had been ready is started again after 200 ms, or after 2 s if it ends often. A process that was never
/// ready is started again with exponential backoff of up to a minute, with a jitter of ±20 % (`jitter`, 0 to 255).
pub(super) fn note(attempts: &mut Attempts, now: Timestamp, was_ready: bool, jitter: u8) {
    attempts.ends.retain(|end| end.plus_seconds(600) > now);
    attempts.ends.push(now);
    let surplus = attempts.ends.len().saturating_sub(LOOP_ENDS);
    attempts.ends.drain(..surplus);
    let delay_ms = if was_ready {
        attempts.failed = 0;
        let recent = attempts.ends.iter().filter(|end| end.plus_seconds(60) > now).count();
        if recent >= MANY_ENDS { 2_000 } else { 200 }
    } else {
        attempts.failed = attempts.failed.saturating_add(1);
        let seconds = 1_u64 << attempts.failed.saturating_sub(1).min(6);
        let full = seconds.min(60) * 1_000;
        full * 4 / 5 + full * 2 / 5 * u64::from(jitter) / 255
    };
    attempts.not_before = Some(now.plus_millis(delay_ms));
}

/// Returns `true` if the instance is in a crash loop.
pub(super) fn is_loop(attempts: &Attempts) -> bool {
    attempts.failed >= LOOP_STARTS || attempts.ends.len() >= LOOP_ENDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(attempts: &Attempts, now: Timestamp) -> i64 {
        (attempts.not_before.expect("a time").as_micros() - now.as_micros()) / 1_000
    }

    #[test]
    fn what_was_ready_comes_back_at_once_and_after_five_ends_a_minute_in_two_seconds() {
        let mut attempts = Attempts::default();
        for (second, expected) in [(0, 200), (1, 200), (2, 200), (3, 200), (4, 2_000), (65, 200)] {
            let now = Timestamp::from_seconds(second);
            note(&mut attempts, now, true, 9);
            assert_eq!(delay(&attempts, now), expected, "at {second} s");
        }
        assert!(!is_loop(&attempts));
    }

    #[test]
    fn what_never_was_ready_waits_twice_as_long_each_time_up_to_a_minute() {
        let now = Timestamp::from_seconds(0);
        for (jitter, part) in [(0, 0.8), (255, 1.2)] {
            let mut attempts = Attempts::default();
            for (count, seconds) in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0].into_iter().enumerate() {
                note(&mut attempts, now, false, jitter);
                let expected = format!("{:.0}", seconds * part * 1_000.0);
                assert_eq!(delay(&attempts, now).to_string(), expected);
                assert_eq!(is_loop(&attempts), count >= 2, "{count}");
            }
        }
    }

    #[test]
    fn twenty_ends_within_ten_minutes_are_a_loop() {
        let mut attempts = Attempts::default();
        for number in 0..20 {
            assert!(!is_loop(&attempts));
            note(&mut attempts, Timestamp::from_seconds(number * 30), true, 0);
        }
        assert!(is_loop(&attempts));
        note(&mut attempts, Timestamp::from_seconds(1_200), true, 0);
        assert!(!is_loop(&attempts), "the first ones are long ago");
    }
}
