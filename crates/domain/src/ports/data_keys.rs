//! The keys under which objects of the store are sealed, as the metadata store has them: wrapped by a master key that it does not have.

use super::metadata::MetadataError;
use crate::values::{DataKeyId, DataKeyScope};

/// A data key that only the master key opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedDataKey {
    /// The id.
    pub id: DataKeyId,
    /// What the key is for.
    pub scope: DataKeyScope,
    /// Id of the master key.
    pub master_id: String,
    /// The key as the master key wrapped it.
    pub wrapped: Vec<u8>,
}

/// The wrapped data keys of a cluster, at most one for each scope. Calls block.
pub trait DataKeys: Send + Sync {
    /// Returns a key, or `None` if there is none with this id.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    fn find(&self, id: DataKeyId) -> Result<Option<WrappedDataKey>, MetadataError>;

    /// Returns the key for new objects of a scope, or `None` if there is none yet.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    fn of_scope(&self, scope: DataKeyScope) -> Result<Option<WrappedDataKey>, MetadataError>;

    /// Adds a key if its scope has none, and returns the one that the scope has then. Of several servers that do so at once, one adds its
    /// key.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails. The key may have been added.
    fn add(&self, key: &WrappedDataKey) -> Result<WrappedDataKey, MetadataError>;

    /// Returns all keys, in the order of their ids.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    fn all(&self) -> Result<Vec<WrappedDataKey>, MetadataError>;

    /// Replaces how a key is wrapped, if it is still wrapped as in `before`. Returns `false` if it is not.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails. The key may have been wrapped anew.
    fn rewrap(&self, before: &WrappedDataKey, master_id: &str, wrapped: &[u8]) -> Result<bool, MetadataError>;

    /// Returns the keys of databases that no segment names, and no object that waits to be deleted. A database that exists keeps its
    /// key, unless `is_sealing` is `false`: then no new objects are sealed.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    fn unused(&self, is_sealing: bool) -> Result<Vec<DataKeyId>, MetadataError>;

    /// Removes a key. Returns `false` if a segment names it, or if it is absent.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    fn remove(&self, id: DataKeyId) -> Result<bool, MetadataError>;
}
