//! Where the key ring is kept: in a file of the data folder or, sealed under the master key of `server_key_file`, in the metadata store.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use branchyard_domain::Hub;
use branchyard_domain::ports::{Ids, MetadataError};
use branchyard_domain::usecases::Secrets;
use branchyard_domain::values::Timestamp;
use branchyard_storage::{KeyRingError, SealedKeyRing, Store};

use crate::data_dir::{DataDir, new_key};
use crate::key_ring::{KeyRing, RingKey};
use crate::master_key::MasterKey;

/// The place of the key ring.
#[derive(Clone)]
pub enum RingStore {
    /// The file `server.key` of the data folder.
    Folder(DataDir),
    /// The metadata store.
    Metadata(Arc<SharedRing>),
}

/// A key ring in the metadata store, which all servers of a cluster share.
pub struct SharedRing {
    metadata: Arc<Store>,
    master: MasterKey,
}

/// What distinguishes a key ring from the one that replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingStamp {
    File(FileStamp),
    Version(u64),
}

/// What distinguishes a file from the one that replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl From<&fs::Metadata> for FileStamp {
    fn from(metadata: &fs::Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        }
    }
}

impl RingStore {
    /// Chooses the place of the key ring, and creates the ring on first use. The first ring in a metadata store is that of the data
    /// folder, if there is one, so that what its keys sealed still opens.
    ///
    /// # Errors
    /// Fails if the metadata store has a ring and `master` is absent or another key, or if a ring cannot be created or read.
    pub fn open(
        dir: &DataDir,
        metadata: &Arc<Store>,
        master: Option<MasterKey>,
        ids: &dyn Ids,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let stored = metadata.key_ring()?.map(|stored| stored.ring);
        match (master, stored) {
            (None, None) => {
                dir.create_key_ring(ids, now)?;
                Ok(Self::Folder(dir.clone()))
            }
            (None, Some(ring)) => bail!(
                "the key ring in the metadata store is sealed under the master key {}; set server_key_file to the file of that key, as on \
                 the other nodes of the cluster",
                ring.master_id
            ),
            (Some(master), stored) => {
                let ring = match stored {
                    Some(ring) => ring,
                    None => adopt(dir, metadata, &master, ids, now)?,
                };
                warn_of_file(dir, &master.open(&ring)?);
                Ok(Self::Metadata(Arc::new(SharedRing { metadata: Arc::clone(metadata), master })))
            }
        }
    }

    /// Returns the ring that is in the metadata store, or `None` if the ring is in the data folder.
    pub(crate) fn shared(&self) -> Option<&SharedRing> {
        match self {
            Self::Folder(_) => None,
            Self::Metadata(shared) => Some(shared),
        }
    }

    /// Returns what distinguishes the present ring from others, or `None` if there is none.
    ///
    /// # Errors
    /// [`MetadataError`] if the metadata store fails.
    pub(crate) fn stamp(&self) -> Result<Option<RingStamp>, MetadataError> {
        match self {
            Self::Folder(dir) => {
                let found = fs::metadata(dir.key_ring_file()).ok();
                Ok(found.map(|metadata| RingStamp::File(FileStamp::from(&metadata))))
            }
            Self::Metadata(shared) => Ok(shared.metadata.key_ring_version()?.map(RingStamp::Version)),
        }
    }

    /// Reads the ring, together with its stamp.
    ///
    /// # Errors
    /// Fails if the ring cannot be read, with a [`MetadataError`] if the metadata store fails.
    pub(crate) fn load(&self) -> anyhow::Result<(RingStamp, KeyRing)> {
        match self {
            Self::Folder(dir) => {
                let (stamp, ring) = read_file(&dir.key_ring_file())?;
                Ok((RingStamp::File(stamp), ring))
            }
            Self::Metadata(shared) => {
                let stored = shared.metadata.key_ring()?.context(NO_RING)?;
                Ok((RingStamp::Version(stored.version), shared.master.open(&stored.ring)?))
            }
        }
    }

    /// Reads the ring.
    ///
    /// # Errors
    /// As `RingStore::load`.
    pub fn read(&self) -> anyhow::Result<KeyRing> {
        Ok(self.load()?.1)
    }

    /// Adds the newest key.
    ///
    /// # Errors
    /// Fails if the ring is full, or cannot be read or written; it is then unchanged.
    pub fn add(&self, key: RingKey, ids: &dyn Ids, now: Timestamp) -> anyhow::Result<()> {
        match self {
            Self::Folder(dir) => dir.change_key_ring(|ring| ring.add(key)),
            Self::Metadata(shared) => shared.change(&shared.master, ids, now, |ring, _| ring.add(key)),
        }
    }

    /// Seals the ring under another master key. The keys stay the same. Servers that have the present master key cannot read the ring any
    /// more; they keep the keys that they have read, and seal nothing.
    ///
    /// # Errors
    /// Fails if the ring is in a data folder, or cannot be read or written; it is then unchanged.
    pub fn seal_under(&self, master: &MasterKey, ids: &dyn Ids, now: Timestamp) -> anyhow::Result<()> {
        let Self::Metadata(shared) = self else {
            bail!("the key ring is in the data folder; a master key needs server_key_file")
        };
        shared.change(master, ids, now, |_, _| Ok(()))
    }

    /// Removes an older key under which no secret is sealed.
    ///
    /// # Errors
    /// Fails if there is no such key, if it is the newest one, if a secret is sealed under it, or if the ring cannot be read or written;
    /// the ring is then unchanged.
    pub fn remove(&self, hub: &Hub, id: &str, ids: &dyn Ids, now: Timestamp) -> anyhow::Result<()> {
        match self {
            // The transaction lasts until the file is replaced. A server compares the file before it seals, within a transaction of its
            // own, so that it seals nothing more under the key.
            Self::Folder(dir) => {
                hub.secrets().with_counts(|counts| dir.change_key_ring(|ring| remove_unused(ring, id, counts)))?
            }
            Self::Metadata(shared) => {
                shared.change(&shared.master, ids, now, |ring, counts| remove_unused(ring, id, counts))
            }
        }
    }
}

/// The row of a cluster's key ring was removed by hand, or the metadata store is an older copy.
const NO_RING: &str = "the metadata store has no key ring any more; restore the metadata store from a backup";

impl SharedRing {
    /// Returns the master key.
    pub(crate) fn master(&self) -> &MasterKey {
        &self.master
    }

    /// Returns the ring as it is stored.
    ///
    /// # Errors
    /// Fails if the metadata store fails or has no ring.
    pub(crate) fn sealed(&self) -> anyhow::Result<SealedKeyRing> {
        Ok(self.metadata.key_ring()?.context(NO_RING)?.ring)
    }

    /// Replaces the ring by what `change` makes of it, sealed under `master`, in one transaction. `change` receives the number of secrets under each key, which
    /// stay as they are until the transaction has ended.
    fn change(
        &self,
        master: &MasterKey,
        ids: &dyn Ids,
        now: Timestamp,
        change: impl FnOnce(&mut KeyRing, &[(String, u64)]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let changed = self.metadata.change_key_ring(now, |tx, found| {
            let mut ring = self.master.open(found.context(NO_RING)?)?;
            change(&mut ring, &Secrets::counts_within(tx)?)?;
            Ok(master.seal(&ring, ids))
        });
        changed.map_err(|error| match error {
            KeyRingError::Refused(error) => error,
            KeyRingError::Store(error) => error.into(),
        })
    }
}

/// Moves the key ring of the data folder, or a new one, into the metadata store. Returns the one that is there then, which may be that of
/// another server.
fn adopt(
    dir: &DataDir,
    metadata: &Store,
    master: &MasterKey,
    ids: &dyn Ids,
    now: Timestamp,
) -> anyhow::Result<SealedKeyRing> {
    let has_file = dir.key_ring_file().exists();
    let ring = if has_file { dir.key_ring()? } else { KeyRing::of(new_key(ids, now)?) };
    let mine = master.seal(&ring, ids);
    let stored = metadata.adopt_key_ring(&mine, now)?.ring;
    if has_file && stored == mine {
        tracing::info!(
            keys = ring.keys().len(),
            "the key ring of the data folder is in the metadata store now; keep a copy of its server.key elsewhere and remove it"
        );
    }
    Ok(stored)
}

/// Warns if the data folder has keys that the ring in the metadata store lacks.
fn warn_of_file(dir: &DataDir, ring: &KeyRing) {
    // A file that is missing or no key ring holds no keys.
    let Ok(file) = dir.key_ring() else { return };
    let absent = file.keys().iter().filter(|key| ring.keys().iter().all(|other| other.sealed_as() != key.sealed_as()));
    let absent = absent.count();
    if absent > 0 {
        tracing::warn!(
            keys = absent,
            "server.key of the data folder has keys that the key ring in the metadata store lacks; they are not used, so remove the file \
             unless `branchyard doctor` reports secrets that need them"
        );
    }
}

fn remove_unused(ring: &mut KeyRing, id: &str, counts: &[(String, u64)]) -> anyhow::Result<()> {
    let sealed_as = ring.remove(id)?.sealed_as();
    match counts.iter().find(|(key, _)| *key == sealed_as) {
        None => Ok(()),
        Some((_, hooks)) => bail!(
            "the secrets of {hooks} webhooks and mirrors are sealed under {id}; a running server seals them anew within seconds, so \
             start it and try again"
        ),
    }
}

/// Reads the file of a key ring, together with its stamp.
fn read_file(path: &Path) -> anyhow::Result<(FileStamp, KeyRing)> {
    let contents = || {
        let mut file = File::open(path)?;
        let stamp = FileStamp::from(&file.metadata()?);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // A key must not seal before it survives a power failure: a process that replaced the file may not have come that far.
        file.sync_all()?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
        Ok::<_, std::io::Error>((stamp, bytes))
    };
    let (stamp, bytes) = contents().with_context(|| format!("cannot read {}", path.display()))?;
    let ring = KeyRing::parse(&bytes).with_context(|| {
        format!("{} is not a key ring (one `id base64` a line); restore it from a copy", path.display())
    })?;
    Ok((stamp, ring))
}
