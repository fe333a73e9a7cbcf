//! The key ring that servers share, sealed under a master key that the store does not have.
//!
//! Each change holds the key of the server (`write_keys`), as the transactions that seal secrets do. While a secret is being sealed, the
//! ring therefore stays as it is, and a reader of the row, on any connection, finds the ring that holds until the secret is saved.

use branchyard_domain::ports::{Durability, MetadataError, Transaction, WriteKey, WriteKeys};
use branchyard_domain::values::Timestamp;
use diesel::prelude::*;

use crate::convert::count;
use crate::schema::key_ring;
use crate::store::Store;
use crate::transaction::SqlTransaction;

/// A sealed key ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedKeyRing {
    /// Id of the master key that it is sealed under.
    pub master_id: String,
    /// The sealed bytes.
    pub bytes: Vec<u8>,
}

/// A sealed key ring as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKeyRing {
    /// Number of the change that made it. Each change has a higher one than those before.
    pub version: u64,
    /// The ring.
    pub ring: SealedKeyRing,
}

/// An error of [`Store::change_key_ring`].
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError<E> {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
    /// The caller refused the change. The ring is as it was.
    #[error("the change was refused")]
    Refused(E),
}

impl SqlTransaction {
    fn key_ring(&mut self) -> Result<Option<StoredKeyRing>, MetadataError> {
        self.run_apart_from_rights("read the key ring", |conn| {
            let columns = (key_ring::version, key_ring::master_id, key_ring::sealed);
            let row: Option<(i64, String, Vec<u8>)> = key_ring::table.select(columns).first(conn).optional()?;
            Ok(row.map(|(version, master_id, bytes)| StoredKeyRing {
                version: count(version),
                ring: SealedKeyRing { master_id, bytes },
            }))
        })
    }

    /// Stores a ring, in place of the present one if there is one.
    pub(crate) fn put_key_ring(&mut self, ring: &SealedKeyRing, at: Timestamp) -> Result<(), MetadataError> {
        self.needs(WriteKey::Server);
        let content = (
            key_ring::master_id.eq(&ring.master_id),
            key_ring::sealed.eq(&ring.bytes),
            key_ring::changed_at.eq(at.as_micros()),
        );
        self.run_apart_from_rights("save the key ring", |conn| {
            // The key of the server keeps others from adding the row in between.
            let replaced = diesel::update(key_ring::table)
                .set((key_ring::version.eq(key_ring::version + 1), content))
                .execute(conn)?;
            if replaced == 0 {
                let first = (key_ring::id.eq(1), key_ring::version.eq(1), content);
                diesel::insert_into(key_ring::table).values(first).execute(conn)?;
            }
            Ok(())
        })
    }
}

impl Store {
    /// Returns the key ring, or `None` if the servers of this store keep their rings in their data folders.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn key_ring(&self) -> Result<Option<StoredKeyRing>, MetadataError> {
        SqlTransaction::look(&self.readers, self.log.as_ref())?.key_ring()
    }

    /// Returns the version of the key ring, or `None` if there is none.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn key_ring_version(&self) -> Result<Option<u64>, MetadataError> {
        let mut tx = SqlTransaction::look(&self.readers, self.log.as_ref())?;
        tx.run_apart_from_rights("read the version of the key ring", |conn| {
            let version: Option<i64> = key_ring::table.select(key_ring::version).first(conn).optional()?;
            Ok(version.map(count))
        })
    }

    /// Stores a key ring if there is none, and returns the one that is in force. Of several servers that do so at once, one stores its
    /// ring.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn adopt_key_ring(&self, ring: &SealedKeyRing, at: Timestamp) -> Result<StoredKeyRing, MetadataError> {
        let mut tx = Box::new(self.transaction(Some(&WriteKeys::server()))?);
        if let Some(found) = tx.key_ring()? {
            return Ok(found);
        }
        tx.put_key_ring(ring, at)?;
        tx.commit(Durability::Synced)?;
        Ok(StoredKeyRing { version: 1, ring: ring.clone() })
    }

    /// Replaces the key ring, `None` if there is none, by what `change` makes of it. `change` may read through the transaction, which
    /// holds the key of the server: no secret is sealed from before `change` is called until the new ring is in force.
    ///
    /// # Errors
    /// [`KeyRingError::Refused`] with the error of `change`, [`KeyRingError::Store`] if the store fails.
    pub fn change_key_ring<E>(
        &self,
        at: Timestamp,
        change: impl FnOnce(&mut dyn Transaction, Option<&SealedKeyRing>) -> Result<SealedKeyRing, E>,
    ) -> Result<(), KeyRingError<E>> {
        let mut tx = Box::new(self.transaction(Some(&WriteKeys::server()))?);
        let found = tx.key_ring()?;
        let ring = change(tx.as_mut(), found.as_ref().map(|found| &found.ring)).map_err(KeyRingError::Refused)?;
        tx.put_key_ring(&ring, at)?;
        Ok(tx.commit(Durability::Synced)?)
    }
}
