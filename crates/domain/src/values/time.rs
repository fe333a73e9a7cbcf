//! Points in time.

/// Whole microseconds since 1970-01-01T00:00:00Z. Both metadata stores keep exactly this precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From whole seconds since the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Later by `millis` thousandths of a second.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        let micros = millis.saturating_mul(1_000);
        Self(self.0.saturating_add_unsigned(micros))
    }

    /// Later by `seconds` (earlier when negative).
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }
}
