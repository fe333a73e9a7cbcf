//! Fixed-window request counters per caller, in bounded memory. The table is our own because those of `governor` grow with the
//! number of callers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use parking_lot::Mutex;

/// Number of shares of a quota. Each server may have counted one that the others do not know of, so 16 of them exceed the quota by a tenth
/// at most.
const SHARES: u32 = 160;
/// Entries per bucket. Each bucket has one lock. In a full bucket, the entry with the lowest count is replaced.
const WAYS: usize = 16;
/// With [`WAYS`], the table holds 131,072 callers in about 4 MiB.
const BUCKETS: usize = 8_192;

#[derive(Debug, Clone, Copy)]
struct WindowEntry {
    key: u128,
    began: i64,
    count: u32,
    /// Of these, those that other servers do not know of.
    unreported: u32,
}

/// A caller's quota in its current window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaState {
    /// Requests left in the window.
    pub(crate) left: u32,
    /// Seconds until the window ends.
    pub(crate) reset: i64,
    /// Whether this request exceeds the quota.
    pub(crate) over: bool,
}

/// Counts the requests of each caller. A caller's window begins with its first request.
pub(crate) struct WindowTable {
    quota: u32,
    window: i64,
    /// How many requests of a caller this server counts before it reports them to others. `None` if it counts alone.
    share: Option<u32>,
    hasher: RandomState,
    buckets: Vec<Mutex<Vec<WindowEntry>>>,
}

impl WindowTable {
    pub(crate) fn new(quota: u32, window: i64) -> Self {
        let buckets = (0..BUCKETS).map(|_| Mutex::default()).collect();
        Self { quota, window, share: None, hasher: RandomState::new(), buckets }
    }

    /// Has several servers count together.
    pub(crate) fn shared(self) -> Self {
        Self { share: Some((self.quota / SHARES).max(1)), ..self }
    }

    pub(crate) fn quota(&self) -> u32 {
        self.quota
    }

    pub(crate) fn window(&self) -> i64 {
        self.window
    }

    /// Returns a caller's quota without counting a request. `over` is set if the next request would exceed the quota.
    pub(crate) fn look(&self, key: u128, now: i64) -> QuotaState {
        self.with(key, |entries| {
            let entry = entries.iter().find(|entry| entry.key == key && self.lasts(entry, now));
            let (count, began) = entry.map_or((0, now), |entry| (entry.count, entry.began));
            QuotaState { left: self.quota - count, reset: began + self.window - now, over: count >= self.quota }
        })
    }

    /// Counts a request and returns the caller's quota after it.
    pub(crate) fn count(&self, key: u128, now: i64) -> QuotaState {
        self.with(key, |entries| {
            let at = self.place(entries, key, now);
            let Some(entry) = entries.get_mut(at) else {
                return QuotaState { left: 0, reset: self.window, over: false };
            };
            let over = entry.count >= self.quota;
            entry.count = entry.count.saturating_add(1).min(self.quota);
            entry.unreported += u32::from(!over && self.share.is_some());
            QuotaState { left: self.quota - entry.count, reset: entry.began + self.window - now, over }
        })
    }

    /// Returns the requests of a caller that have to be reported to other servers now. They then count as reported.
    pub(crate) fn take_unreported(&self, key: u128) -> Option<u32> {
        let share = self.share?;
        self.with(key, |entries| {
            let entry = entries.iter_mut().find(|entry| entry.key == key && entry.unreported >= share)?;
            Some(std::mem::take(&mut entry.unreported))
        })
    }

    /// Takes over what all servers have counted in a caller's window, and returns the caller's quota then.
    pub(crate) fn learn(&self, key: u128, began: i64, total: u64, now: i64) -> QuotaState {
        self.with(key, |entries| {
            let total = u32::try_from(total).unwrap_or(u32::MAX);
            let at = self.place(entries, key, now);
            if let Some(entry) = entries.get_mut(at) {
                entry.began = began;
                entry.count = total.saturating_add(entry.unreported).min(self.quota);
            }
            let left = self.quota.saturating_sub(total);
            QuotaState { left, reset: (began + self.window - now).clamp(1, self.window), over: total > self.quota }
        })
    }

    /// Returns the index of the caller's entry. Creates or resets the entry if its window is not current.
    fn place(&self, entries: &mut Vec<WindowEntry>, key: u128, now: i64) -> usize {
        let fresh = WindowEntry { key, began: now, count: 0, unreported: 0 };
        if let Some(at) = entries.iter().position(|entry| entry.key == key) {
            if !self.lasts(&entries[at], now) {
                entries[at] = fresh;
            }
            return at;
        }
        if entries.len() < WAYS {
            entries.push(fresh);
            return entries.len() - 1;
        }
        // Expired entries are replaced first, then those with the lowest count. Callers near their quota therefore stay counted.
        let weight = |entry: &WindowEntry| if self.lasts(entry, now) { entry.count.saturating_add(1) } else { 0 };
        let least = (0..entries.len()).min_by_key(|at| weight(&entries[*at])).unwrap_or_default();
        entries[least] = fresh;
        least
    }

    fn lasts(&self, entry: &WindowEntry, now: i64) -> bool {
        // Setting the clock back ends a window instead of extending it.
        (entry.began..entry.began + self.window).contains(&now)
    }

    fn with<T>(&self, key: u128, work: impl FnOnce(&mut Vec<WindowEntry>) -> T) -> T {
        // The hash is keyed, so that clients cannot choose addresses that collide.
        let hash = self.hasher.hash_one(key) % BUCKETS as u64;
        let bucket = &self.buckets[usize::try_from(hash).unwrap_or_default()];
        work(&mut bucket.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, QuotaState, WAYS, WindowTable};

    #[test]
    fn a_window_begins_with_the_first_request_and_ends() {
        let table = WindowTable::new(2, 60);
        assert_eq!(table.look(1, 100), QuotaState { left: 2, reset: 60, over: false });
        assert_eq!(table.count(1, 100), QuotaState { left: 1, reset: 60, over: false });
        assert_eq!(table.count(1, 130), QuotaState { left: 0, reset: 30, over: false });
        assert_eq!(table.count(1, 159), QuotaState { left: 0, reset: 1, over: true });
        assert_eq!(table.look(1, 159), QuotaState { left: 0, reset: 1, over: true });
        assert_eq!(table.count(2, 159).left, 1);
        assert_eq!(table.count(1, 160), QuotaState { left: 1, reset: 60, over: false });
    }

    #[test]
    fn servers_that_count_together_exceed_a_quota_by_a_tenth_at_most() {
        for (quota, servers) in [(1, 3), (50, 3), (1_000, 3), (5_000, 16)] {
            let tables: Vec<_> = (0..servers).map(|_| WindowTable::new(quota, 3_600).shared()).collect();
            let (mut all, mut served) = (0, 0);
            // Each server is asked once the quota is used up.
            for request in 0..quota * 2 + servers {
                // The first half of the requests goes to one server.
                let at = if request < quota / 2 { 0 } else { request as usize % tables.len() };
                let mut standing = tables[at].count(7, 100);
                if let Some(requests) = tables[at].take_unreported(7) {
                    all += u64::from(requests);
                    standing = tables[at].learn(7, 100, all, 100);
                }
                served += u32::from(!standing.over);
            }
            assert!(served >= quota - quota / 160 && served <= quota + quota / 10, "{served} of {quota}");
            if quota < 160 {
                assert_eq!(served, quota, "exact where a share is one request");
            }
            assert!(tables.iter().all(|table| table.look(7, 100).over || quota >= 160));
            assert!(!tables[0].look(7, 3_700).over, "the next window");
        }
    }

    #[test]
    fn a_clock_set_back_begins_anew() {
        let table = WindowTable::new(1, 60);
        table.count(1, 1_000);
        assert_eq!(table.count(1, 10), QuotaState { left: 0, reset: 60, over: false });
    }

    #[test]
    fn memory_is_bounded_and_whoever_uses_most_stays_counted() {
        let table = WindowTable::new(10, 60);
        for _ in 0..10 {
            table.count(7, 0);
        }
        for key in 1_000..400_000 {
            table.count(key, 0);
        }
        let kept: usize = table.buckets.iter().map(|bucket| bucket.lock().len()).sum();
        assert!(kept <= BUCKETS * WAYS, "{kept}");
        assert!(table.look(7, 0).over);
    }
}
