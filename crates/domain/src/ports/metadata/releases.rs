//! Releases.

use super::Result;
use crate::entities::Release;
use crate::values::{DatabaseId, RefName, Timestamp};

/// Releases.
pub trait ReleaseRepository {
    /// Adds a release. `Taken` when its tag has one.
    fn add(&mut self, database: DatabaseId, release: &Release) -> Result<()>;
    /// The release of a tag.
    fn get(&mut self, database: DatabaseId, tag: &RefName) -> Result<Option<Release>>;
    /// Releases, newest first (then by tag), after that pair.
    fn list(&mut self, database: DatabaseId, after: Option<(Timestamp, &str)>, limit: usize) -> Result<Vec<Release>>;
    /// Changes title, description and `updated_at` of the release of a tag; gives whether there is one.
    fn update(&mut self, database: DatabaseId, release: &Release) -> Result<bool>;
    /// Removes the release of a tag; gives whether there was one.
    fn remove(&mut self, database: DatabaseId, tag: &RefName) -> Result<bool>;
}
