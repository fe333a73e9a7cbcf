//! The retry schedule of deliveries.

use crate::entities::EventName;
use crate::ports::RetryAfter;
use crate::values::Timestamp;

/// The longest delay that a receiver can ask for with `Retry-After`, in milliseconds.
const RETRY_AFTER_MAX_MS: u64 = 86_400_000;

/// Returns the time of the next attempt, or `None` if none is left. `attempts` attempts have failed, the last one at `now`.
/// `jitter` is any random number: the delay is multiplied by a factor between 0.8 and 1.2.
pub(super) fn next_attempt(
    delays_ms: &[u64],
    event: EventName,
    attempts: u32,
    now: Timestamp,
    jitter: u32,
    retry_after: Option<RetryAfter>,
) -> Option<Timestamp> {
    let place = usize::try_from(attempts).ok().filter(|_| event != EventName::Ping)?;
    let delay = *delays_ms.get(place)?;
    // The factor is in thousandths, from 800 to 1,200, so that long delays lose no fraction.
    let factor = 800 + u64::from(jitter) * 400 / u64::from(u32::MAX);
    let planned = now.plus_millis(delay.saturating_mul(factor) / 1_000);
    let latest = now.plus_millis(RETRY_AFTER_MAX_MS);
    let asked = match retry_after {
        None => now,
        Some(RetryAfter::Seconds(seconds)) => now.plus_millis(seconds.saturating_mul(1_000)).min(latest),
        Some(RetryAfter::At(at)) => at.min(latest),
    };
    Some(planned.max(asked))
}

#[cfg(test)]
mod tests {
    use super::{EventName, RetryAfter, Timestamp, next_attempt};
    use crate::usecases::Limits;

    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    fn after(attempts: u32, jitter: u32, retry_after: Option<RetryAfter>) -> Option<i64> {
        let delays = Limits::default().hook_retry_delays_ms;
        let at = next_attempt(&delays, EventName::Push, attempts, NOW, jitter, retry_after)?;
        Some((at.as_micros() - NOW.as_micros()) / 1_000)
    }

    #[test]
    fn delays_are_those_of_the_contract_within_a_fifth() {
        let seconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
        for (attempts, seconds) in (1..).zip(seconds) {
            assert_eq!(after(attempts, 0, None), Some(seconds * 800));
            assert_eq!(after(attempts, u32::MAX, None), Some(seconds * 1_200));
            let middle = after(attempts, u32::MAX / 2, None).unwrap();
            assert!((seconds * 998..=seconds * 1_002).contains(&middle), "{middle}");
        }
        assert_eq!(seconds.iter().sum::<i64>(), (75 * 60 + 35) * 60 + 5, "the tenth");
        assert_eq!(after(10, 0, None), None);
    }

    #[test]
    fn a_ping_has_one_attempt() {
        let delays = Limits::default().hook_retry_delays_ms;
        assert_eq!(next_attempt(&delays, EventName::Ping, 1, NOW, 0, Some(RetryAfter::Seconds(1))), None);
    }

    #[test]
    fn a_receiver_can_put_off_but_never_hurry_or_add() {
        let seconds = |seconds| Some(RetryAfter::Seconds(seconds));
        assert_eq!(after(1, 0, seconds(600)), Some(600_000));
        assert_eq!(after(3, 0, seconds(600)), Some(1_440_000));
        assert_eq!(after(1, 0, seconds(u64::MAX)), Some(86_400_000), "a day at most");
        assert_eq!(after(9, u32::MAX, seconds(u64::MAX)), Some(103_680_000), "unless the plan is later");
        assert_eq!(after(1, 0, Some(RetryAfter::At(NOW.plus_seconds(60)))), Some(60_000));
        assert_eq!(after(1, 0, Some(RetryAfter::At(NOW.plus_seconds(-60)))), Some(4_000));
        assert_eq!(after(1, 0, Some(RetryAfter::At(NOW.plus_seconds(90_000)))), Some(86_400_000));
        assert_eq!(after(10, 0, seconds(1)), None);
    }
}
