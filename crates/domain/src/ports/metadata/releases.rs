//! Releases.

use super::Result;
use crate::entities::Release;
use crate::values::{DatabaseId, RefName, Timestamp};

/// The repository of releases.
pub trait ReleaseRepository {
    /// Adds a release. Returns `MetadataError::Taken` if its tag has one.
    fn add(&mut self, database: DatabaseId, release: &Release) -> Result<()>;
    /// Returns the release of a tag.
    fn get(&mut self, database: DatabaseId, tag: &RefName) -> Result<Option<Release>>;
    /// Lists releases, newest first and then by tag, after that pair.
    fn list(&mut self, database: DatabaseId, after: Option<(Timestamp, &str)>, limit: usize) -> Result<Vec<Release>>;
    /// Updates title, description and `updated_at` of the release of a tag. Returns `false` if there is none.
    fn update(&mut self, database: DatabaseId, release: &Release) -> Result<bool>;
    /// Removes the release of a tag. Returns `true` if it existed.
    fn remove(&mut self, database: DatabaseId, tag: &RefName) -> Result<bool>;
}
