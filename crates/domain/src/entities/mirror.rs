//! Mirrors: databases that follow a database of another server.

use branchyard_auth::PublicKey;

use super::Sealed;
use crate::values::{AccountId, DatabaseId, Timestamp};

/// How a database follows its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// The database.
    pub database_id: DatabaseId,
    /// Address of the source.
    pub url: String,
    /// Seconds between two syncs. 0 for one sync only, after which the database is an ordinary one.
    pub interval_seconds: i64,
    /// The seed of the key with which requests to the source are signed.
    pub seed: Sealed,
    /// The public half of that key.
    pub public_key: PublicKey,
    /// The user with whose rights the database is changed, and who shows as the pusher.
    pub created_by: AccountId,
    /// When the database was last found to be like its source.
    pub last_sync_at: Option<Timestamp>,
    /// Why the last sync failed, if it did.
    pub last_error: Option<String>,
    /// Number of failures since the last sync that succeeded.
    pub failures: u32,
    /// When the next sync is due. `None` if it has to be asked for.
    pub next_sync_at: Option<Timestamp>,
}

impl Mirror {
    /// Seconds between two syncs if nothing else is asked for.
    pub const DEFAULT_INTERVAL_SECONDS: i64 = 3_600;
    /// The least number of seconds between two syncs.
    pub const LEAST_INTERVAL_SECONDS: i64 = 60;
    /// The greatest number of seconds between two syncs.
    pub const GREATEST_INTERVAL_SECONDS: i64 = 2_592_000;
    /// Seconds after which a sync that fails over and over is tried again, unless its interval is longer.
    const LONGEST_PAUSE_SECONDS: i64 = 86_400;

    /// Records that the database is like its source.
    pub(crate) fn succeed(&mut self, now: Timestamp) {
        self.last_sync_at = Some(now);
        self.last_error = None;
        self.failures = 0;
        self.next_sync_at = (self.interval_seconds > 0).then(|| now.plus_seconds(self.interval_seconds));
    }

    /// Records that a sync failed. The next one comes later after each failure.
    pub(crate) fn fail(&mut self, reason: &str, now: Timestamp) {
        let doubled = self.interval_seconds.saturating_mul(1 << self.failures.min(20));
        let pause = doubled.min(Self::LONGEST_PAUSE_SECONDS).max(self.interval_seconds);
        self.last_error = Some(reason.to_owned());
        self.failures = self.failures.saturating_add(1);
        self.next_sync_at = (self.interval_seconds > 0).then(|| now.plus_seconds(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_delay_the_next_sync_up_to_a_day() {
        let at = Timestamp::from_seconds;
        let mut mirror = Mirror {
            database_id: DatabaseId::from_uuid(uuid::Uuid::nil()),
            url: String::new(),
            interval_seconds: 3_600,
            seed: Sealed { key_id: String::new(), bytes: Vec::new() },
            public_key: PublicKey::from_bytes([0; 32]),
            created_by: AccountId::from_uuid(uuid::Uuid::nil()),
            last_sync_at: None,
            last_error: None,
            failures: 0,
            next_sync_at: None,
        };
        let pauses: Vec<i64> = std::iter::from_fn(|| {
            mirror.fail("it is gone", at(0));
            mirror.next_sync_at.map(|next| next.as_seconds())
        })
        .take(7)
        .collect();
        assert_eq!(pauses, [3_600, 7_200, 14_400, 28_800, 57_600, 86_400, 86_400]);
        mirror.succeed(at(5));
        assert_eq!((mirror.failures, mirror.last_error.clone(), mirror.next_sync_at), (0, None, Some(at(3_605))));
        mirror.interval_seconds = 2_592_000;
        mirror.fail("it is gone", at(0));
        assert_eq!(mirror.next_sync_at, Some(at(2_592_000)), "never earlier than usual");
        mirror.interval_seconds = 0;
        mirror.fail("it is gone", at(0));
        assert_eq!(mirror.next_sync_at, None);
    }
}
