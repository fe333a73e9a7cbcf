//! Time and randomness.

use uuid::Uuid;

use crate::values::Timestamp;

/// The time. There is no other way to learn it in the domain.
pub trait Clock: Send + Sync {
    /// Now, in whole microseconds. Never before what was given earlier, so that what is to be done at a time is not put off when somebody sets
    /// the machine's clock back.
    fn now(&self) -> Timestamp;

    /// From now on, [`Clock::now`] gives nothing before `at`: what others recorded is not to lie ahead.
    fn reach(&self, at: Timestamp);
}

/// Fresh identifiers and secrets.
pub trait Ids: Send + Sync {
    /// A UUID v7 that sorts after those made before it at an earlier `now`.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// Fills `buffer` from a cryptographically secure source (seeded in tests).
    fn fill(&self, buffer: &mut [u8]);
}
