//! The ledger: what was used, from when to when, at which price.

use crate::values::{DeploymentId, InstanceId, Usd};
use branchyard_domain::values::{AccountId, Timestamp};

/// What is metered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metered {
    /// A process that serves or drains.
    Compute,
    /// A volume that is reserved.
    Storage,
}

/// Use of one thing without a break. Never changes once closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// Who pays.
    pub owner_id: AccountId,
    /// Of which deployment.
    pub deployment_id: DeploymentId,
    /// Of which instance.
    pub instance_id: InstanceId,
    /// Its index.
    pub instance_index: u32,
    /// Compute or storage.
    pub kind: Metered,
    /// Id of the instance type or the kind of volume.
    pub type_id: String,
    /// Price of an hour.
    pub rate: Usd,
    /// Since when.
    pub opened_at: Timestamp,
    /// The last time the process was known to live; for compute.
    pub proven_at: Option<Timestamp>,
    /// Until when; `None` while it goes on.
    pub closed_at: Option<Timestamp>,
}

fn millis(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(1_000)
}

impl Interval {
    /// Whole milliseconds of it within a range, of an open one up to `now`. None if the clock was set back before its start.
    pub fn millis_within(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> i64 {
        let end = millis(self.closed_at.unwrap_or(now).min(to));
        (end - millis(self.opened_at.max(from))).max(0)
    }

    /// What they cost.
    pub fn amount_within(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> Usd {
        self.rate.over_millis(self.millis_within(from, to, now))
    }

    /// When it ends if it is closed at `now`: never before it began.
    pub fn end_at(&self, now: Timestamp) -> Timestamp {
        now.max(self.opened_at)
    }
}
