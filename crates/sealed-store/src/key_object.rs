//! Objects `keys/<id>`: data keys as the metadata store has them, for when it was restored to a time at which it did not have them yet.

use branchyard_domain::ports::{DatabaseStore, StoreError, WrappedDataKey};
use branchyard_domain::values::{DataKeyId, DataKeyScope, ObjectKey};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

/// The folder of data keys in the store.
const KEYS: &str = "keys";
/// Most bytes of such an object.
const OBJECT_MAX: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    scope: String,
    master_id: String,
    wrapped: String,
}

fn key(id: DataKeyId) -> Result<ObjectKey, StoreError> {
    ObjectKey::parse(&format!("{KEYS}/{id}")).map_err(|error| StoreError::rejected("report this fault", error))
}

/// Stores a data key, in place of how it was wrapped before.
pub(crate) fn store(store: &dyn DatabaseStore, data_key: &WrappedDataKey) -> Result<(), StoreError> {
    let content = Content {
        scope: data_key.scope.to_string(),
        master_id: data_key.master_id.clone(),
        wrapped: BASE64.encode(&data_key.wrapped),
    };
    let bytes = serde_json::to_vec(&content).map_err(|error| StoreError::rejected("report this fault", error))?;
    store.replace(&key(data_key.id)?, &bytes)
}

/// Returns a data key, or `None` if the store does not have it.
pub(crate) fn read(store: &dyn DatabaseStore, id: DataKeyId) -> Result<Option<WrappedDataKey>, StoreError> {
    let key = key(id)?;
    let bytes = match store.read_small(&key, OBJECT_MAX) {
        Err(StoreError::NotFound(_)) => return Ok(None),
        read => read?,
    };
    let parse = || {
        let content: Content = serde_json::from_slice(&bytes).ok()?;
        let scope = DataKeyScope::parse(&content.scope).ok()?;
        let wrapped = BASE64.decode(content.wrapped.as_bytes()).ok()?;
        Some(WrappedDataKey { id, scope, master_id: content.master_id, wrapped })
    };
    parse().map(Some).ok_or_else(|| StoreError::damaged(&key, "it is not a data key"))
}

/// Removes a data key.
pub(crate) fn remove(store: &dyn DatabaseStore, id: DataKeyId) -> Result<(), StoreError> {
    store.remove(&[key(id)?])
}
