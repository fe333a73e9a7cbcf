//! The store of databases: a folder, or an object store of a cloud.
#![doc = include_str!("../README.md")]

mod cloud;
mod digest;
mod folder;
mod options;
mod url;

use std::sync::Arc;

use branchyard_domain::ports::{DatabaseStore, StoreError};

pub use options::StoreOptions;
pub use url::{StoreUrl, StoreUrlError};

use cloud::CloudStore;
use folder::FolderStore;

/// Opens a store. A folder is created if it does not exist; an object store is not asked yet.
///
/// # Errors
/// [`StoreError::Rejected`] if the options do not fit; [`StoreError::Unavailable`] if the folder cannot be used.
pub fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn DatabaseStore>, StoreError> {
    match url.folder() {
        Some(folder) => Ok(Arc::new(FolderStore::open(folder)?)),
        None => Ok(Arc::new(CloudStore::open(url, options)?)),
    }
}
