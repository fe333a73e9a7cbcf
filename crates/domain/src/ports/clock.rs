//! Time and randomness.

use std::time::Instant;

use uuid::Uuid;

use crate::values::Timestamp;

/// The clock of the domain. The domain has no other source of time.
pub trait Clock: Send + Sync {
    /// Returns the present time in whole microseconds. The clock is monotonic: no result is before an earlier result,
    /// even if the clock of the machine is set back. Scheduled work would be delayed otherwise.
    fn now(&self) -> Timestamp;

    /// Makes the clock follow another one, which showed `time` at the instant `at`, instead of that of the machine. It stays monotonic.
    fn follow(&self, time: Timestamp, at: Instant) {
        let _ = (time, at);
    }

    /// Returns the time that the clock of the machine shows, which may go back. For timestamps that other machines
    /// compare with their own clocks.
    fn machine_time(&self) -> Timestamp;

    /// Advances the clock: from now on, [`Clock::now`] returns no time before `at`. Called with recorded times, so
    /// that no record lies in the future.
    fn reach(&self, at: Timestamp);
}

/// Fresh identifiers and secrets.
pub trait Ids: Send + Sync {
    /// Returns a UUID v7 that sorts after every UUID created at an earlier `now`.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// Fills `buffer` from a cryptographically secure source (seeded in tests).
    fn fill(&self, buffer: &mut [u8]);
}
