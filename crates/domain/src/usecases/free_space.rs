//! The watermark of free storage, below which nothing that needs storage starts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether free storage is below the watermark. Once below, it counts as low until it has reached five quarters of the
/// watermark, so that the server does not change its mind with each write.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    /// In bytes; 0 switches the watermark off.
    watermark: u64,
    is_low: AtomicBool,
}

impl FreeSpace {
    pub(crate) fn new(watermark: u64) -> Self {
        Self { watermark, is_low: AtomicBool::new(false) }
    }

    pub(crate) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// Records a measurement in bytes. Returns the new state if the measurement changed it.
    pub(crate) fn record(&self, free: u64) -> Option<bool> {
        let was_low = self.is_low();
        let enough = if was_low { self.watermark.saturating_add(self.watermark / 4) } else { self.watermark };
        let is_low = free < enough;
        self.is_low.store(is_low, Ordering::Relaxed);
        (is_low != was_low).then_some(is_low)
    }
}

#[cfg(test)]
mod tests {
    use super::FreeSpace;

    #[test]
    fn low_from_below_the_watermark_to_five_quarters_of_it() {
        let space = FreeSpace::new(1_000);
        let changes = [2_000, 1_000, 999, 1_000, 1_249, 1_250, 1_000, 999].map(|free| space.record(free));
        assert_eq!(changes, [None, None, Some(true), None, None, Some(false), None, Some(true)]);
    }

    #[test]
    fn no_watermark_is_never_reached() {
        assert_eq!((FreeSpace::new(0).record(0), FreeSpace::new(0).is_low()), (None, false));
    }
}
