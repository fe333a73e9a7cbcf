//! Time and randomness.

use uuid::Uuid;

use crate::values::Timestamp;

/// The time. There is no other way to learn it in the domain.
pub trait Clock: Send + Sync {
    /// Now, in whole microseconds.
    fn now(&self) -> Timestamp;
}

/// Fresh identifiers and secrets.
pub trait Ids: Send + Sync {
    /// A UUID v7 that sorts after those made before it at an earlier `now`.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// Fills `buffer` from a cryptographically secure source (seeded in tests).
    fn fill(&self, buffer: &mut [u8]);
}
