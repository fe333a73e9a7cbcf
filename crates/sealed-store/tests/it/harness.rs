//! Wrapped keys in memory, and a store over another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use branchyard_domain::ports::{DataKeys, DatabaseStore as _, MetadataError, WrappedDataKey};
use branchyard_domain::values::{DataKeyId, DataKeyScope, ObjectKey, ObjectSeal};
use branchyard_domain_testing::fakes::{MemoryDatabaseStore, SeededIds};
use branchyard_sealed_store::{DataKeyRing, KeyCommand, MasterKey, MasterKeys, SealedStore};

/// What the metadata store has.
#[derive(Default)]
pub(crate) struct MemoryDataKeys {
    rows: Mutex<BTreeMap<DataKeyId, WrappedDataKey>>,
    pub(crate) unused: Mutex<Vec<DataKeyId>>,
}

impl MemoryDataKeys {
    /// Forgets all rows, as metadata do that are restored to an earlier time.
    pub(crate) fn forget(&self) -> Vec<WrappedDataKey> {
        std::mem::take(&mut *self.rows.lock().unwrap()).into_values().collect()
    }
}

impl DataKeys for MemoryDataKeys {
    fn find(&self, id: DataKeyId) -> Result<Option<WrappedDataKey>, MetadataError> {
        Ok(self.rows.lock().unwrap().get(&id).cloned())
    }

    fn of_scope(&self, scope: DataKeyScope) -> Result<Option<WrappedDataKey>, MetadataError> {
        Ok(self.rows.lock().unwrap().values().find(|row| row.scope == scope).cloned())
    }

    fn add(&self, key: &WrappedDataKey) -> Result<WrappedDataKey, MetadataError> {
        if let Some(found) = self.of_scope(key.scope)? {
            return Ok(found);
        }
        self.rows.lock().unwrap().insert(key.id, key.clone());
        Ok(key.clone())
    }

    fn all(&self) -> Result<Vec<WrappedDataKey>, MetadataError> {
        Ok(self.rows.lock().unwrap().values().cloned().collect())
    }

    fn rewrap(&self, before: &WrappedDataKey, master_id: &str, wrapped: &[u8]) -> Result<bool, MetadataError> {
        let mut rows = self.rows.lock().unwrap();
        let Some(row) = rows.get_mut(&before.id).filter(|row| **row == *before) else { return Ok(false) };
        (row.master_id, row.wrapped) = (master_id.to_owned(), wrapped.to_owned());
        Ok(true)
    }

    fn unused(&self, _: bool) -> Result<Vec<DataKeyId>, MetadataError> {
        Ok(self.unused.lock().unwrap().clone())
    }

    fn remove(&self, id: DataKeyId) -> Result<bool, MetadataError> {
        Ok(self.rows.lock().unwrap().remove(&id).is_some())
    }
}

/// A store of objects, and the metadata that belong to it.
#[derive(Default, Clone)]
pub(crate) struct Yard {
    pub(crate) rows: Arc<MemoryDataKeys>,
    pub(crate) inner: Arc<MemoryDatabaseStore>,
}

impl Yard {
    /// Opens the store as a server with these master keys does.
    pub(crate) fn open(&self, masters: MasterKeys) -> (SealedStore<MemoryDatabaseStore>, Arc<DataKeyRing>) {
        let (rows, inner) = (Arc::clone(&self.rows) as _, Arc::clone(&self.inner) as _);
        // Each server has random numbers of its own.
        static SEED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let seed = SEED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let ring = Arc::new(DataKeyRing::new(rows, inner, masters, Arc::new(SeededIds::new(seed))));
        (SealedStore::new(Arc::clone(&self.inner), Arc::clone(&ring)), ring)
    }

    pub(crate) fn sealing(&self) -> SealedStore<MemoryDatabaseStore> {
        self.open(current(secret(1))).0
    }
}

pub(crate) fn secret(byte: u8) -> MasterKey {
    MasterKey::from_secret(&[byte; 32])
}

pub(crate) fn command(script: &str) -> MasterKey {
    MasterKey::from(KeyCommand::new(&["sh", "-c", script, "sh"].map(str::to_owned)).unwrap())
}

pub(crate) fn current(master: MasterKey) -> MasterKeys {
    MasterKeys { current: Some(master), previous: None }
}

/// Returns the key with which an object of uploads is stored.
pub(crate) fn named(store: &SealedStore<MemoryDatabaseStore>, name: &str, length: u64) -> ObjectKey {
    let key = store.data_key(DataKeyScope::Uploads).unwrap().unwrap();
    ObjectKey::parse(&format!("uploads/{name}")).unwrap().sealed(ObjectSeal { length, key }).unwrap()
}

/// Returns bytes that differ from place to place.
pub(crate) fn pattern(length: u64) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at ^ (at >> 8) ^ (at >> 16)) & 0xff).unwrap()).collect()
}
