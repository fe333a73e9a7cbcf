//! Garbage collections: what they keep, when they are due, and the loop that runs them in the background.
//!
//! While a collection runs, its holder has a lease on the database, and no operation of the database begins; or an
//! operation of the database, a purge, runs the collection itself. What stores a hash without an operation compares the
//! generation of the database, which the collection increments in the transaction that reads for the last time what is to
//! be kept.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Inner;
use super::databases::live_databases;
use super::engine_files::file_state;
use super::operations::LEASE_SECONDS;
use super::put_off_copies;
use super::ref_log::{kept_seconds, kept_since};
use super::texts;
use crate::access::visibility::find_live;
use crate::entities::{Database, DatabaseLocator, FileState};
use crate::errors::{AccessError, PortError};
use crate::ports::{
    Collected, DueCollection, Durability, EngineError, KeptHeads, MetadataError, SizeChange, Transaction, WriteKey,
    WriteKeys,
};
use crate::values::{CommitHash, DatabaseId, DatabaseName, OwnerName, Timestamp};

/// Number of commits or databases read at a time.
const PAGE: usize = 1_000;
/// Number of due collections from which the next one is chosen.
const LOOKED_AT: usize = 200;
/// Seconds from the deletion of a ref to the collection, so that one collection serves several deletions.
const AFTER_DELETION_SECONDS: i64 = 1_800;
/// Bytes of garbage below which no collection is due because of them. They must also be half of the file.
const GARBAGE_BYTES: i64 = 64 << 20;

/// The outcome of a step of [`Collections::collect_next`].
#[derive(Debug)]
pub enum CollectionStep {
    /// A database was collected. Its file became smaller by this many bytes.
    Collected(DatabaseId, u64),
    /// Every due database has a running operation. The one that is due for longest starts no other operation before it
    /// is collected.
    Reserved,
    /// There was nothing left to do.
    Dropped,
    /// A collection failed. It is tried again later.
    Failed {
        /// The database.
        database: DatabaseId,
        /// Why it failed.
        error: PortError,
        /// Whether the last collection that ran took effect.
        is_first: bool,
    },
}

/// Use cases of garbage collections in the background.
pub struct Collections<'a>(&'a Inner);

impl<'a> Collections<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Runs the next collection that is due. Returns `None` if none is. `holder` names the caller as `<node>/<name>`; only
    /// one caller of a process is of use, because one collection runs at a time.
    ///
    /// # Errors
    /// [`PortError`] if the metadata store failed. The collection is due again when its lease expires.
    pub fn collect_next(&self, holder: &str) -> Result<Option<CollectionStep>, PortError> {
        let inner = self.0;
        let now = inner.now();
        if inner.ports.metadata.read()?.collections().due(holder, now, 1)?.is_empty() {
            return Ok(None);
        }
        let mut tx = inner.ports.metadata.write(&WriteKeys::server())?;
        let choose = |tx: &mut dyn Transaction| -> Result<Option<DueCollection>, PortError> {
            let mut due = tx.collections().due(holder, now, LOOKED_AT)?;
            let free = due.iter().position(|database| !database.is_busy).unwrap_or(0);
            Ok((free < due.len()).then(|| due.swap_remove(free)))
        };
        let Some(candidate) = choose(tx.as_mut())? else {
            tx.discard();
            return Ok(None);
        };
        tx.hold(&[WriteKey::Database(candidate.database_id)])?;
        // An operation may have begun meanwhile.
        let Some(chosen) = choose(tx.as_mut())?.filter(|chosen| chosen.database_id == candidate.database_id) else {
            tx.discard();
            return Ok(None);
        };
        if !lease(tx.as_mut(), chosen.database_id, holder, now)? {
            return Ok(None);
        }
        tx.commit(Durability::Relaxed)?;
        if chosen.is_busy {
            return Ok(Some(CollectionStep::Reserved));
        }
        self.run(chosen.database_id, holder).map(Some)
    }

    /// Records the sizes of forks whose files were made since the last call, before their first use.
    ///
    /// # Errors
    /// [`PortError`] if the metadata store failed.
    pub fn record_made_forks(&self) -> Result<(), PortError> {
        put_off_copies::record_made(self.0)
    }

    /// Makes the files of forks that were not used yet and that alone keep the former file of a database, which was collected or removed
    /// since. Returns their number. Looks at the folder of all databases.
    ///
    /// # Errors
    /// [`PortError`] if the files cannot be listed.
    pub fn make_forks_of_former_files(&self) -> Result<usize, PortError> {
        put_off_copies::make_outlived(self.0)
    }

    /// Collects a database at once, whether its collection is due or not. For a process that has the data folder to
    /// itself: operations that a former process left running count as ended. Returns the bytes by which the file became
    /// smaller.
    ///
    /// # Errors
    /// [`PortError`] if a port failed.
    pub fn collect_now(&self, database: DatabaseId, holder: &str) -> Result<u64, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(database))?;
        if !lease(tx.as_mut(), database, holder, self.0.now())? {
            return Err(PortError::Unsettled("another process collects this database"));
        }
        tx.commit(Durability::Relaxed)?;
        match self.run(database, holder)? {
            CollectionStep::Collected(_, freed) => Ok(freed),
            CollectionStep::Failed { error, .. } => Err(error),
            CollectionStep::Dropped | CollectionStep::Reserved => Ok(0),
        }
    }

    fn run(&self, database: DatabaseId, holder: &str) -> Result<CollectionStep, PortError> {
        let inner = self.0;
        inner.direct.wait_until_idle(database);
        let extend = |tx: &mut dyn Transaction| extend_lease(inner, tx, database, holder);
        let ended = self.while_leased(database, holder, || collect(inner, database, false, &extend));
        let mut tx = inner.ports.metadata.write(&WriteKeys::database(database))?;
        let step = match ended {
            Ok(effect) => {
                finish(inner, tx.as_mut(), database, &effect)?;
                CollectionStep::Collected(database, effect.freed_bytes())
            }
            Err(CollectionEnd::DatabaseGone | CollectionEnd::LeaseLost) => CollectionStep::Dropped,
            Err(CollectionEnd::Port(error)) => {
                let mut record = tx.collections().get(database)?;
                let is_first = record.failures == 0;
                record.fail(inner.now());
                tx.collections().put(database, &record)?;
                CollectionStep::Failed { database, error, is_first }
            }
        };
        let mut record = tx.collections().get(database)?;
        record.release(holder);
        tx.collections().put(database, &record)?;
        tx.commit(Durability::Synced)?;
        // Operations of the database may run again.
        inner.wake.one();
        Ok(step)
    }

    /// Runs `work` and extends the lease on the database meanwhile. After a crash the lease thus expires soon.
    fn while_leased<T>(
        &self,
        database: DatabaseId,
        holder: &str,
        work: impl FnOnce() -> Result<T, CollectionEnd>,
    ) -> Result<T, CollectionEnd> {
        let inner = self.0;
        let extend = || -> Result<(), PortError> {
            let mut tx = inner.ports.metadata.write(&WriteKeys::database(database))?;
            extend_lease(inner, tx.as_mut(), database, holder)?;
            Ok(tx.commit(Durability::Unsynced)?)
        };
        let period = Duration::from_secs(u64::try_from(LEASE_SECONDS / 3).unwrap_or(10));
        let (done, beat) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let keeping = thread::Builder::new().name("collection-lease".to_owned()).spawn_scoped(scope, move || {
                while let Err(mpsc::RecvTimeoutError::Timeout) = beat.recv_timeout(period) {
                    // The next heartbeat makes up for a failed one. A lost lease is noticed before the effect.
                    let _ = extend();
                }
            });
            keeping.map_err(|error| EngineError::Unavailable(format!("no thread to keep the lease by: {error}")))?;
            let ended = work();
            drop(done);
            ended
        })
    }

    /// Makes the collection of a database due now, or those of all databases. Returns these databases.
    ///
    /// # Errors
    /// [`AccessError::NoSuchDatabase`] if there is no database of this owner and name.
    pub fn request(&self, only: Option<(&str, &str)>) -> Result<Vec<(DatabaseId, DatabaseLocator)>, AccessError> {
        let found = self.find(only)?;
        let mut tx = self
            .0
            .ports
            .metadata
            .write(&WriteKeys::none().and_all(found.iter().map(|(database, _)| WriteKey::Database(*database))))?;
        for (database, _) in &found {
            request(tx.as_mut(), *database, self.0.now(), true)?;
        }
        tx.commit(Durability::Synced)?;
        self.0.collection_wake.one();
        Ok(found)
    }

    /// Returns a database, or all databases, by id.
    ///
    /// # Errors
    /// As [`Collections::request`].
    pub fn find(&self, only: Option<(&str, &str)>) -> Result<Vec<(DatabaseId, DatabaseLocator)>, AccessError> {
        let mut tx = self.0.ports.metadata.read()?;
        if let Some((owner, name)) = only {
            let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else {
                return Err(AccessError::NoSuchDatabase);
            };
            let found = tx.databases().by_name(&owner, &name)?.ok_or(AccessError::NoSuchDatabase)?;
            return Ok(vec![(found.id, found.locator)]);
        }
        let mut found = Vec::new();
        for id in live_databases(tx.as_mut())? {
            found.extend(find_live(tx.as_mut(), id)?.map(|database| (id, database.locator)));
        }
        Ok(found)
    }

    /// Ends the leases that a former process of this node left behind. Call it only at the start of the node's process.
    /// Returns their number.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn recover(&self, node: &str) -> Result<u64, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let ended = tx.collections().recover(node)?;
        tx.commit(Durability::Synced)?;
        Ok(ended)
    }

    /// Returns how often a collection became due at once in this process. Pass a count that was read before looking for
    /// work to [`Collections::wait`], so that no signal is missed.
    pub fn signals(&self) -> u64 {
        self.0.collection_wake.count()
    }

    /// Waits until a collection has become due at once since `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.collection_wake.wait(seen, at_most);
    }

    /// Wakes the callers of [`Collections::wait`], because the server shuts down.
    pub fn wake(&self) {
        self.0.collection_wake.all();
    }
}

fn lease(tx: &mut dyn Transaction, database: DatabaseId, holder: &str, now: Timestamp) -> Result<bool, MetadataError> {
    let mut record = tx.collections().get(database)?;
    let is_leased = record.lease(holder, now, now.plus_seconds(LEASE_SECONDS));
    tx.collections().put(database, &record)?;
    Ok(is_leased)
}

fn extend_lease(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: DatabaseId,
    holder: &str,
) -> Result<bool, MetadataError> {
    let now = inner.now();
    let mut record = tx.collections().get(database)?;
    if !record.extend_lease(holder, now, now.plus_seconds(LEASE_SECONDS)) {
        return Ok(false);
    }
    tx.collections().put(database, &record)?;
    Ok(true)
}

/// Requests a collection of a database at `at`, or earlier if one is due earlier. After the commit of an urgent request, the
/// caller wakes the collector.
pub(super) fn request(
    tx: &mut dyn Transaction,
    database: DatabaseId,
    at: Timestamp,
    is_urgent: bool,
) -> Result<(), MetadataError> {
    let mut record = tx.collections().get(database)?;
    record.request(at, is_urgent);
    tx.collections().put(database, &record)
}

/// Requests the collection of what a ref of a database is leaving behind. It is kept for [`super::Limits::history_seconds`] and at
/// least for [`super::Limits::remote_grace_seconds`], and is collected within an hour after that.
pub(super) fn commit_left_behind(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: DatabaseId,
    now: Timestamp,
) -> Result<(), MetadataError> {
    request(tx, database, now.plus_seconds(kept_seconds(inner) + AFTER_DELETION_SECONDS), false)
}

/// Records the present state of the file of a database, if the database is live. Returns `true` if the size changed. Requests a
/// collection if there is much garbage.
pub(super) fn record_file(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: DatabaseId,
    change: SizeChange,
    now: Timestamp,
) -> Result<bool, PortError> {
    let Some(mut known) = find_live(tx, database)? else { return Ok(false) };
    let file = file_state(inner, database)?;
    if file.size_bytes == known.size_bytes {
        return Ok(false);
    }
    tx.databases().record_file(database, file, change)?;
    if change == SizeChange::Wasted {
        known.size_bytes = file.size_bytes;
        if has_much_garbage(&known) {
            request(tx, database, now, false)?;
        }
    }
    Ok(true)
}

fn has_much_garbage(database: &Database) -> bool {
    let garbage = database.garbage_bytes();
    garbage >= GARBAGE_BYTES && garbage >= database.size_bytes.saturating_sub(garbage)
}

/// Why a collection took no effect.
pub(super) enum CollectionEnd {
    /// The database was deleted.
    DatabaseGone,
    /// The lease was lost, and operations of the database may run.
    LeaseLost,
    /// A port failed.
    Port(PortError),
}

impl<E: Into<PortError>> From<E> for CollectionEnd {
    fn from(error: E) -> Self {
        Self::Port(error.into())
    }
}

/// A collection that took effect.
pub(super) struct Effect {
    collected: Collected,
    /// Number of requests that were recorded when the collection began. What was deleted after that may still be in the
    /// file.
    answered: u64,
}

impl Effect {
    pub(super) fn freed_bytes(&self) -> u64 {
        self.collected.before.saturating_sub(self.collected.after)
    }
}

type ExtendLease<'a> = &'a dyn Fn(&mut dyn Transaction) -> Result<bool, MetadataError>;

/// Collects a database. With `ignores_history`, what refs left behind is not kept any longer. `extend` extends the lease under which
/// no operation of the database runs.
pub(super) fn collect(
    inner: &Inner,
    database: DatabaseId,
    ignores_history: bool,
    extend: ExtendLease<'_>,
) -> Result<Effect, CollectionEnd> {
    // A collection takes as much space as the file and a core for seconds.
    let _only = inner.collecting.lock();
    let mut kept = Kept { inner, database, ignores_history, extend, answered: 0, ended: None };
    let collected = inner.ports.engine.collect(database, &mut kept);
    if let Some(ended) = kept.ended {
        return Err(ended);
    }
    let answered = kept.answered;
    let collected = match collected {
        Ok(collected) => collected,
        // Deleting a database removes its file, possibly while it is read.
        Err(_) if find_live(inner.ports.metadata.read()?.as_mut(), database)?.is_none() => {
            return Err(CollectionEnd::DatabaseGone);
        }
        Err(error) => return Err(error.into()),
    };
    inner.fetches.forget_previews(database);
    texts::remove_of_lost_commits(inner, database)?;
    Ok(Effect { collected, answered })
}

/// Records a collection that took effect.
pub(super) fn finish(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: DatabaseId,
    effect: &Effect,
) -> Result<(), MetadataError> {
    let size_bytes = i64::try_from(effect.collected.after).unwrap_or(i64::MAX);
    // The collection wrote the file anew.
    let file = FileState { size_bytes, engine_format: inner.ports.engine.newest_format() };
    tx.databases().record_file(database, file, SizeChange::Collected)?;
    let first = tx.ref_log().first_left_behind(database)?;
    let next = first.map(|at| at.plus_seconds(kept_seconds(inner) + AFTER_DELETION_SECONDS));
    let later = inner.now().plus_seconds(AFTER_DELETION_SECONDS);
    let mut record = tx.collections().get(database)?;
    record.finish(effect.answered, next, later);
    tx.collections().put(database, &record)
}

/// Returns the commits that a database has to keep, with those that its refs left behind after `left_since`.
pub(super) fn kept_commits(
    tx: &mut dyn Transaction,
    database: DatabaseId,
    left_since: Option<Timestamp>,
) -> Result<Vec<CommitHash>, MetadataError> {
    let mut kept: Vec<CommitHash> = Vec::new();
    loop {
        let page = tx.refs().kept_commits(database, left_since, kept.last(), PAGE)?;
        let is_last = page.len() < PAGE;
        kept.extend(page);
        if is_last {
            return Ok(kept);
        }
    }
}

/// What a collection keeps.
struct Kept<'a> {
    inner: &'a Inner,
    database: DatabaseId,
    ignores_history: bool,
    extend: ExtendLease<'a>,
    answered: u64,
    /// Why the collection has to end.
    ended: Option<CollectionEnd>,
}

impl Kept<'_> {
    fn commits(&self, tx: &mut dyn Transaction) -> Result<Vec<CommitHash>, MetadataError> {
        kept_commits(tx, self.database, (!self.ignores_history).then(|| kept_since(self.inner)))
    }

    fn lacking(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, CollectionEnd> {
        let mut tx = self.inner.ports.metadata.write(&WriteKeys::database(self.database))?;
        if find_live(tx.as_mut(), self.database)?.is_none() {
            return Err(CollectionEnd::DatabaseGone);
        }
        // After the lease is lost, other operations of the database may run.
        if !(self.extend)(tx.as_mut())? {
            return Err(CollectionEnd::LeaseLost);
        }
        let mut lacking = self.commits(tx.as_mut())?;
        lacking.retain(|commit| !covered.contains(commit));
        if lacking.is_empty() {
            match self.ignores_history {
                true => forget_history(self.inner, tx.as_mut(), self.database)?,
                false => drop(tx.ref_log().expire(self.database, Some(kept_since(self.inner)))?),
            }
            tx.databases().next_generation(self.database)?;
            tx.commit(Durability::Synced)?;
        }
        Ok(lacking)
    }
}

impl KeptHeads for Kept<'_> {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        let mut tx = self.inner.ports.metadata.read().map_err(unavailable)?;
        self.answered = tx.collections().get(self.database).map_err(unavailable)?.requests;
        self.commits(tx.as_mut()).map_err(unavailable)
    }

    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        self.lacking(covered).map_err(|ended| {
            self.ended = Some(ended);
            EngineError::Unavailable("the collection ended".into())
        })
    }
}

/// Forgets all changes of the refs of a database.
fn forget_history(inner: &Inner, tx: &mut dyn Transaction, database: DatabaseId) -> Result<(), MetadataError> {
    tx.ref_log().expire(database, None)?;
    let mut record = tx.collections().get(database)?;
    record.history_from = Some(inner.now());
    tx.collections().put(database, &record)
}

pub(super) fn unavailable(error: MetadataError) -> EngineError {
    EngineError::Fault { context: "look up what to keep".into(), source: Box::new(error) }
}
