//! The clock of the machine.

use std::time::Instant;

use branchyard_domain::ports::Clock;
use branchyard_domain::values::Timestamp;
use parking_lot::{Mutex, MutexGuard};

/// The clock of the machine in whole microseconds, or another one that it [follows](Clock::follow), made monotonic. If the followed clock
/// is set back, this clock runs a tenth slower than real time until that one has caught up.
#[derive(Debug)]
pub struct SystemClock {
    reached: Mutex<Reached>,
    /// The other clock that is followed.
    followed: Mutex<Option<Reached>>,
}

/// A time of the clock and the instant at which it was reached.
#[derive(Debug, Clone, Copy)]
struct Reached {
    time_micros: i64,
    at: Instant,
}

impl Reached {
    /// Returns the time at a later instant, at which the machine's clock shows `machine_micros`.
    fn go_on(&mut self, machine_micros: i64, at: Instant) -> i64 {
        let passed = self.micros_until(at);
        let least = self.time_micros.saturating_add(passed - passed / 10);
        if machine_micros >= least {
            *self = Self { time_micros: machine_micros, at };
        }
        least.max(machine_micros)
    }

    fn micros_until(&self, at: Instant) -> i64 {
        i64::try_from(at.saturating_duration_since(self.at).as_micros()).unwrap_or(i64::MAX)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        let reached = Mutex::new(Reached { time_micros: machine_micros(), at: Instant::now() });
        Self { reached, followed: Mutex::default() }
    }
}

impl SystemClock {
    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock()
    }

    /// Returns what the followed clock shows at this instant.
    fn source_micros(&self, at: Instant) -> i64 {
        let followed = *self.followed.lock();
        followed.map_or_else(machine_micros, |shown| shown.time_micros.saturating_add(shown.micros_until(at)))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut reached = self.reached();
        let now = Instant::now();
        Timestamp::from_micros(reached.go_on(self.source_micros(now), now))
    }

    fn follow(&self, time: Timestamp, at: Instant) {
        let shown = Reached { time_micros: time.as_micros(), at };
        let mut reached = self.reached();
        // What the machine's clock showed before has no meaning for records by another clock.
        if self.followed.lock().replace(shown).is_none() {
            *reached = shown;
        }
    }

    fn machine_time(&self) -> Timestamp {
        Timestamp::from_micros(machine_micros())
    }

    fn reach(&self, at: Timestamp) {
        let mut reached = self.reached();
        let now = Instant::now();
        let here = reached.go_on(self.source_micros(now), now);
        *reached = Reached { time_micros: here.max(at.as_micros()), at: now };
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where the clock of the machine is read")]
fn machine_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use branchyard_domain::ports::Clock as _;
    use branchyard_domain::values::Timestamp;

    use super::{Reached, SystemClock};

    #[test]
    fn a_clock_that_is_set_back_is_not_followed_and_time_goes_on() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut reached = Reached { time_micros: 7_000_000, at: begun };
        let mut now =
            |machine_seconds: i64, passed| reached.go_on(machine_seconds * 1_000_000, after(passed)) / 1_000_000;
        assert_eq!([now(8, 1), now(9, 2)], [8, 9], "as the machine's");
        assert_eq!([now(109, 2), now(110, 3)], [109, 110], "set forward, it is followed");
        assert_eq!([now(11, 4), now(12, 5), now(23, 16)], [110, 111, 121], "set back, it is not");
        assert_eq!(
            [now(909, 902), now(1_011, 1_004), now(1_012, 1_005)],
            [919, 1_011, 1_012],
            "a tenth slower, it is caught up with"
        );
    }

    #[test]
    fn what_is_reached_is_not_gone_back_behind() {
        let clock = SystemClock::default();
        let now = clock.now();
        clock.reach(now.plus_seconds(-60));
        assert!((now..now.plus_seconds(30)).contains(&clock.now()), "what is past changes nothing");
        clock.reach(now.plus_seconds(60));
        assert!((now.plus_seconds(60)..now.plus_seconds(90)).contains(&clock.now()));
        let machine = clock.machine_time();
        assert!((now..now.plus_seconds(30)).contains(&machine), "the clock of the machine stays as it is");
    }

    #[test]
    fn a_followed_clock_replaces_that_of_the_machine_and_stays_monotonic() {
        let clock = SystemClock::default();
        let hour = 3_600_000_000;
        let behind = clock.now().as_micros() - hour;
        clock.follow(Timestamp::from_micros(behind), Instant::now());
        let first = clock.now().as_micros();
        assert!((first - behind).abs() < 10_000_000, "at once, although it is behind");
        clock.follow(Timestamp::from_micros(behind - hour), Instant::now());
        let second = clock.now().as_micros();
        assert!(second >= first, "but not back again");
        clock.follow(Timestamp::from_micros(first + hour), Instant::now());
        assert!(clock.now().as_micros() >= first + hour);
        assert!(clock.machine_time().as_micros() > first + hour / 2, "the machine's clock is as it was");
    }
}
