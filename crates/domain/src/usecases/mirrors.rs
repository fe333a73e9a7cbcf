//! Mirrors: databases whose branches and tags follow those of a database of another server.
//!
//! A sync is an operation of the mirror's creator. Everything else that writes to a mirror is refused by the access to the
//! database, as long as it is a mirror.

use std::sync::Arc;

use branchyard_auth::{RemoteKeyPair, SEED_BYTES};

use super::operations::{enqueue, save_queued};
use super::{IdempotencyRecord, Inner, idempotency};
use crate::access::visibility::live;
use crate::access::{Admin, DatabaseAccess};
use crate::entities::{Database, Mirror, Operation, User, Work};
use crate::errors::{MirrorError, PortError};
use crate::ports::{Durability, RemoteSources, Transaction, WriteKey, WriteKeys};
use crate::values::DatabaseId;

/// Number of mirrors whose syncs are queued in one transaction.
const AT_ONCE: usize = 50;
/// Seconds after which a sync that could not be queued is tried again.
const AGAIN_SECONDS: i64 = 60;

/// What a new database is to follow.
#[derive(Debug, Clone)]
pub struct NewMirror {
    /// Address of the source, as written by the caller.
    pub url: String,
    /// Seconds between two syncs, 0 for one sync only.
    pub interval_seconds: i64,
}

/// Changes to a mirror. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditMirror {
    /// Address of the source, as written by the caller.
    pub url: Option<String>,
    /// Seconds between two syncs, 0 for one sync only.
    pub interval_seconds: Option<i64>,
}

/// Use cases of mirrors.
pub struct Mirrors<'a>(&'a Inner);

impl<'a> Mirrors<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns how a database follows its source.
    ///
    /// # Errors
    /// [`MirrorError::NoMirror`]; [`MirrorError::Port`].
    pub fn get(&self, access: &DatabaseAccess<Admin>) -> Result<Mirror, MirrorError> {
        self.0.ports.metadata.read()?.mirrors().get(access.database().id)?.ok_or(MirrorError::NoMirror)
    }

    /// Changes the source or the interval, and returns the mirror. Later syncs are those of the caller, and the next one is due
    /// at once.
    ///
    /// # Errors
    /// [`MirrorError::NoMirror`]; [`MirrorError::Address`]; [`MirrorError::Interval`]; [`MirrorError::Unavailable`].
    pub fn edit(&self, access: &DatabaseAccess<Admin>, edit: EditMirror) -> Result<Mirror, MirrorError> {
        let sources = sources(self.0)?;
        let url = edit.url.map(|url| sources.check(&url)).transpose()?;
        edit.interval_seconds.map(check_interval).transpose()?;
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let mut mirror = tx.mirrors().get(access.database().id)?.ok_or(MirrorError::NoMirror)?;
        mirror.url = url.unwrap_or(mirror.url);
        mirror.interval_seconds = edit.interval_seconds.unwrap_or(mirror.interval_seconds);
        mirror.created_by = access.who().id;
        mirror.failures = 0;
        mirror.next_sync_at = Some(now);
        if !tx.mirrors().update(&mirror)? {
            return Err(MirrorError::NoMirror);
        }
        tx.commit(Durability::Synced)?;
        Ok(mirror)
    }

    /// Makes a mirror an ordinary database, which keeps what it has. A sync that waits or runs changes nothing any more.
    ///
    /// # Errors
    /// [`MirrorError::NoMirror`].
    pub fn stop(&self, access: &DatabaseAccess<Admin>) -> Result<Mirror, MirrorError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let mirror = tx.mirrors().get(database.id)?.ok_or(MirrorError::NoMirror)?;
        end(tx.as_mut(), database)?;
        tx.commit(Durability::Synced)?;
        Ok(mirror)
    }

    /// Queues a sync, or returns the one that waits or runs.
    ///
    /// # Errors
    /// [`MirrorError::NoMirror`]; [`MirrorError::Operation`]; [`MirrorError::Unavailable`].
    pub fn sync(
        &self,
        access: &DatabaseAccess<Admin>,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, MirrorError> {
        sources(self.0)?;
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let mirror = tx.mirrors().get(database.id)?.ok_or(MirrorError::NoMirror)?;
        let operation = match pending(tx.as_mut(), database.id)? {
            Some(pending) => pending,
            None => {
                let creator = tx.users().get(mirror.created_by)?;
                let creator = creator.as_ref().unwrap_or(access.who());
                enqueue(self.0, tx.as_mut(), &database, creator, Work::MirrorSync, now)?
            }
        };
        idempotency::keep(self.0, tx.as_mut(), once, &operation, now)?;
        save_queued(self.0, tx)?;
        Ok(operation)
    }

    /// Queues the syncs that are due. Returns how many.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn queue_due(&self) -> Result<usize, PortError> {
        let now = self.0.now();
        if self.0.ports.sources.is_none() || self.0.ports.metadata.read()?.mirrors().due(now, 1)?.is_empty() {
            return Ok(0);
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let due: Vec<WriteKey> =
            tx.mirrors().due(now, AT_ONCE)?.iter().map(|mirror| WriteKey::Database(mirror.database_id)).collect();
        tx.hold(&due)?;
        let mut queued = 0;
        for mut mirror in tx.mirrors().due(now, AT_ONCE)? {
            if !due.contains(&WriteKey::Database(mirror.database_id)) {
                continue;
            }
            // The end of the sync sets another time.
            let pause = mirror.interval_seconds.max(Mirror::LEAST_INTERVAL_SECONDS);
            mirror.next_sync_at = Some(now.plus_seconds(pause));
            if let Some((database, creator)) = begins(tx.as_mut(), &mirror)? {
                match enqueue(self.0, tx.as_mut(), &database, &creator, Work::MirrorSync, now) {
                    Ok(_) => queued += 1,
                    Err(crate::errors::OperationError::Port(error)) => return Err(error),
                    Err(error) => {
                        mirror.last_error = Some(error.to_string());
                        mirror.next_sync_at = Some(now.plus_seconds(pause.max(AGAIN_SECONDS)));
                    }
                }
            }
            tx.mirrors().update(&mirror)?;
        }
        save_queued(self.0, tx)?;
        Ok(queued)
    }

    /// Ends the requests to sources, because the server stops.
    pub fn abort(&self) {
        if let Some(sources) = &self.0.ports.sources {
            sources.abort();
        }
    }
}

/// Returns the access to sources.
pub(super) fn sources(inner: &Inner) -> Result<&dyn RemoteSources, MirrorError> {
    let is_complete = inner.ports.pushed_chunks.is_some() && inner.ports.sends_webhooks;
    inner.ports.sources.as_deref().filter(|_| is_complete).ok_or(MirrorError::Unavailable)
}

/// Checks what a new database is to follow, and returns it with the URL as it is stored.
pub(super) fn check(inner: &Inner, wanted: &NewMirror) -> Result<NewMirror, MirrorError> {
    let url = sources(inner)?.check(&wanted.url)?;
    check_interval(wanted.interval_seconds)?;
    Ok(NewMirror { url, interval_seconds: wanted.interval_seconds })
}

/// Returns the mirror of a database that is being created, with a key of its own. It is to be called within the transaction that saves
/// the mirror, because it seals (see [`Vault::seal`](crate::ports::Vault::seal)).
pub(super) fn of_new(inner: &Inner, id: DatabaseId, user: &User, checked: NewMirror) -> Result<Mirror, PortError> {
    let NewMirror { url, interval_seconds } = checked;
    let (mut seed, mut nonce) = ([0; SEED_BYTES], [0; 24]);
    inner.ports.ids.fill(&mut seed);
    inner.ports.ids.fill(&mut nonce);
    let pair = RemoteKeyPair::from_seed(&seed).ok_or(PortError::Unsettled("no key pair can be made"))?;
    Ok(Mirror {
        database_id: id,
        url,
        interval_seconds,
        seed: inner.ports.vault.seal_seed(id, &seed, nonce)?,
        public_key: pair.public(),
        created_by: user.id,
        last_sync_at: None,
        last_error: None,
        failures: 0,
        next_sync_at: None,
    })
}

/// Returns the key pair of a mirror. `None` if the key that it is sealed under is absent.
pub(super) fn key_of(inner: &Inner, mirror: &Mirror) -> Option<Arc<RemoteKeyPair>> {
    let seed = inner.ports.vault.open_seed(mirror.database_id, &mirror.seed)?;
    RemoteKeyPair::from_seed(&seed).map(Arc::new)
}

/// Makes a mirror an ordinary database.
pub(super) fn end(tx: &mut dyn Transaction, database: Database) -> Result<(), MirrorError> {
    tx.mirrors().remove(database.id)?;
    if !tx.databases().update(&Database { is_mirror: false, ..database })? {
        return Err(PortError::Unsettled("a database changed within a transaction").into());
    }
    Ok(())
}

fn check_interval(seconds: i64) -> Result<(), MirrorError> {
    let range = Mirror::LEAST_INTERVAL_SECONDS..=Mirror::GREATEST_INTERVAL_SECONDS;
    if seconds == 0 || range.contains(&seconds) { Ok(()) } else { Err(MirrorError::Interval) }
}

fn pending(tx: &mut dyn Transaction, id: DatabaseId) -> Result<Option<Operation>, PortError> {
    Ok(tx.operations().pending(id)?.into_iter().find(|operation| operation.work == Work::MirrorSync))
}

/// Returns what a sync that is due needs. `None` if there is one already, or nothing to sync.
fn begins(tx: &mut dyn Transaction, mirror: &Mirror) -> Result<Option<(Database, User)>, PortError> {
    if pending(tx, mirror.database_id)?.is_some() {
        return Ok(None);
    }
    let database = crate::access::visibility::find_live(tx, mirror.database_id)?;
    let creator = tx.users().get(mirror.created_by)?;
    Ok(database.zip(creator))
}
