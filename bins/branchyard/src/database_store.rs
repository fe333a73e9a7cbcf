//! Opens the store of databases and proves that it belongs to the metadata store.
//!
//! Object `cluster/id` of the store has a random id that the metadata store remembers. A server that starts with a store that was emptied,
//! or with that of other metadata, would miss the objects of its databases, and remove those of others.
//!
//! At the very first start, the id is stored before the metadata store remembers it, and nothing else is stored before that. So a start
//! that was interrupted in between is repeated, and a store that has other objects and is not remembered belongs to other metadata.

use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use branchyard_domain::ports::{DatabaseStore, Ids, Metadata as _, StoreError};
use branchyard_domain::values::ObjectKey;
use branchyard_object_store::StoreUrl;
use branchyard_sealed_store::{DataKeyRing, SealedStore};
use branchyard_storage::Store;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::store_encryption;

/// Folder of the objects that this module stores.
const CLUSTER: &str = "cluster";
/// Name of the object with the id.
const ID: &str = "id";
/// Name of the object that names the machine of a store that is a folder.
const HOST: &str = "host";
/// Name of the object with the id that replaces the present one.
const NEXT_ID: &str = "next-id";
/// Most bytes of one of these objects.
const SMALL_MAX: usize = 4_096;
/// Number of objects in the folder at most.
const CLUSTER_OBJECTS: usize = 3;
/// Number of names of the machine that are remembered.
const HOST_NAMES_MAX: usize = 16;

/// Checks that the metadata store is one that fits the configured store of databases.
///
/// # Errors
/// Fails if there is a `store_url`, and the metadata are not on Postgres.
pub(crate) fn check_metadata_url(config: &Config, dir: &DataDir) -> anyhow::Result<()> {
    if config.store_url()?.is_none() {
        return Ok(());
    }
    let url = config.metadata_url(&dir.metadata())?;
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        bail!(
            "configuration: store_url needs a metadata_url on Postgres: the metadata say which objects make up a database, and a SQLite \
             file would be lost with this machine; set metadata_url to a postgres:// URL, or remove store_url to keep the databases in \
             the data folder"
        );
    }
    Ok(())
}

/// The store of databases.
pub(crate) struct OpenStore {
    /// The store, which seals and opens objects if there are data keys.
    pub(crate) store: Arc<dyn DatabaseStore>,
    /// The keys under which objects are sealed.
    pub(crate) data_keys: Option<Arc<DataKeyRing>>,
}

/// Opens the configured store of databases, or returns `None` if databases are kept in the data folder. The metadata store has to be
/// migrated.
///
/// # Errors
/// Fails if the store cannot be used, or does not belong to the metadata store. The message says what to do.
pub(crate) fn open(config: &Config, metadata: &Arc<Store>, ids: &Arc<dyn Ids>) -> anyhow::Result<Option<OpenStore>> {
    let Some(url) = config.store_url()? else {
        if let Some(id) = metadata.cluster_id()? {
            bail!(
                "the metadata store belongs to cluster {id}, whose databases are in a store of objects; set store_url to that store"
            );
        }
        return Ok(None);
    };
    let options = config.store.options()?;
    let store = branchyard_object_store::open(&url, &options);
    let store = store.map_err(|error| unusable(&url, &error))?;
    let opened = OpenedStore { url: &url, store: store.as_ref() };
    if url.folder().is_some() {
        opened.claim_host(&HostNames::of_this_machine())?;
    }
    opened.claim(metadata, ids.as_ref())?;
    let Some(data_keys) = store_encryption::open(config, metadata, &store, ids)? else {
        return Ok(Some(OpenStore { store, data_keys: None }));
    };
    let store = Arc::new(SealedStore::new(store, Arc::clone(&data_keys)));
    Ok(Some(OpenStore { store, data_keys: Some(data_keys) }))
}

/// Sets another id in both stores, so that no server with an earlier state of the metadata starts on this store of databases. If that is
/// interrupted, the next start goes on.
///
/// # Errors
/// Fails if one of the stores fails.
pub(crate) fn rename(store: &dyn DatabaseStore, metadata: &Store, ids: &dyn Ids) -> anyhow::Result<()> {
    let id = fresh_id(ids);
    store.replace(&key(NEXT_ID)?, id.as_bytes())?;
    metadata.replace_cluster_id(&id)?;
    store.replace(&key(ID)?, id.as_bytes())?;
    Ok(store.remove(&[key(NEXT_ID)?])?)
}

fn fresh_id(ids: &dyn Ids) -> String {
    let mut random = [0; 16];
    ids.fill(&mut random);
    HEXLOWER.encode(&random)
}

struct OpenedStore<'a> {
    url: &'a StoreUrl,
    store: &'a dyn DatabaseStore,
}

impl OpenedStore<'_> {
    /// Checks that the store and the metadata have the same id. If both are new, both get one.
    fn claim(&self, metadata: &Store, ids: &dyn Ids) -> anyhow::Result<()> {
        let url = self.url;
        // Another server may be starting for the first time. It stores the id, has it remembered, and only then changes anything else. The
        // opposite order here sees no step without those before it.
        let has_databases = !metadata.read()?.databases().ids(None, 1)?.is_empty();
        let has_objects = self.has_other_objects()?;
        let stored = self.small(ID)?;
        let remembered = metadata.cluster_id()?;
        match (stored, remembered) {
            (Some(stored), Some(remembered)) if stored == remembered => Ok(()),
            (Some(_), Some(remembered)) if self.small(NEXT_ID)?.as_ref() == Some(&remembered) => {
                self.failing(self.store.replace(&key(ID)?, remembered.as_bytes()))?;
                self.failing(self.store.remove(&[key(NEXT_ID)?]))
            }
            (Some(stored), Some(remembered)) => bail!(
                "the store at {url} belongs to cluster {stored}, and the metadata store to cluster {remembered}; set store_url and \
                 metadata_url to the stores of one cluster"
            ),
            (None, Some(remembered)) => bail!(
                "the store at {url} has no object {CLUSTER}/{ID}, and the metadata store belongs to cluster {remembered}: the store was \
                 emptied, or it is another one; set store_url to the store of this cluster, or bring back its objects"
            ),
            (_, None) if has_databases => bail!(
                "the metadata store has databases whose files are in a data folder; to move them to the store at {url}, make a backup \
                 without store_url, and restore it with store_url and an empty metadata store"
            ),
            (Some(stored), None) if has_objects => bail!(
                "the store at {url} belongs to cluster {stored}, which the metadata store does not know; set metadata_url to the metadata \
                 store of this cluster, or store_url to an empty bucket, prefix or folder"
            ),
            (None, None) if has_objects => bail!(
                "the store at {url} has objects that are not Branchyard's, or its object {CLUSTER}/{ID} was removed; set store_url to an \
                 empty bucket, prefix or folder"
            ),
            (stored, None) => {
                let id = match stored {
                    Some(id) => id,
                    None => self.store_id(ids)?,
                };
                let adopted = metadata.adopt_cluster_id(&id)?;
                if adopted != id {
                    bail!(
                        "the store at {url} belongs to cluster {id}, and another server has just made the metadata store belong to \
                         cluster {adopted}; set the same store_url on both servers"
                    );
                }
                tracing::info!("the store at {url} belongs to the metadata store from now on, as cluster {id}");
                Ok(())
            }
        }
    }

    /// Stores a new id, and returns the one that is in force.
    fn store_id(&self, ids: &dyn Ids) -> anyhow::Result<String> {
        self.failing(self.store.put_if_absent(&key(ID)?, fresh_id(ids).as_bytes()))?;
        self.small(ID)?.with_context(|| format!("the store at {} loses what it has stored", self.url))
    }

    /// Returns `true` if there are objects besides those of this module.
    fn has_other_objects(&self) -> anyhow::Result<bool> {
        let folder = ObjectKey::parse(CLUSTER)?;
        let first = self.failing(self.store.list(None, None, CLUSTER_OBJECTS + 1))?;
        Ok(first.iter().any(|info| !info.key.is_below(&folder)))
    }

    /// Checks that the store, a folder, is used on one machine only.
    fn claim_host(&self, names: &HostNames) -> anyhow::Result<()> {
        if names.0.is_empty() {
            tracing::warn!(
                "this machine cannot be recognized; make sure that no other one uses the store at {}, a folder",
                self.url
            );
            return Ok(());
        }
        if self.failing(self.store.put_if_absent(&key(HOST)?, names.to_text().as_bytes()))? {
            return Ok(());
        }
        let stored = HostNames::parse(&self.small(HOST)?.unwrap_or_default());
        if !stored.share_one_with(names) {
            bail!(
                "another machine uses the store at {url}: a folder is for the servers of one machine, because a file system that machines \
                 share does not order their changes; set store_url to s3://, gs:// or az://. If the folder was moved to this machine, \
                 or this machine has another name since it was started, remove the file {CLUSTER}/{HOST} in it",
                url = self.url
            );
        }
        let known = names.with_earlier(&stored);
        if known == stored {
            return Ok(());
        }
        self.failing(self.store.replace(&key(HOST)?, known.to_text().as_bytes()))
    }

    fn small(&self, name: &str) -> anyhow::Result<Option<String>> {
        let bytes = match self.store.read_small(&key(name)?, SMALL_MAX) {
            Err(StoreError::NotFound(_)) => return Ok(None),
            read => self.failing(read)?,
        };
        let text = String::from_utf8(bytes).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let text = text.with_context(|| format!("object {CLUSTER}/{name} of the store at {} is damaged", self.url))?;
        Ok(Some(text))
    }

    fn failing<T>(&self, result: Result<T, StoreError>) -> anyhow::Result<T> {
        result.map_err(|error| unusable(self.url, &error))
    }
}

/// Longest text of a cause that is printed. Object stores answer with whole documents.
const CAUSE_MAX: usize = 200;

/// Describes a failure by what to do and by its first cause. The causes in between repeat each other.
fn unusable(url: &StoreUrl, error: &StoreError) -> anyhow::Error {
    let text = format!("cannot use the store at {url}: {error}");
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let cause = cause.to_string();
    let is_new = cause.len() <= CAUSE_MAX && !text.contains(&cause);
    if is_new { anyhow::anyhow!("{text}: {cause}") } else { anyhow::anyhow!(text) }
}

fn key(name: &str) -> anyhow::Result<ObjectKey> {
    Ok(ObjectKey::parse(CLUSTER)?.join(name)?)
}

/// Names by which a machine is recognized, hashed, one on a line. Several servers of a machine may be in containers: these share the id
/// of the last boot. After a boot, a machine is recognized by the id of its installation, or by the name of its host. Systems other than
/// Linux have none of these names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostNames(Vec<String>);

/// What the id of the last boot begins with.
const BOOT: &str = "boot ";

impl HostNames {
    fn of_this_machine() -> Self {
        let first_line = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().next().unwrap_or_default().trim().to_owned();
            // systemd writes this word into the image of a system.
            (!line.is_empty() && line != "uninitialized").then_some(line)
        };
        let host = || first_line("/proc/sys/kernel/hostname").filter(|name| name != "localhost");
        let boot = first_line("/proc/sys/kernel/random/boot_id").map(|id| hashed(BOOT, &id));
        let machine = first_line("/etc/machine-id").map(|id| hashed("machine ", &id));
        let names = [boot, machine.or_else(|| host().map(|name| hashed("host ", &name)))];
        Self(names.into_iter().flatten().collect())
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().map(str::to_owned).collect())
    }

    fn to_text(&self) -> String {
        self.0.join("\n")
    }

    fn share_one_with(&self, other: &Self) -> bool {
        self.0.iter().any(|name| other.0.contains(name))
    }

    /// Returns these names, and those of `earlier` that can still be right.
    fn with_earlier(&self, earlier: &Self) -> Self {
        let is_old = |name: &&String| !name.starts_with(BOOT) && !self.0.contains(name);
        if self.0.iter().all(|name| earlier.0.contains(name)) {
            return earlier.clone();
        }
        Self(self.0.iter().chain(earlier.0.iter().filter(is_old)).take(HOST_NAMES_MAX).cloned().collect())
    }
}

/// The id of a machine is not to be published.
fn hashed(kind: &str, id: &str) -> String {
    let hash = Sha256::new().chain_update("branchyard store host ").chain_update(kind).chain_update(id).finalize();
    format!("{kind}{}", HEXLOWER.encode(&hash[..16]))
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::Clock as _;
    use branchyard_domain_testing::fakes::{MemoryDatabaseStore, SeededIds, StoreCall, StoreFault};
    use branchyard_object_store::StoreUrl;
    use branchyard_runtime::SystemClock;
    use branchyard_storage::StoreOptions;

    use super::*;

    fn metadata() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("m.sqlite").to_str().unwrap(), &StoreOptions::default()).unwrap();
        store.migrate(SystemClock::default().now()).unwrap();
        (dir, store)
    }

    fn claim(store: &MemoryDatabaseStore, metadata: &Store) -> Result<(), String> {
        let url = StoreUrl::parse("s3://yard").unwrap();
        let opened = OpenedStore { url: &url, store };
        opened.claim(metadata, &SeededIds::new(1)).map_err(|error| format!("{error:#}"))
    }

    fn claim_host(store: &MemoryDatabaseStore, names: &[&str]) -> Result<(), String> {
        let url = StoreUrl::parse("file:///srv/yard").unwrap();
        let names = HostNames(names.iter().map(|name| (*name).to_owned()).collect());
        OpenedStore { url: &url, store }.claim_host(&names).map_err(|error| format!("{error:#}"))
    }

    fn refused(claimed: Result<(), String>, text: &str) {
        let error = claimed.unwrap_err();
        assert!(error.contains(text), "{error}");
    }

    fn put(store: &MemoryDatabaseStore, key: &str) {
        store.put(&ObjectKey::parse(key).unwrap(), b"bytes").unwrap();
    }

    #[test]
    fn the_first_start_binds_both_stores() {
        let (store, (_dir, metadata)) = (MemoryDatabaseStore::default(), metadata());
        claim(&store, &metadata).unwrap();
        let id = metadata.cluster_id().unwrap().unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(store.read_small(&key(ID).unwrap(), 100).unwrap(), id.as_bytes());
        put(&store, "databases/x");
        claim(&store, &metadata).unwrap();
        assert_eq!(metadata.cluster_id().unwrap(), Some(id));
    }

    #[test]
    fn a_first_start_that_was_interrupted_is_repeated() {
        for fault in [StoreFault::Unavailable, StoreFault::LostAnswer] {
            let (store, (_dir, metadata)) = (MemoryDatabaseStore::default(), metadata());
            store.plan(StoreCall::Put, fault, 1);
            refused(claim(&store, &metadata), "cannot use the store at s3://yard");
            assert_eq!(metadata.cluster_id().unwrap(), None);
            claim(&store, &metadata).unwrap();
            assert!(metadata.cluster_id().unwrap().is_some());
        }
    }

    #[test]
    fn a_store_that_was_emptied_or_exchanged_stops_the_start() {
        let (store, (_dir, metadata)) = (MemoryDatabaseStore::default(), metadata());
        claim(&store, &metadata).unwrap();
        store.remove(&[key(ID).unwrap()]).unwrap();
        refused(claim(&store, &metadata), "has no object cluster/id");
        store.put(&key(ID).unwrap(), b"another").unwrap();
        refused(claim(&store, &metadata), "belongs to cluster another, and the metadata store to cluster");
    }

    #[test]
    fn a_store_of_others_stops_the_start() {
        let (store, (_dir, metadata)) = (MemoryDatabaseStore::default(), metadata());
        put(&store, "photos/1.jpg");
        refused(claim(&store, &metadata), "has objects that are not Branchyard's");
        store.put(&key(ID).unwrap(), b"another").unwrap();
        refused(claim(&store, &metadata), "belongs to cluster another, which the metadata store does not know");
        assert_eq!(metadata.cluster_id().unwrap(), None);
    }

    #[test]
    fn a_new_id_is_taken_over_after_an_interruption() {
        let (store, (_dir, metadata)) = (MemoryDatabaseStore::default(), metadata());
        claim(&store, &metadata).unwrap();
        let first = metadata.cluster_id().unwrap();
        rename(&store, &metadata, &SeededIds::new(2)).unwrap();
        let second = metadata.cluster_id().unwrap();
        assert_ne!(first, second);
        claim(&store, &metadata).unwrap();
        // Interrupted after the metadata were changed.
        store.replace(&key(NEXT_ID).unwrap(), b"third").unwrap();
        metadata.replace_cluster_id("third").unwrap();
        claim(&store, &metadata).unwrap();
        assert_eq!(store.read_small(&key(ID).unwrap(), 100).unwrap(), b"third");
        assert!(store.read_small(&key(NEXT_ID).unwrap(), 100).is_err());
        // Interrupted before.
        store.replace(&key(NEXT_ID).unwrap(), b"fourth").unwrap();
        claim(&store, &metadata).unwrap();
        assert_eq!(metadata.cluster_id().unwrap().as_deref(), Some("third"));
    }

    #[test]
    fn a_damaged_id_stops_the_start() {
        let (store, (_dir, metadata)) = (MemoryDatabaseStore::default(), metadata());
        store.put(&key(ID).unwrap(), b" \n").unwrap();
        refused(claim(&store, &metadata), "object cluster/id of the store at s3://yard is damaged");
    }

    #[test]
    fn a_store_that_cannot_be_used_is_described_shortly() {
        let url = StoreUrl::parse("s3://yard").unwrap();
        let answer = |text: &str| StoreError::rejected("check the key", std::io::Error::other(text));
        let short = unusable(&url, &answer("403 Forbidden")).to_string();
        let refused = "cannot use the store at s3://yard: the object store refuses the request: check the key";
        assert_eq!(short, format!("{refused}: 403 Forbidden"));
        assert_eq!(unusable(&url, &answer(&"<Error>".repeat(100))).to_string(), refused);
        assert_eq!(unusable(&url, &answer("check the key")).to_string(), refused);
    }

    #[test]
    fn a_folder_is_for_one_machine() {
        let store = MemoryDatabaseStore::default();
        claim_host(&store, &["boot 1", "host a"]).unwrap();
        refused(claim_host(&store, &["boot 2", "host b"]), "another machine uses the store at file:///srv/yard");
        claim_host(&store, &["boot 1", "host a"]).unwrap();
        // Another container of the machine.
        claim_host(&store, &["boot 1", "host b"]).unwrap();
        // After a boot, both are recognized by their names.
        claim_host(&store, &["boot 2", "host a"]).unwrap();
        claim_host(&store, &["boot 2", "host b"]).unwrap();
        refused(claim_host(&store, &["boot 1", "host c"]), "remove the file cluster/host in it");
        claim_host(&store, &[]).unwrap();
    }

    #[test]
    fn this_machine_has_names_that_stay_and_are_not_its_ids() {
        let names = HostNames::of_this_machine();
        assert!(names == HostNames::of_this_machine() && names.share_one_with(&names), "{names:?}");
        for path in ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"] {
            let id = fs::read_to_string(path).unwrap_or_default();
            assert!(id.trim().is_empty() || !names.to_text().contains(id.trim()));
        }
    }
}
