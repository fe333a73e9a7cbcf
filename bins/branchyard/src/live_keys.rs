//! The keys of a process, which follow the key ring.
//!
//! Before each sealing, and every second in a server, the process compares the ring with the one it read last: the stamp of the file, or
//! the version in the metadata store. If it changed, the process reads it.
//!
//! # Sealing and the removal of keys
//! `keys remove` must not take a key away from a secret that is being sealed. A secret is sealed within the transaction that saves it,
//! which holds the server's key of transactions (`write_keys` of the metadata store). `keys remove` counts the secrets under each key
//! within a transaction that holds it too, and that lasts until the changed ring is in force: until the file is replaced, or as the
//! transaction which changes the row. So a sealing transaction begins before the removal, and its secret is counted, or after it, and the
//! comparison shows the changed ring.
//!
//! With the ring in the metadata store, the comparison needs a connection while the transaction has one. It is one of the connections for
//! reading, on which each statement sees what was committed before it began. It waits for no lock, because reading waits for none, and
//! no reader waits for a writer's connection while it has its own. So it waits for the end of other reads at most, and not longer
//! than `metadata.wait_ms`. A ring that was kept in memory without a comparison would not do: the server's key tells that no ring changes from
//! now on, and not that none has changed before. If the comparison fails, nothing is sealed, and the transaction fails.
//!
//! Opening needs no comparison: a key that is absent here is looked for once more.
//!
//! # Tokens
//! A server learns of a new key up to a second later than another one. With the ring in the metadata store, a server therefore accepts at
//! once what is signed under a new key, and signs under it five seconds later, when each server accepts it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_auth::SEED_BYTES;
use branchyard_domain::Hub;
use branchyard_domain::entities::{HookSecret, Sealed};
use branchyard_domain::errors::{ExternalFault, PortError};
use branchyard_domain::ports::{MetadataError, Vault};
use branchyard_domain::usecases::ResealOutcome;
use branchyard_domain::values::{DatabaseId, HookId};
use branchyard_hooks::ServerVault;
use branchyard_http_common::ServerKeys;
use parking_lot::{Mutex, RwLock};

use crate::key_ring::KeyRing;
use crate::repeating_thread::RepeatingThread;
use crate::ring_store::{RingStamp, RingStore};

/// Interval at which a server looks for a changed ring.
const INTERVAL: Duration = Duration::from_secs(1);
/// Delay before secrets are sealed anew once more, after the metadata store failed.
const RETRY: Duration = Duration::from_secs(30);
/// How long after a new key was seen the servers of a cluster go on signing under the one before.
const SPREAD: Duration = Duration::from_secs(5);

type Secret = [u8; 32];

/// The keys of this process.
pub struct LiveKeys {
    ring: RingStore,
    vault: RwLock<ServerVault>,
    tokens: ServerKeys,
    seen: Mutex<SeenRing>,
}

/// The ring that the keys in memory are of.
struct SeenRing {
    /// `None` if the file was missing when it was looked at last.
    stamp: Option<RingStamp>,
    /// The keys, newest first.
    keys: (Secret, Vec<Secret>),
    /// When tokens are to be signed under the newest key, if they are not yet.
    signs_at: Option<Instant>,
}

/// The key ring in the metadata store cannot be used.
#[derive(Debug)]
struct UnusableRing(anyhow::Error);

impl std::fmt::Display for UnusableRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for UnusableRing {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl LiveKeys {
    /// Reads the key ring.
    ///
    /// # Errors
    /// Fails if the ring cannot be read.
    pub fn open(ring: RingStore) -> anyhow::Result<Self> {
        let (stamp, read) = ring.load()?;
        let keys = read.secrets();
        Ok(Self {
            ring,
            vault: RwLock::new(ServerVault::from_secrets(&keys.0, &keys.1)),
            tokens: ServerKeys::from_secrets(&keys.0, &keys.1),
            seen: Mutex::new(SeenRing { stamp: Some(stamp), keys, signs_at: None }),
        })
    }

    /// Returns the place of the key ring.
    pub fn ring(&self) -> &RingStore {
        &self.ring
    }

    /// Returns the keys of tokens, signatures and entity tags, which follow the ring too.
    pub fn tokens(&self) -> ServerKeys {
        self.tokens.clone()
    }

    /// Reads the ring if it changed. If a changed file cannot be read, logs that once, and the keys stay as they are.
    ///
    /// # Errors
    /// Fails if the ring in the metadata store cannot be read. The keys stay as they are.
    pub fn refresh(&self) -> Result<(), PortError> {
        let found = self.ring.stamp()?;
        // Held until the keys are replaced, so that no other thread seals under the earlier ones meanwhile, and none of two threads that
        // have read different rings replaces the later one.
        let mut seen = self.seen.lock();
        if found == seen.stamp {
            return Ok(());
        }
        match self.ring.load() {
            Ok((stamp, ring)) => {
                if seen.stamp != Some(stamp) {
                    self.replace(&mut seen, stamp, &ring);
                }
                Ok(())
            }
            Err(error) if self.ring.shared().is_none() => {
                seen.stamp = found;
                let error: &(dyn std::error::Error + 'static) = error.as_ref();
                tracing::error!(error, "keeping the keys in memory; restore the file of the key ring before a restart");
                Ok(())
            }
            Err(error) => Err(match error.downcast::<MetadataError>() {
                Ok(error) => PortError::Metadata(error),
                Err(error) => PortError::External(ExternalFault::new(UnusableRing(error), true)),
            }),
        }
    }

    fn replace(&self, seen: &mut SeenRing, stamp: RingStamp, ring: &KeyRing) {
        let keys = ring.secrets();
        *self.vault.write() = ServerVault::from_secrets(&keys.0, &keys.1);
        let (signs_at, signing, accepted) = match &seen.keys {
            // The key that signs here, and on the other servers.
            (before, _) if self.ring.shared().is_some() && keys.1.contains(before) => {
                let accepted = std::iter::once(keys.0).chain(keys.1.iter().copied().filter(|key| key != before));
                (Some(Instant::now() + SPREAD), *before, accepted.collect())
            }
            _ => (None, keys.0, keys.1.clone()),
        };
        self.tokens.replace(&signing, &accepted);
        *seen = SeenRing { stamp: Some(stamp), keys, signs_at };
        tracing::info!(newest = ring.keys()[0].id(), keys = ring.keys().len(), "read the changed key ring");
    }

    /// Signs tokens under the newest key, if it is time to.
    fn spread(&self) {
        let mut seen = self.seen.lock();
        if seen.signs_at.is_some_and(|at| at <= Instant::now()) {
            self.tokens.replace(&seen.keys.0, &seen.keys.1);
            seen.signs_at = None;
        }
    }
}

impl LiveKeys {
    fn open_with<T>(&self, open: impl Fn(&ServerVault) -> Option<T>) -> Option<T> {
        let opened = open(&self.vault.read());
        opened.or_else(|| {
            // Another process may have sealed it under a key that was just added.
            // If that cannot be seen, it does not open either.
            let _ = self.refresh();
            open(&self.vault.read())
        })
    }
}

impl Vault for LiveKeys {
    fn seal(&self, hook: HookId, secret: &HookSecret, nonce: [u8; 24]) -> Result<Sealed, PortError> {
        self.refresh()?;
        self.vault.read().seal(hook, secret, nonce)
    }

    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret> {
        self.open_with(|vault| vault.open(hook, sealed))
    }

    fn seal_seed(&self, mirror: DatabaseId, seed: &[u8; SEED_BYTES], nonce: [u8; 24]) -> Result<Sealed, PortError> {
        self.refresh()?;
        self.vault.read().seal_seed(mirror, seed, nonce)
    }

    fn open_seed(&self, mirror: DatabaseId, sealed: &Sealed) -> Option<[u8; SEED_BYTES]> {
        self.open_with(|vault| vault.open_seed(mirror, sealed))
    }

    fn key_id(&self) -> String {
        // The server's thread reports a ring that cannot be read, and no secret is sealed meanwhile.
        let _ = self.refresh();
        self.vault.read().key_id()
    }
}

/// Starts the thread of a server that follows the key ring and seals all secrets under its newest key.
pub(crate) fn follow(hub: &Hub, keys: Arc<LiveKeys>) -> std::io::Result<RepeatingThread> {
    let (hub, mut sealed_under, mut not_before, mut reported) = (hub.clone(), None, Instant::now(), false);
    RepeatingThread::start("key-ring", INTERVAL, move |flag| {
        keys.spread();
        if let Err(error) = keys.refresh() {
            if !std::mem::replace(&mut reported, true) {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(error, "cannot read the key ring; no secret is sealed until it can be read");
            }
            return;
        }
        reported = false;
        let newest = keys.vault.read().key_id();
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
