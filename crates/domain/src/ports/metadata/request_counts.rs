//! Requests of users, counted by all servers with the same metadata store.

use super::Result;
use crate::values::{AccountId, Timestamp};

/// The repository of counted requests.
pub trait RequestCountRepository {
    /// Adds requests of a user, and returns the user's window. A window that began at or before `ended` is over: the requests begin another
    /// one at `now`.
    fn add(&mut self, user: AccountId, requests: u32, ended: Timestamp, now: Timestamp) -> Result<RequestWindow>;
    /// Removes up to 100 windows that began at or before `ended`. Leaves out those that another transaction counts in.
    fn purge(&mut self, ended: Timestamp) -> Result<()>;
}

/// The requests of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestWindow {
    /// The time of the first request.
    pub began_at: Timestamp,
    /// Number of requests.
    pub requests: u64,
}
