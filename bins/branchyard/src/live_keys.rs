//! The keys of a process, which follow the file of the key ring.
//!
//! Before each sealing, and every second in a server, the process compares the file with the one it read last. A sealing within
//! a metadata transaction therefore uses a key that the file held during this transaction, and `keys remove`, which excludes such
//! transactions, takes no key away from a secret that is being sealed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use branchyard_auth::SEED_BYTES;
use branchyard_domain::Hub;
use branchyard_domain::entities::{HookSecret, Sealed};
use branchyard_domain::ports::{Ids, Vault};
use branchyard_domain::usecases::ResealOutcome;
use branchyard_domain::values::{DatabaseId, HookId, Timestamp};
use branchyard_hooks::ServerVault;
use branchyard_http_common::ServerKeys;
use parking_lot::{Mutex, RwLock};

use crate::data_dir::DataDir;
use crate::key_ring::KeyRing;
use crate::repeating_thread::RepeatingThread;

/// Interval at which a server looks for a changed file.
const INTERVAL: Duration = Duration::from_secs(1);
/// Delay before secrets are sealed anew once more, after the metadata store failed.
const RETRY: Duration = Duration::from_secs(30);

/// What distinguishes a file from the one that replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileStamp {
    fn of(file: &File) -> std::io::Result<Self> {
        Ok(Self::from(&file.metadata()?))
    }
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

/// The keys of this process.
pub struct LiveKeys {
    path: PathBuf,
    vault: RwLock<ServerVault>,
    tokens: ServerKeys,
    /// The file that was looked at last; `None` if it was missing.
    seen: Mutex<Option<FileStamp>>,
}

impl LiveKeys {
    /// Reads the key ring of a data folder, and creates it on first use.
    ///
    /// # Errors
    /// Fails if the ring cannot be created or read.
    pub fn open(dir: &DataDir, ids: &dyn Ids, now: Timestamp) -> anyhow::Result<Self> {
        dir.create_key_ring(ids, now)?;
        let path = dir.key_ring_file();
        let (stamp, ring) = read(&path)?;
        let (newest, older) = ring.secrets();
        Ok(Self {
            path,
            vault: RwLock::new(ServerVault::from_secrets(&newest, &older)),
            tokens: ServerKeys::from_secrets(&newest, &older),
            seen: Mutex::new(Some(stamp)),
        })
    }

    /// Returns the keys of tokens, signatures and entity tags, which follow the file too.
    pub fn tokens(&self) -> ServerKeys {
        self.tokens.clone()
    }

    /// Reads the file if it changed. If it cannot be read, logs that once, and the keys stay as they are.
    pub fn refresh(&self) {
        // Held until the keys are replaced, so that no other thread seals under the earlier ones meanwhile.
        let mut seen = self.seen.lock();
        let found = fs::metadata(&self.path).ok().map(|metadata| FileStamp::from(&metadata));
        if found == *seen {
            return;
        }
        match read(&self.path) {
            Ok((stamp, ring)) => {
                let (newest, older) = ring.secrets();
                *self.vault.write() = ServerVault::from_secrets(&newest, &older);
                self.tokens.replace(&newest, &older);
                *seen = Some(stamp);
                tracing::info!(newest = ring.keys()[0].id(), keys = ring.keys().len(), "read the changed key ring");
            }
            Err(error) => {
                *seen = found;
                let error: &(dyn std::error::Error + 'static) = error.as_ref();
                tracing::error!(error, "keeping the keys in memory; restore the file of the key ring before a restart");
            }
        }
    }
}

/// Reads a key ring, together with the stamp of its file.
fn read(path: &std::path::Path) -> anyhow::Result<(FileStamp, KeyRing)> {
    let contents = || {
        let mut file = File::open(path)?;
        let stamp = FileStamp::of(&file)?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes)?;
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

impl LiveKeys {
    fn open_with<T>(&self, open: impl Fn(&ServerVault) -> Option<T>) -> Option<T> {
        let opened = open(&self.vault.read());
        opened.or_else(|| {
            // Another process may have sealed it under a key that was just added.
            self.refresh();
            open(&self.vault.read())
        })
    }
}

impl Vault for LiveKeys {
    fn seal(&self, hook: HookId, secret: &HookSecret, nonce: [u8; 24]) -> Sealed {
        self.refresh();
        self.vault.read().seal(hook, secret, nonce)
    }

    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret> {
        self.open_with(|vault| vault.open(hook, sealed))
    }

    fn seal_seed(&self, mirror: DatabaseId, seed: &[u8; SEED_BYTES], nonce: [u8; 24]) -> Sealed {
        self.refresh();
        self.vault.read().seal_seed(mirror, seed, nonce)
    }

    fn open_seed(&self, mirror: DatabaseId, sealed: &Sealed) -> Option<[u8; SEED_BYTES]> {
        self.open_with(|vault| vault.open_seed(mirror, sealed))
    }

    fn key_id(&self) -> String {
        self.refresh();
        self.vault.read().key_id()
    }
}

/// Starts the thread of a server that follows the key ring and seals all secrets under its newest key.
pub(crate) fn follow(hub: &Hub, keys: Arc<LiveKeys>) -> std::io::Result<RepeatingThread> {
    let (hub, mut sealed_under, mut not_before) = (hub.clone(), None, Instant::now());
    RepeatingThread::start("key-ring", INTERVAL, move |flag| {
        let newest = keys.key_id();
        if sealed_under.as_ref() == Some(&newest) || Instant::now() < not_before {
            return;
        }
        match hub.secrets().reseal(|| flag.goes_on()) {
            Ok(outcome) => {
                log(outcome);
                sealed_under = Some(newest);
            }
            Err(error) => {
                not_before = Instant::now() + RETRY;
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(error, "cannot seal the secrets of webhooks and mirrors anew; trying again");
            }
        }
    })
}

fn log(ResealOutcome { resealed, unreadable }: ResealOutcome) {
    if resealed > 0 {
        tracing::info!(secrets = resealed, "sealed the secrets of webhooks and mirrors under the newest key");
    }
    if unreadable > 0 {
        tracing::warn!(
            secrets = unreadable,
            "the keys of some secrets of webhooks or mirrors are not in the key ring; `branchyard doctor` names the webhooks"
        );
    }
}
