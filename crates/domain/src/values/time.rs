//! Points in time.

/// A point in time, in whole microseconds since 1970-01-01T00:00:00Z. Both metadata stores keep exactly this
/// precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Creates a timestamp from whole seconds since the Unix epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Adds `millis` milliseconds, saturating at the bounds.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        let micros = millis.saturating_mul(1_000);
        Self(self.0.saturating_add_unsigned(micros))
    }

    /// Adds `seconds`, which may be negative, saturating at the bounds.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }
}
