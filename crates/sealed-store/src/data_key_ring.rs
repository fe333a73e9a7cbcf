//! The data keys of a store: looked up, unwrapped once, made when a scope needs its first one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{DataKeys, DatabaseStore, Ids, MetadataError, StoreError, WrappedDataKey};
use branchyard_domain::values::{DataKeyId, DataKeyScope, ObjectKey};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::KeyInit as _;
use parking_lot::Mutex;
use secrecy::zeroize::Zeroizing;

use crate::key_object;
use crate::master_key::{KEY_BYTES, KeyError, MasterKey};

/// For how long the key of a scope is not looked up again. It changes only if a server without encryption has removed it.
const FRESH: Duration = Duration::from_secs(60);

/// How many objects are listed at once.
const PAGE: usize = 1_000;

/// The cipher of a data key. It overwrites its key when it is dropped.
pub(crate) type Cipher = XChaCha20Poly1305;

/// An opened data key, or room for it. A caller that needs a key which is being unwrapped waits for that key only.
type Slot = Arc<Mutex<Option<Arc<Cipher>>>>;

/// The master keys of a store.
#[derive(Debug, Default)]
pub struct MasterKeys {
    /// The one that wraps new data keys. If `None`, new objects are stored as they are.
    pub current: Option<MasterKey>,
    /// One that only unwraps.
    pub previous: Option<MasterKey>,
}

impl MasterKeys {
    /// Returns `true` if there is none.
    pub fn is_empty(&self) -> bool {
        self.each().next().is_none()
    }

    fn each(&self) -> impl Iterator<Item = &MasterKey> {
        self.current.iter().chain(&self.previous)
    }

    fn ids(&self) -> String {
        self.each().map(MasterKey::id).collect::<Vec<_>>().join(" and ")
    }
}

/// What [`DataKeyRing::rewrap`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rewrapped {
    /// Data keys that were wrapped by another master key, or by a command, and are wrapped anew.
    pub wrapped: u64,
    /// Data keys that the current master key had wrapped already.
    pub already: u64,
}

/// The data keys of a store.
pub struct DataKeyRing {
    rows: Arc<dyn DataKeys>,
    store: Arc<dyn DatabaseStore>,
    masters: MasterKeys,
    ids: Arc<dyn Ids>,
    opened: Mutex<HashMap<DataKeyId, Slot>>,
    of_scopes: Mutex<HashMap<DataKeyScope, (DataKeyId, Instant)>>,
    /// Held while the first key of a scope is made.
    making: Mutex<()>,
}

impl fmt::Debug for DataKeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKeyRing").field("masters", &self.masters).finish_non_exhaustive()
    }
}

fn unavailable(error: MetadataError) -> StoreError {
    StoreError::unavailable("a data key cannot be looked up", error)
}

impl DataKeyRing {
    /// Creates a ring. `rows` are the keys in the metadata store, and `store` is the store as it is, without encryption.
    pub fn new(rows: Arc<dyn DataKeys>, store: Arc<dyn DatabaseStore>, masters: MasterKeys, ids: Arc<dyn Ids>) -> Self {
        let (opened, of_scopes) = (Mutex::default(), Mutex::default());
        Self { rows, store, masters, ids, opened, of_scopes, making: Mutex::default() }
    }

    /// Returns `true` if new objects are sealed.
    pub fn is_sealing(&self) -> bool {
        self.masters.current.is_some()
    }

    pub(crate) fn ids(&self) -> &dyn Ids {
        self.ids.as_ref()
    }

    /// Proves that the master keys are those of the store: that each data key is wrapped by one of them, that one of each can be
    /// unwrapped, and that the current one can wrap.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] names the master key that is missing; [`StoreError::Unavailable`] if a command failed.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut samples = BTreeMap::new();
        for row in self.rows.all().map_err(unavailable)? {
            samples.entry(row.master_id.clone()).or_insert(row);
        }
        for row in samples.values() {
            self.open(row.id, Some(row))?;
        }
        if let Some(current) = &self.masters.current
            && !samples.contains_key(current.id())
        {
            let id = self.fresh_id();
            let trial = self.wrapped(current, id, DataKeyScope::Uploads, &self.fresh_key())?;
            current.unwrap(&trial)?;
        }
        Ok(())
    }

    /// Returns the key for new objects of a scope, and makes one if it has none. Returns `None` if new objects are stored as they are.
    pub(crate) fn of_scope(&self, scope: DataKeyScope) -> Result<Option<DataKeyId>, StoreError> {
        let Some(current) = &self.masters.current else { return Ok(None) };
        if let Some(id) = self.remembered(scope) {
            return Ok(Some(id));
        }
        let _making = self.making.lock();
        if let Some(id) = self.remembered(scope) {
            return Ok(Some(id));
        }
        let id = match self.rows.of_scope(scope).map_err(unavailable)? {
            Some(found) => found.id,
            None => self.make(current, scope)?,
        };
        self.of_scopes.lock().insert(scope, (id, Instant::now()));
        Ok(Some(id))
    }

    fn remembered(&self, scope: DataKeyScope) -> Option<DataKeyId> {
        let found = self.of_scopes.lock().get(&scope).copied();
        found.filter(|(_, at)| at.elapsed() < FRESH).map(|(id, _)| id)
    }

    /// Makes the first key of a scope, unless another server does so at the same time.
    fn make(&self, current: &MasterKey, scope: DataKeyScope) -> Result<DataKeyId, StoreError> {
        let (id, key) = (self.fresh_id(), self.fresh_key());
        let row = self.wrapped(current, id, scope, &key)?;
        // Before anything can be sealed under the key: metadata that are restored to an earlier time do not have its row.
        key_object::store(self.store.as_ref(), &row)?;
        let found = self.rows.add(&row).map_err(unavailable)?;
        if found.id == id {
            let cipher = Arc::new(Cipher::new(key.as_slice().into()));
            *self.slot(id).lock() = Some(cipher);
        } else if let Err(error) = key_object::remove(self.store.as_ref(), id) {
            // Nothing names it.
            tracing::warn!(data_key = %id, error = &error as &dyn std::error::Error, "an object of a data key is of no use, and stays");
        }
        Ok(found.id)
    }

    fn wrapped(
        &self,
        master: &MasterKey,
        id: DataKeyId,
        scope: DataKeyScope,
        key: &Zeroizing<[u8; KEY_BYTES]>,
    ) -> Result<WrappedDataKey, KeyError> {
        let wrapped = master.wrap(id, key, self.ids.as_ref())?;
        Ok(WrappedDataKey { id, scope, master_id: master.id().to_owned(), wrapped })
    }

    fn fresh_id(&self) -> DataKeyId {
        let mut id = [0; 16];
        self.ids.fill(&mut id);
        DataKeyId::from_bytes(id)
    }

    fn fresh_key(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        self.ids.fill(key.as_mut_slice());
        key
    }

    fn slot(&self, id: DataKeyId) -> Slot {
        Arc::clone(self.opened.lock().entry(id).or_default())
    }

    /// Returns the cipher of a data key.
    pub(crate) fn cipher(&self, id: DataKeyId) -> Result<Arc<Cipher>, StoreError> {
        let slot = self.slot(id);
        let mut opened = slot.lock();
        if let Some(cipher) = opened.as_ref() {
            return Ok(Arc::clone(cipher));
        }
        let row = self.rows.find(id).map_err(unavailable)?;
        let key = self.open(id, row.as_ref())?;
        let cipher = Arc::new(Cipher::new(key.as_slice().into()));
        *opened = Some(Arc::clone(&cipher));
        Ok(cipher)
    }

    /// Unwraps a key as the metadata store has it, or else as the store has it.
    fn open(&self, id: DataKeyId, row: Option<&WrappedDataKey>) -> Result<Zeroizing<[u8; KEY_BYTES]>, StoreError> {
        let of_row = match row {
            Some(row) => self.unwrap(row),
            None => Err(KeyError::Absent(id)),
        };
        match of_row {
            // Metadata that were restored to an earlier time lack the row, or have it as it was wrapped before a rotation.
            Err(failed @ (KeyError::Absent(_) | KeyError::OtherMaster { .. })) => {
                match key_object::read(self.store.as_ref(), id)? {
                    Some(stored) => Ok(self.unwrap(&stored)?),
                    None => Err(failed.into()),
                }
            }
            of_row => Ok(of_row?),
        }
    }

    /// Unwraps a key by the master key that wrapped it. Two commands are not distinguished by their ids, so the previous one comes
    /// second.
    fn unwrap(&self, row: &WrappedDataKey) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
        let mut failed =
            KeyError::OtherMaster { id: row.id, master_id: row.master_id.clone(), configured: self.masters.ids() };
        for master in self.masters.each().filter(|master| master.id() == row.master_id) {
            match master.unwrap(row) {
                Ok(key) => return Ok(key),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Wraps all data keys by the current master key, so that the previous one is not needed any more. Objects stay as they are. Calling
    /// it again is safe.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if there is no current master key, or a data key cannot be unwrapped. What was wrapped anew before stays.
    pub fn rewrap(&self) -> Result<Rewrapped, StoreError> {
        let Some(current) = &self.masters.current else {
            let advice =
                "set store.encryption_key_file or store.encryption_key_command to the new master key".to_owned();
            return Err(StoreError::Rejected { advice, source: None });
        };
        let mut done = Rewrapped::default();
        for row in self.rows.all().map_err(unavailable)? {
            // The id of a command does not say which of its service's keys is in use.
            if row.master_id == current.id() && !current.is_command() {
                // An interrupted run may have left the object as it was.
                key_object::store(self.store.as_ref(), &row)?;
                done.already += 1;
                continue;
            }
            let key = self.open(row.id, Some(&row))?;
            let anew = self.wrapped(current, row.id, row.scope, &key)?;
            if self.rows.rewrap(&row, &anew.master_id, &anew.wrapped).map_err(unavailable)? {
                key_object::store(self.store.as_ref(), &anew)?;
                done.wrapped += 1;
            }
        }
        Ok(done)
    }

    /// Removes data keys that nothing names any more, with their objects. Returns how many. Those of uploads and backups stay while new
    /// objects are sealed.
    ///
    /// # Errors
    /// [`StoreError`]. Some may have been removed.
    pub fn remove_unused(&self) -> Result<u64, StoreError> {
        let mut removed = 0;
        for id in self.rows.unused(self.is_sealing()).map_err(unavailable)? {
            removed += u64::from(self.remove(id)?);
        }
        if !self.is_sealing() {
            for scope in [DataKeyScope::Uploads, DataKeyScope::Backups] {
                removed += u64::from(self.remove_unused_of(scope)?);
            }
        }
        Ok(removed)
    }

    /// Removes the key of uploads or backups if no object is sealed under it. No row names their objects.
    fn remove_unused_of(&self, scope: DataKeyScope) -> Result<bool, StoreError> {
        let Some(row) = self.rows.of_scope(scope).map_err(unavailable)? else { return Ok(false) };
        let folder = ObjectKey::parse(&scope.to_string());
        let folder = folder.map_err(|error| StoreError::rejected("report this fault", error))?;
        let mut after = None;
        loop {
            let page = self.store.list(Some(&folder), after.as_ref(), PAGE)?;
            if page.iter().any(|info| info.key.seal().is_some_and(|seal| seal.key == row.id)) {
                return Ok(false);
            }
            if page.len() < PAGE {
                return self.remove(row.id);
            }
            after = page.last().map(|info| info.key.clone());
        }
    }

    fn remove(&self, id: DataKeyId) -> Result<bool, StoreError> {
        if !self.rows.remove(id).map_err(unavailable)? {
            return Ok(false);
        }
        key_object::remove(self.store.as_ref(), id)?;
        self.opened.lock().remove(&id);
        self.of_scopes.lock().retain(|_, (of_scope, _)| *of_scope != id);
        Ok(true)
    }
}
