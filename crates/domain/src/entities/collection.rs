//! Garbage collections of databases.

use crate::values::Timestamp;

/// Seconds before a failed collection is tried again: the first delay, and the maximum of the exponential backoff.
const RETRY_SECONDS: i64 = 10;
const RETRY_SECONDS_MAX: i64 = 3_600;

/// What is recorded of the garbage collections of a database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectionRecord {
    /// When the next collection is due. `None` if there is nothing to collect.
    pub due_at: Option<Timestamp>,
    /// Whether the collection goes before those that are not urgent.
    pub is_urgent: bool,
    /// Number of requests for a collection so far. A request during a collection is not answered by it.
    pub requests: u64,
    /// Number of collections that failed since the last one that took effect.
    pub failures: u32,
    /// When a failed collection may be tried again.
    pub retry_at: Option<Timestamp>,
    /// The holder that has the database to itself, and the end of its lease. No operation of the database begins
    /// before that.
    pub lease: Option<(String, Timestamp)>,
    /// Since when the log of refs of the database is complete, if later than the creation of the database.
    pub history_from: Option<Timestamp>,
}

impl CollectionRecord {
    /// Requests a collection at `at`, or earlier if one is due earlier. An urgent request ends the wait after a
    /// failure.
    pub fn request(&mut self, at: Timestamp, is_urgent: bool) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
        self.is_urgent |= is_urgent;
        self.requests = self.requests.saturating_add(1);
        if is_urgent {
            self.retry_at = None;
        }
    }

    /// Returns `true` if a collection may begin at `now`.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.due_at.is_some_and(|at| at <= now) && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Records a collection that took effect. `answered` is the number of requests that it answered, `next` the time
    /// of the next collection if there were no more of them, and `later` the time if there were.
    pub fn finish(&mut self, answered: u64, next: Option<Timestamp>, later: Timestamp) {
        (self.failures, self.retry_at) = (0, None);
        if self.requests == answered {
            (self.due_at, self.is_urgent) = (next, false);
        } else if !self.is_urgent {
            self.due_at = Some(later);
        }
    }

    /// Records a collection that failed at `now`. It stays due, and is tried again after a delay that doubles with
    /// each failure.
    pub fn fail(&mut self, now: Timestamp) {
        let delay = RETRY_SECONDS.saturating_mul(1 << self.failures.min(20));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.plus_seconds(delay.min(RETRY_SECONDS_MAX)));
    }

    /// Leases the database to `holder` until `until`. Returns `false` if another holder has a lease at `now`.
    pub fn lease(&mut self, holder: &str, now: Timestamp, until: Timestamp) -> bool {
        if self.lease.as_ref().is_some_and(|(other, end)| other != holder && *end > now) {
            return false;
        }
        self.lease = Some((holder.to_owned(), until));
        true
    }

    /// Extends a lease of `holder` that has not ended. Returns `false` if there is none.
    pub fn extend_lease(&mut self, holder: &str, now: Timestamp, until: Timestamp) -> bool {
        let held = self.lease.as_mut().filter(|(other, end)| other == holder && *end > now);
        held.map(|(_, end)| *end = until).is_some()
    }

    /// Ends the lease of `holder`.
    pub fn release(&mut self, holder: &str) {
        self.lease.take_if(|(other, _)| other == holder);
    }
}

#[cfg(test)]
mod tests {
    use super::CollectionRecord;
    use crate::values::Timestamp;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn the_earliest_request_counts_and_later_ones_are_not_lost() {
        let mut record = CollectionRecord::default();
        record.request(at(50), false);
        record.request(at(90), false);
        assert!(!record.is_due(at(49)) && record.is_due(at(50)));
        let answered = record.requests;
        record.request(at(95), false);
        record.finish(answered, None, at(200));
        assert_eq!(record.due_at, Some(at(200)), "a request came after the collection looked");
        record.finish(record.requests, Some(at(300)), at(200));
        assert_eq!((record.due_at, record.is_urgent), (Some(at(300)), false));
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_an_hour_unless_a_request_is_urgent() {
        let mut record = CollectionRecord::default();
        record.request(at(0), false);
        let delays: Vec<i64> = (0..11)
            .map(|_| {
                record.fail(at(0));
                record.retry_at.unwrap().as_seconds()
            })
            .collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
        record.request(at(1), false);
        assert!(!record.is_due(at(3_599)) && record.is_due(at(3_600)));
        record.request(at(1), true);
        assert!(record.is_due(at(1)));
    }

    #[test]
    fn a_lease_that_ended_is_not_extended() {
        let mut record = CollectionRecord::default();
        assert!(record.lease("a", at(0), at(30)));
        assert!(!record.lease("b", at(29), at(60)));
        assert!(record.extend_lease("a", at(29), at(40)));
        assert!(!record.extend_lease("a", at(40), at(70)));
        assert!(record.lease("b", at(40), at(70)));
        record.release("a");
        assert!(record.lease.is_some());
        record.release("b");
        assert_eq!(record.lease, None);
    }
}
