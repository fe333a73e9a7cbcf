//! The ledger: metered use of compute and storage, with the price that applied.

use crate::values::{DeploymentId, InstanceId, Usd};
use branchyard_domain::values::{AccountId, Timestamp};

/// The resources that are metered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metered {
    /// A process that serves or drains.
    Compute,
    /// A reserved volume.
    Storage,
}

/// An uninterrupted use of one resource. A closed interval never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The account that pays.
    pub owner_id: AccountId,
    /// The deployment that used the resource.
    pub deployment_id: DeploymentId,
    /// The instance that used the resource.
    pub instance_id: InstanceId,
    /// Index of that instance.
    pub instance_index: u32,
    /// The resource.
    pub kind: Metered,
    /// Id of the instance type or the storage option.
    pub type_id: String,
    /// Price per hour.
    pub rate: Usd,
    /// Begin of the interval.
    pub opened_at: Timestamp,
    /// The last time at which the process was proven alive. Only for [`Metered::Compute`].
    pub proven_at: Option<Timestamp>,
    /// End of the interval. `None` while the interval is open.
    pub closed_at: Option<Timestamp>,
}

fn millis(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(1_000)
}

impl Interval {
    /// Returns the whole milliseconds of the interval that lie between `from` and `to`. An open interval counts up to
    /// `now`. Returns 0 if the clock was set back to before the begin.
    pub fn millis_within(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> i64 {
        let end = millis(self.closed_at.unwrap_or(now).min(to));
        (end - millis(self.opened_at.max(from))).max(0)
    }

    /// Returns the price of [`Interval::millis_within`].
    pub fn amount_within(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> Usd {
        self.rate.over_millis(self.millis_within(from, to, now))
    }

    /// Returns the end of the interval if it is closed at `now`. The end is never before the begin.
    pub fn end_at(&self, now: Timestamp) -> Timestamp {
        now.max(self.opened_at)
    }
}
