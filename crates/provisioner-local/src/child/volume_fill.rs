//! Whether the volume of an instance is full.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The part of the volume, as a divisor, that has to become free before a volume counts as no longer full although no write
/// has succeeded since one failed.
const FREED: u64 = 100;

/// The fill state of a volume.
///
/// A volume is full if its databases take up its size, or if a write failed for lack of space: the file system may be full
/// earlier, and a file cannot grow beyond the size of the volume.
#[derive(Default)]
pub(crate) struct VolumeFill {
    /// Whether the databases take up the whole volume. Writes are then refused.
    is_used_up: AtomicBool,
    /// Whether a write succeeded since the last measurement.
    wrote: AtomicBool,
    state: Mutex<FillState>,
}

#[derive(Default)]
struct FillState {
    /// Whether a write failed for lack of space, and none has succeeded since.
    was_refused: bool,
    /// Bytes in use at the first measurement after that.
    used_when_refused: Option<u64>,
    /// The state that was last reported to the server. `None` until the volume was full once.
    told: Option<bool>,
}

impl FillState {
    /// Returns the state if it has to be reported to the server.
    fn news(&mut self, is_full: bool) -> Option<bool> {
        if self.told.unwrap_or(false) == is_full {
            return None;
        }
        self.told = Some(is_full);
        self.told
    }
}

impl VolumeFill {
    /// Returns `true` if the databases take up the whole volume.
    pub(crate) fn is_used_up(&self) -> bool {
        self.is_used_up.load(Ordering::Relaxed)
    }

    /// Returns the state that was last reported, for a server that connects.
    pub(crate) fn last_told(&self) -> Option<bool> {
        self.state.lock().told
    }

    /// Records a write that succeeded.
    pub(crate) fn wrote(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// Records a write that failed for lack of space. Returns the state if it changed.
    pub(crate) fn was_refused(&self) -> Option<bool> {
        self.wrote.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.was_refused = true;
        state.used_when_refused = None;
        state.news(true)
    }

    /// Records a measurement of the bytes in use. Returns the state if it changed.
    pub(crate) fn measured(&self, used: u64, volume: u64) -> Option<bool> {
        let is_used_up = used >= volume;
        self.is_used_up.store(is_used_up, Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.was_refused {
            let before = *state.used_when_refused.get_or_insert(used);
            let has_room = used.saturating_add(volume / FREED) <= before;
            state.was_refused = !(has_room || self.wrote.swap(false, Ordering::Relaxed));
        }
        let is_full = is_used_up || state.was_refused;
        state.news(is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::VolumeFill;

    #[test]
    fn a_volume_is_full_while_it_is_used_up() {
        let fill = VolumeFill::default();
        assert_eq!((fill.measured(99, 100), fill.last_told()), (None, None));
        assert_eq!((fill.measured(100, 100), fill.is_used_up()), (Some(true), true));
        assert_eq!((fill.measured(101, 100), fill.last_told()), (None, Some(true)));
        assert_eq!((fill.measured(99, 100), fill.is_used_up()), (Some(false), false));
        assert_eq!(fill.last_told(), Some(false));
    }

    #[test]
    fn a_refused_write_fills_it_until_one_succeeds_or_there_is_room() {
        let fill = VolumeFill::default();
        fill.wrote();
        assert_eq!((fill.was_refused(), fill.was_refused()), (Some(true), None));
        assert!(!fill.is_used_up(), "other writes may still fit");
        assert_eq!((fill.measured(900, 1_000), fill.measured(900, 1_000)), (None, None));
        fill.wrote();
        assert_eq!(fill.measured(900, 1_000), Some(false));
        assert_eq!((fill.was_refused(), fill.measured(900, 1_000)), (Some(true), None));
        assert_eq!((fill.measured(891, 1_000), fill.measured(890, 1_000)), (None, Some(false)));
        assert_eq!((fill.was_refused(), fill.measured(1_000, 1_000)), (Some(true), None));
        fill.wrote();
        assert_eq!(fill.measured(1_000, 1_000), None, "used up");
    }
}
