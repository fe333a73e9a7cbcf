//! Mirrors.

use super::Result;
use crate::entities::Mirror;
use crate::values::{DatabaseId, Timestamp};

/// The repository of mirrors. A database that is one has the flag [`crate::entities::Database::is_mirror`], too.
pub trait MirrorRepository {
    /// Adds the mirror of a database.
    fn add(&mut self, mirror: &Mirror) -> Result<()>;
    /// Returns the mirror of a database.
    fn get(&mut self, database: DatabaseId) -> Result<Option<Mirror>>;
    /// Replaces the mirror of a database. Returns `false` if it has none.
    fn update(&mut self, mirror: &Mirror) -> Result<bool>;
    /// Removes the mirror of a database. Returns `true` if it had one.
    fn remove(&mut self, database: DatabaseId) -> Result<bool>;
    /// Lists mirrors whose next sync is due at `now`, the longest due first.
    fn due(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Mirror>>;
    /// Lists mirrors whose seed is sealed under another key than `key_id`, ascending by their databases, after `after`.
    fn list_sealed_otherwise(&mut self, key_id: &str, after: Option<DatabaseId>, limit: usize) -> Result<Vec<Mirror>>;
    /// Counts the mirrors by the id of the key that their seed is sealed under.
    fn count_by_key(&mut self) -> Result<Vec<(String, u64)>>;
}
