//! A clock under the control of a test.

use std::sync::atomic::{AtomicI64, Ordering};

use branchyard_domain::ports::Clock;
use branchyard_domain::values::Timestamp;

/// A clock that stands still unless a test advances it. It can also advance by a fixed step with every reading.
#[derive(Debug)]
pub struct FixedClock {
    now: AtomicI64,
    step: AtomicI64,
    /// Microseconds by which the clock is ahead of that of the machine.
    lead: AtomicI64,
}

impl Default for FixedClock {
    /// Creates a clock that stands at 2026-01-02T03:04:05.678901Z.
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_767_323_045_678_901))
    }
}

impl FixedClock {
    /// Creates a clock that stands at a time.
    pub const fn at(time: Timestamp) -> Self {
        Self { now: AtomicI64::new(time.as_micros()), step: AtomicI64::new(0), lead: AtomicI64::new(0) }
    }

    /// Sets the time, which may be in the past.
    pub fn set(&self, time: Timestamp) {
        self.now.store(time.as_micros(), Ordering::SeqCst);
    }

    /// Advances the clock by `seconds`.
    pub fn advance_seconds(&self, seconds: i64) {
        self.now.fetch_add(seconds.saturating_mul(1_000_000), Ordering::SeqCst);
    }

    /// Sets the clock of the machine back by `seconds`. Time goes on from where it was.
    pub fn set_machine_back_seconds(&self, seconds: i64) {
        self.lead.fetch_add(seconds.saturating_mul(1_000_000), Ordering::SeqCst);
    }

    /// Advances the clock by `micros` microseconds after each reading from now on. 0 stops the clock.
    pub fn step_micros(&self, micros: i64) {
        self.step.store(micros, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.fetch_add(self.step.load(Ordering::SeqCst), Ordering::SeqCst))
    }

    fn machine_time(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst) - self.lead.load(Ordering::SeqCst))
    }

    fn reach(&self, at: Timestamp) {
        self.now.fetch_max(at.as_micros(), Ordering::SeqCst);
    }
}
