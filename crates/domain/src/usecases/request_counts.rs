//! Requests of users, counted by all servers with the same metadata store.

use super::Inner;
use crate::errors::PortError;
use crate::ports::{Durability, RequestWindow, WriteKeys};
use crate::values::AccountId;

/// Use cases of counted requests.
pub struct RequestCounts<'a>(&'a Inner);

impl<'a> RequestCounts<'a> {
    /// Length of a window, in seconds.
    pub const WINDOW_SECONDS: i64 = 3_600;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Adds requests of a user that this server has counted, and returns what all servers have counted in the user's window. The window
    /// begins with the first request. A crash of the metadata store may lose what was added last.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn add(&self, user: AccountId, requests: u32) -> Result<RequestWindow, PortError> {
        let now = self.0.now();
        let ended = now.plus_seconds(-Self::WINDOW_SECONDS);
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let window = tx.request_counts().add(user, requests, ended, now)?;
        if window.began_at == now {
            tx.request_counts().purge(ended)?;
        }
        tx.commit(Durability::Unsynced)?;
        Ok(window)
    }
}
