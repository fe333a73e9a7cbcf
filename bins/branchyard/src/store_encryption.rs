//! Opens the keys under which objects of the store of databases are sealed.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use branchyard_domain::ports::{DataKeys as _, DatabaseStore, Ids};
use branchyard_sealed_store::DataKeyRing;
use branchyard_storage::Store;

use crate::config::Config;

/// Opens the keys that the configuration names, or returns `None` if objects are stored as they are. `store` is the store without
/// encryption.
///
/// # Errors
/// Fails if the store has sealed objects that these settings do not open. The message names the setting.
pub(crate) fn open(
    config: &Config,
    metadata: &Arc<Store>,
    store: &Arc<dyn DatabaseStore>,
    ids: &Arc<dyn Ids>,
) -> anyhow::Result<Option<Arc<DataKeyRing>>> {
    let rows = metadata.data_keys(config.store.grace.duration());
    let masters = config.store.master_keys()?;
    if masters.is_empty() {
        if let Some(key) = rows.all()?.first() {
            bail!(
                "the store of databases has objects that are sealed under keys of master key {}; set store.encryption_key_file or \
                 store.encryption_key_command to that master key. To store new objects as they are and still open these, set \
                 store.encryption_previous_key_file or store.encryption_previous_key_command to it instead",
                key.master_id
            );
        }
        return Ok(None);
    }
    let ring = DataKeyRing::new(Arc::new(rows), Arc::clone(store), masters, Arc::clone(ids));
    ring.check().context("cannot open what is sealed in the store of databases")?;
    Ok(Some(Arc::new(ring)))
}
