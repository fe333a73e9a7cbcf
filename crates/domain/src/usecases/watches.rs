//! What open pages follow: whether it changed, and whether the rights to see it changed.

use super::Inner;
use crate::errors::PortError;
use crate::ports::{WatchKey, WatchMarks};

/// Use cases of what open pages follow.
pub struct Watches<'a>(&'a Inner);

impl<'a> Watches<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the version of the store, if it can be determined cheaply. The marks stay the same while it does.
    pub fn version(&self) -> Option<u64> {
        self.0.ports.metadata.version()
    }

    /// Returns a mark for each of `keys` that exists, which changes with it. Checks no permissions: a mark is compared, and never shown.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn marks(&self, keys: &[WatchKey]) -> Result<WatchMarks, PortError> {
        Ok(self.0.ports.metadata.watch_marks(keys)?)
    }
}
