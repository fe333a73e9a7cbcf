//! The engine, and how its calls keep to the protocol.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{DatabaseFiles, DatabaseStore, Engine, EngineError, Ids};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_segments::{
    DatabaseFile, Epoch, Error, FileError, FileStatus, Holder, Known, Lead, Limits, ObjectsError, Outcome, Ports,
    Records, RecordsError, Shipped, State, run,
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::lease::NodeKeeper;
use crate::local_file::NodeFile;
use crate::objects::{RandomNonces, StoredObjects, Traffic};

/// Most commits that are noted of a database.
const SEEN_MAX: usize = 1_000;

/// Leases that are released at once.
const RELEASES: usize = 8;

/// How often a lease is taken from other nodes for one call.
const TAKEN_OVER: usize = 5;

/// How often a file is compared with the durable bytes at most because a read found it damaged. That reads the whole file.
const DISTRUST_EVERY: Duration = Duration::from_secs(60);

/// The rows of databases in the metadata store.
pub trait RecordSource: Send + Sync + 'static {
    /// The row of one database.
    type Records: Records<Unit = (), Refusal = Infallible> + Send + Sync;

    /// Returns the row of a database, which is made with its first use.
    fn records(&self, database: DatabaseId) -> Self::Records;

    /// Returns `true` if a database names the objects of another one until its file is made ([`Engine::copy_later`]).
    ///
    /// # Errors
    /// [`RecordsError`].
    fn is_put_off(&self, database: DatabaseId) -> Result<bool, RecordsError>;

    /// Takes the lease of a database from its holder ([`Record::withdraw`](branchyard_segments::Record::withdraw)).
    ///
    /// # Errors
    /// [`RecordsError`].
    fn withdraw(&self, database: DatabaseId, epoch: Epoch) -> Result<(), RecordsError>;

    /// Clears the row of a database ([`Record::clear`](branchyard_segments::Record::clear)), if there is one. The row itself stays, so
    /// that no epoch recurs.
    ///
    /// # Errors
    /// [`RecordsError`].
    fn clear(&self, database: DatabaseId) -> Result<(), RecordsError>;
}

/// Whether the rows are as new as the objects in the store.
///
/// A metadata store that was restored to an earlier time ends the leases of all nodes, because the rows of nodes are older too. So this
/// is asked by each run of a node before it writes.
pub trait RecordAge: Send + Sync {
    /// Returns `Ok` if nothing shows that the rows are older than the store.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if they are, or if that cannot be found out.
    fn require_newest(&self) -> Result<(), EngineError>;
}

/// The nodes that lead databases, as far as this one can ask them to do something.
pub trait Leaders: Send + Sync {
    /// Has the node that leads a database fetch a commit into it ([`Engine::fetch`]). Returns `false` if this node is to do it.
    ///
    /// # Errors
    /// [`EngineError`].
    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<bool, EngineError>;
}

/// What a [`DurableEngine`] works with.
pub struct DurablePorts<S> {
    /// The engine whose files become a cache.
    pub engine: Arc<dyn Engine>,
    /// Its files.
    pub files: Arc<dyn DatabaseFiles>,
    /// The rows of databases.
    pub records: S,
    /// The object store.
    pub store: Arc<dyn DatabaseStore>,
    /// The lease of this node. Without it, calls that write fail.
    pub node: Option<Arc<NodeKeeper>>,
    /// Compares the age of the rows with that of the store. It is asked before the first acquisition of each run of the node.
    pub age: Arc<dyn RecordAge>,
    /// Source of randomness.
    pub ids: Arc<dyn Ids>,
}

pub(crate) type File<R> = DatabaseFile<R, StoredObjects, NodeFile, RandomNonces>;

/// A database on this node.
pub(crate) struct Entry<R> {
    /// The protocol's value. It is locked for as long as a call writes.
    pub(crate) turn: Mutex<File<R>>,
    status: FileStatus,
    node: Option<Arc<NodeKeeper>>,
    /// The last epoch that was withdrawn while a call used it; 0 if there was none. The protocol's value still takes it for its own.
    withdrawn: AtomicU64,
    /// Whether the file may hold commits from elsewhere, whose hashes others know, that are not durable.
    is_behind: AtomicBool,
    /// Commits that were read while another node led the database. Forgotten with a file.
    seen: Mutex<HashSet<CommitHash>>,
    /// Locked by each call that uses the file, and exclusively by what removes it.
    use_of_file: RwLock<()>,
    used_at: Mutex<Instant>,
    distrusted_at: Mutex<Option<Instant>>,
    /// Whether the database is known to have a file of its own, and does not share that of its source.
    pub(crate) is_made: AtomicBool,
    /// Locked by the call that finds out, or makes the file.
    pub(crate) making: Mutex<()>,
}

impl<R> Entry<R> {
    /// Keeps the file from being removed until the returned value is dropped.
    pub(crate) fn begin(&self) -> RwLockReadGuard<'_, ()> {
        *self.used_at.lock() = Instant::now();
        self.use_of_file.read_recursive()
    }

    /// Returns `true` if the file is here.
    fn is_here(&self) -> bool {
        self.status.state().known().is_some()
    }
}

impl<R: Records<Unit = (), Refusal = Infallible>> Entry<R> {
    /// Makes what was committed to a file durable.
    fn ship(&self, file: &mut File<R>) -> Result<(), EngineError> {
        let lost = |what: &str| Err(EngineError::Unavailable(format!("the write was not made durable: {what}")));
        match run(file.ship(&[], &())).map_err(of_protocol)? {
            Shipped::Saved => {
                self.is_behind.store(false, Ordering::SeqCst);
                Ok(())
            }
            Shipped::Refused(never) => match never {},
            // No ref names the commit yet, so it is garbage, durable or not.
            Shipped::Fenced => lost("another node writes the database now"),
            Shipped::Lost => lost("the metadata store did not save it"),
            Shipped::Unknown => lost("the metadata store did not answer"),
        }
    }

    /// Returns `true` if no other node can have written the database since this one acquired it. A node that was frozen for longer
    /// than its lease holds finds out by this, before it has heard of a successor.
    fn is_leading(&self) -> bool {
        let is_present = |node: &Arc<NodeKeeper>| self.status.holder().is_some_and(|holder| node.is_present(&holder));
        self.epoch().is_some() && self.node.as_ref().is_some_and(is_present)
    }

    /// Returns the epoch in which this node leads the database, unless it was withdrawn.
    fn epoch(&self) -> Option<Epoch> {
        match self.status.state() {
            State::Leading(_, epoch) if epoch.0 != self.withdrawn.load(Ordering::SeqCst) => Some(epoch),
            _ => None,
        }
    }

    /// Returns `true` if a read at this commit needs nothing from elsewhere, as far as can be said at once.
    pub(crate) fn has(&self, commit: &CommitHash) -> bool {
        let is_made = self.is_made.load(Ordering::SeqCst);
        is_made && (self.is_leading() || (self.is_here() && self.seen.lock().contains(commit)))
    }

    /// Remembers a commit that a read has found.
    pub(crate) fn note(&self, commit: &CommitHash) {
        if self.is_leading() {
            return;
        }
        let mut seen = self.seen.lock();
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(commit.clone());
    }

    /// Has the file compared with the durable bytes before its next use. Returns `false` if that was done not long ago.
    fn distrust(&self) -> bool {
        let mut file = self.turn.lock();
        let mut distrusted_at = self.distrusted_at.lock();
        if distrusted_at.is_some_and(|at| at.elapsed() < DISTRUST_EVERY) {
            return false;
        }
        *distrusted_at = Some(Instant::now());
        file.distrust();
        true
    }

    /// Brings the file to the durable bytes.
    pub(crate) fn follow(&self) -> Result<(), EngineError> {
        let mut file = self.turn.lock();
        let row =
            run(file.ports().records.load(self.status.state().known())).map_err(|error| of_protocol(error.into()))?;
        run(file.follow(&row.position())).map_err(of_protocol)?;
        // It may be the file of another generation.
        self.seen.lock().clear();
        Ok(())
    }
}

/// Releases the lease of a database.
fn release<R: Records<Unit = (), Refusal = Infallible>>(file: &mut File<R>) {
    if let Err(error) = run(file.release()) {
        tracing::warn!(%error, "the lease of a database ends with that of this node");
    }
}

/// An engine whose databases are durable in an object store.
pub struct DurableEngine<S: RecordSource> {
    pub(crate) ports: DurablePorts<S>,
    databases: Mutex<HashMap<DatabaseId, Arc<Entry<S::Records>>>>,
    traffic: Arc<Traffic>,
    /// The run of the node that has asked for the age of the rows.
    compared: Mutex<Option<Holder>>,
    /// Whether other nodes are to write the databases.
    is_drained: AtomicBool,
    /// Those that lead databases. Absent if there is no way to ask them.
    leaders: OnceLock<Arc<dyn Leaders>>,
}

/// What an engine holds, and what it has moved since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Whether the lease of the node holds.
    pub has_lease: bool,
    /// Whether other nodes are to write the databases.
    pub is_drained: bool,
    /// Databases that this node writes.
    pub led: usize,
    /// Databases whose files are here.
    pub copies: usize,
    /// Bytes of these files that are durable.
    pub copy_bytes: u64,
    /// Segments stored.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: u64,
    /// Ranges of objects read.
    pub gets: u64,
    /// Their bytes.
    pub get_bytes: u64,
}

/// Copies that lack durable bytes of their databases, which others have written. The next read of each brings these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of these copies.
    pub copies: usize,
    /// The bytes that they lack.
    pub bytes: u64,
}

/// What [`DurableEngine::hand_over`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Databases that other nodes can write now.
    pub released: usize,
    /// Databases that are in use.
    pub left: usize,
}

/// Returns an error of the protocol as one of the engine.
pub(crate) fn of_protocol(error: Error) -> EngineError {
    match error {
        Error::Records(_)
        | Error::NotLeading
        | Error::Objects(ObjectsError::Unavailable(_))
        | Error::File(FileError::Failed(_)) => EngineError::Unavailable(error.to_string()),
        Error::Objects(ObjectsError::Absent(_))
        | Error::File(FileError::Damaged(_))
        | Error::Corrupt(_)
        | Error::Incomplete { .. }
        | Error::RecordsOlder { .. } => EngineError::Damaged(error.to_string()),
    }
}

impl<S: RecordSource> DurableEngine<S> {
    /// Creates the engine.
    pub fn new(ports: DurablePorts<S>) -> Self {
        Self {
            ports,
            databases: Mutex::default(),
            traffic: Arc::default(),
            compared: Mutex::default(),
            is_drained: AtomicBool::new(false),
            leaders: OnceLock::new(),
        }
    }

    /// Returns what it holds and has moved.
    pub fn figures(&self) -> Figures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let traffic = &self.traffic;
        let mut figures = Figures {
            has_lease: self.ports.node.as_ref().is_some_and(|node| node.holds()),
            is_drained: self.is_drained.load(Ordering::Relaxed),
            puts: count(&traffic.puts),
            put_bytes: count(&traffic.put_bytes),
            gets: count(&traffic.gets),
            get_bytes: count(&traffic.get_bytes),
            ..Figures::default()
        };
        for entry in self.databases.lock().values() {
            let Some(known) = entry.status.state().known() else { continue };
            figures.copies += 1;
            figures.copy_bytes += known.length;
            figures.led += usize::from(entry.is_leading());
        }
        figures
    }

    /// Returns how far the copies here are behind the rows, which hold what is durable.
    pub fn lag(&self, rows: &HashMap<DatabaseId, Known>) -> Lag {
        let mut lag = Lag::default();
        for (database, entry) in self.databases.lock().iter() {
            let (Some(known), Some(row)) = (entry.status.state().known(), rows.get(database)) else { continue };
            // The rows may have been read before the last write of this node.
            let lacks = match known.generation.cmp(&row.generation) {
                std::cmp::Ordering::Less => row.length,
                std::cmp::Ordering::Equal => row.length.saturating_sub(known.length),
                std::cmp::Ordering::Greater => 0,
            };
            if lacks > 0 && !entry.is_leading() {
                lag.copies += 1;
                lag.bytes += lacks;
            }
        }
        lag
    }

    pub(crate) fn inner(&self) -> &Arc<dyn Engine> {
        &self.ports.engine
    }

    pub(crate) fn entry(&self, database: DatabaseId) -> Arc<Entry<S::Records>> {
        let mut databases = self.databases.lock();
        let entry = databases.entry(database).or_insert_with(|| {
            let DurablePorts { files, records, store, ids, .. } = &self.ports;
            let file = DatabaseFile::new(Ports {
                database: database.to_string(),
                records: records.records(database),
                objects: StoredObjects { database, store: Arc::clone(store), traffic: Arc::clone(&self.traffic) },
                file: NodeFile { files: Arc::clone(files), database, collected: Mutex::default() },
                nonces: RandomNonces(Arc::clone(ids)),
                limits: Limits::default(),
            });
            Arc::new(Entry {
                status: file.status(),
                node: self.ports.node.clone(),
                withdrawn: AtomicU64::new(0),
                turn: Mutex::new(file),
                is_behind: AtomicBool::new(false),
                seen: Mutex::default(),
                use_of_file: RwLock::new(()),
                used_at: Mutex::new(Instant::now()),
                distrusted_at: Mutex::default(),
                is_made: AtomicBool::new(false),
                making: Mutex::default(),
            })
        });
        Arc::clone(entry)
    }

    /// Removes a database. Its objects stay until nothing names them any more.
    pub(crate) fn remove_database(&self, database: DatabaseId) -> Result<(), EngineError> {
        let entry = self.entry(database);
        let mut file = entry.turn.lock();
        self.inner().remove(database)?;
        file.distrust();
        self.ports.records.clear(database).map_err(|error| of_protocol(error.into()))?;
        self.databases.lock().remove(&database);
        Ok(())
    }

    /// Runs `work` in the turn of a database that this node leads.
    fn in_turn<T>(
        &self,
        database: DatabaseId,
        work: impl FnOnce(&Entry<S::Records>, &mut File<S::Records>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let entry = self.entry(database);
        let _call = entry.begin();
        let mut file = entry.turn.lock();
        self.lead(&entry, &mut file)?;
        work(&entry, &mut file)
    }

    /// Runs a call that makes the file of a database anew, in place of an older one if there is one.
    pub(crate) fn make<T>(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.in_turn(database, |entry, file| {
            let is_first = entry.status.state().known().is_none_or(|known| known.length == 0);
            let made = call().and_then(|made| {
                if is_first {
                    entry.ship(file)?
                } else {
                    self.replace_generation(database, file)?
                }
                Ok(made)
            });
            if made.is_err() {
                file.distrust();
            }
            made
        })
    }

    /// Makes the file that is in place the next generation: it has other bytes at the same positions.
    fn replace_generation(&self, database: DatabaseId, file: &mut File<S::Records>) -> Result<(), EngineError> {
        *file.ports().file.collected.lock() = Some(self.ports.files.path(database));
        let ready = file.next_generation().and_then(|next| run(next.prepare())).map_err(of_protocol)?;
        match run(file.switch(ready, &())).map_err(of_protocol)? {
            Outcome::Switched => Ok(()),
            Outcome::NotSwitched | Outcome::Unknown => {
                Err(EngineError::Unavailable("the new file of the database was not made durable".to_owned()))
            }
        }
    }

    /// Takes the lease of a database, unless this node has it.
    fn lead(&self, entry: &Entry<S::Records>, file: &mut File<S::Records>) -> Result<(), EngineError> {
        let Some(node) = &self.ports.node else {
            return Err(EngineError::Unavailable("this process is not a node, and writes no database".to_owned()));
        };
        let holder = node.holder();
        if file.is_leading(&holder) {
            if entry.epoch().is_some() {
                return Ok(());
            }
            release(file);
        }
        self.require_newest_rows(&holder)?;
        match run(file.lead(&holder)).map_err(of_protocol)? {
            Lead::Leading(_) => Ok(()),
            Lead::Held(held) => Err(EngineError::Unavailable(format!(
                "the database is written by another node at the moment ({held:?})"
            ))),
            Lead::Ended => Err(EngineError::Unavailable("the lease of this node has ended".to_owned())),
        }
    }

    fn require_newest_rows(&self, holder: &Holder) -> Result<(), EngineError> {
        if self.compared.lock().as_ref() == Some(holder) {
            return Ok(());
        }
        self.ports.age.require_newest()?;
        *self.compared.lock() = Some(holder.clone());
        Ok(())
    }

    /// Runs a call that writes, as the one that does on this node, and makes what it wrote durable.
    pub(crate) fn write<T>(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.make_ready(database)?;
        self.in_turn(database, |entry, file| {
            let result = call()?;
            entry.ship(file)?;
            Ok(result)
        })
    }

    /// Runs a call that brings commits from elsewhere to a database.
    pub(crate) fn bring(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let entry = self.entry(database);
        self.write(database, || {
            entry.is_behind.store(true, Ordering::SeqCst);
            call()
        })
    }

    /// Takes the lease of a database, and returns what is kept of it here.
    pub(crate) fn leading_entry(&self, database: DatabaseId) -> Result<Arc<Entry<S::Records>>, EngineError> {
        self.make_ready(database)?;
        let entry = self.entry(database);
        self.lead(&entry, &mut entry.turn.lock())?;
        Ok(entry)
    }

    /// Takes the lease of a database, also from another node: what runs there at this moment does not become durable, and is run again.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if another node acquires the lease again and again.
    pub fn take_over(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.make_ready(database)?;
        let entry = self.entry(database);
        let _call = entry.begin();
        let mut led = Ok(());
        for _ in 0..TAKEN_OVER {
            let mut file = entry.turn.lock();
            led = self.lead(&entry, &mut file);
            if led.is_ok() {
                break;
            }
            let row = run(file.ports().records.load(None)).map_err(|error| of_protocol(error.into()))?;
            if row.owner.is_some() {
                self.ports.records.withdraw(database, row.epoch).map_err(|error| of_protocol(error.into()))?;
            }
        }
        led
    }

    /// Copies commits to a database from the file of another one, which is here and in no store, and makes them durable.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the other file lacks one of the commits; other [`EngineError`]s.
    pub fn bring_from_file(
        &self,
        into: DatabaseId,
        file: DatabaseId,
        commits: &[CommitHash],
    ) -> Result<(), EngineError> {
        self.write(into, || commits.iter().try_for_each(|commit| self.inner().fetch(into, file, commit)))
    }

    /// Runs several writes as [`DurableEngine::write`] does, which become durable together or not at all.
    pub(crate) fn write_several<T>(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Vec<Result<T, EngineError>>,
    ) -> Vec<Result<T, EngineError>> {
        if self.is_drained.load(Ordering::Relaxed) {
            // These writes can be queued, and run on another node.
            return vec![Err(EngineError::Unavailable("this node is drained".to_owned()))];
        }
        if let Err(error) = self.make_ready(database) {
            return vec![Err(error)];
        }
        let results = self.in_turn(database, |entry, file| {
            let results = call();
            if results.iter().any(Result::is_ok) {
                entry.ship(file)?;
            }
            Ok(results)
        });
        // If nothing became durable, none of those behind the first one has run, as far as can be seen.
        results.unwrap_or_else(|error| vec![Err(error)])
    }

    /// Runs a call that reads. Brings the file before if it is not here, and afterwards, once, if it lacked a commit.
    pub(crate) fn read<T>(
        &self,
        database: DatabaseId,
        call: impl FnMut() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.read_whole(database, |_| true, call)
    }

    /// Runs a call that reads as [`Self::read`] does, whose result is not whole if something that it asked for is not in the file.
    pub(crate) fn read_whole<T>(
        &self,
        database: DatabaseId,
        is_whole: impl Fn(&T) -> bool,
        mut call: impl FnMut() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        // From before the look on, so that the file is not removed in between.
        let entry = self.entry(database);
        let _call = entry.begin();
        self.make_ready_entry(database, &entry)?;
        if !entry.is_here() {
            entry.follow()?;
            return call();
        }
        let mut result = call();
        let is_lacking = match &result {
            Ok(value) => !is_whole(value),
            Err(error) => matches!(error, EngineError::NoSuchCommit(_)),
        };
        // A lease that was withdrawn by another process is found out by what that one added.
        let is_unknown = matches!(result, Err(EngineError::NoSuchCommit(_)));
        if is_lacking && (is_unknown || !entry.is_leading()) {
            entry.follow()?;
            result = call();
        }
        // The file is a copy: its bytes are compared with the durable ones, and replaced if they differ. An engine may not find a commit
        // because it is damaged.
        if let Err(EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. }) = &result
            && entry.distrust()
        {
            entry.follow()?;
            result = call();
        }
        result
    }

    /// Brings the file of a database to the durable bytes, unless this node writes it.
    pub(crate) fn catch_up(&self, database: DatabaseId) -> Result<(), EngineError> {
        let entry = self.entry(database);
        let _call = entry.begin();
        self.make_ready_entry(database, &entry)?;
        if entry.is_leading() { Ok(()) } else { entry.follow() }
    }

    /// Brings the file of a database here, for a caller that reads it as a file.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Damaged`] if the database has no bytes.
    pub fn bring_here(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.read(database, || self.inner().size_bytes(database).map(drop))
    }

    /// Makes the file of a database anew by `call`, which puts it in place, and makes it durable.
    ///
    /// # Errors
    /// Those of `call`; [`EngineError`].
    pub fn replace(
        &self,
        database: DatabaseId,
        call: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.make(database, call)
    }

    /// Removes the files that were not used for longest, until the others have at most `most` bytes together. Files in use stay. Returns
    /// the number of removed files.
    ///
    /// # Errors
    /// [`EngineError`] if the files cannot be listed.
    pub fn evict(&self, most: u64) -> Result<usize, EngineError> {
        let mut found = Vec::new();
        let mut total = 0;
        for database in self.inner().list()? {
            let Ok(length) = self.inner().size_bytes(database) else { continue };
            total += length;
            let entry = self.databases.lock().get(&database).cloned();
            let used_at = entry.as_ref().map(|entry| *entry.used_at.lock());
            found.push((used_at, length, database, entry));
        }
        // What was not used since the start comes first.
        found.sort_by_key(|(used_at, ..)| *used_at);
        let mut removed = 0;
        for (_, length, database, entry) in found {
            if total <= most {
                break;
            }
            let entry = entry.unwrap_or_else(|| self.entry(database));
            if self.remove_copy(database, &entry, |_| true)? {
                total -= length;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes copies of databases whose durable bytes are others by now: those that were deleted, and those of an earlier generation.
    /// Files in use stay. `rows` has the generation and the durable length of each database. Returns the number of removed files.
    ///
    /// # Errors
    /// [`EngineError`] if the files cannot be listed or removed.
    pub fn remove_outdated(&self, rows: &HashMap<DatabaseId, Known>) -> Result<usize, EngineError> {
        let mut removed = 0;
        for database in self.inner().list()? {
            let Some(row) = rows.get(&database) else { continue };
            let is_outdated = |entry: &Entry<S::Records>| {
                let is_earlier = |known: Known| known.generation < row.generation;
                !entry.is_leading() && (row.length == 0 || entry.status.state().known().is_some_and(is_earlier))
            };
            let entry = self.entry(database);
            if is_outdated(&entry) {
                removed += usize::from(self.remove_copy(database, &entry, is_outdated)?);
            }
        }
        Ok(removed)
    }

    /// Removes the file of a database unless it is in use, if `is_wanted` returns `true` then.
    fn remove_copy(
        &self,
        database: DatabaseId,
        entry: &Entry<S::Records>,
        is_wanted: impl Fn(&Entry<S::Records>) -> bool,
    ) -> Result<bool, EngineError> {
        let (Some(_unused), Some(mut file)) = (entry.use_of_file.try_write(), entry.turn.try_lock()) else {
            return Ok(false);
        };
        if !is_wanted(entry) {
            return Ok(false);
        }
        release(&mut file);
        file.distrust();
        self.inner().remove(database)?;
        Ok(true)
    }

    /// Releases all leases, before the server ends. No call may write afterwards.
    pub fn release(&self) {
        let entries: Vec<_> = self.databases.lock().values().cloned().collect();
        for entry in entries {
            release(&mut entry.turn.lock());
        }
    }

    /// Has fetches into databases that other nodes lead done by these. Counts once.
    pub fn ask_leaders(&self, leaders: Arc<dyn Leaders>) {
        // A second value would be the same one.
        let _ = self.leaders.set(leaders);
    }

    /// Returns `true` if this node leads the database.
    pub fn is_leading(&self, database: DatabaseId) -> bool {
        self.entry(database).is_leading()
    }

    /// Takes the lead of a database, unless another node has it.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if another node leads it, or if the lead cannot be taken.
    pub fn take_lead(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.leading_entry(database).map(drop)
    }

    /// Fetches a commit into a database that this node leads ([`Engine::fetch`]), without asking another one.
    ///
    /// # Errors
    /// Those of [`Engine::fetch`].
    pub fn fetch_here(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError> {
        self.read(from, || match self.has_commit(into, commit)? {
            true => Ok(()),
            false => self.bring(into, || self.inner().fetch(into, from, commit)),
        })
    }

    /// Returns `true` if a commit is in a database, and durable.
    fn has_commit(&self, database: DatabaseId, commit: &CommitHash) -> Result<bool, EngineError> {
        let entry = self.entry(database);
        let _call = entry.begin();
        self.make_ready_entry(database, &entry)?;
        // Asked before and after the look: a call that ended in between has made the commit durable, or not.
        let is_sure = || !entry.is_behind.load(Ordering::SeqCst);
        Ok(entry.is_here() && is_sure() && self.inner().commit(database, commit)?.is_some() && is_sure())
    }

    /// Fetches a commit into a database, on the node that leads it.
    pub(crate) fn fetch_at_leader(
        &self,
        into: DatabaseId,
        from: DatabaseId,
        commit: &CommitHash,
    ) -> Result<(), EngineError> {
        if let Some(leaders) = self.leaders.get()
            && !self.is_leading(into)
            && !self.has_commit(into, commit)?
            && leaders.fetch(into, from, commit)?
        {
            return Ok(());
        }
        self.fetch_here(into, from, commit)
    }

    /// Lets other nodes write the databases, or no longer. While they do, [`Engine::write_batch`] refuses writes, which can run elsewhere.
    /// Other calls take a lease if no other node has it: what cannot be queued, such as a new database, has to be done here.
    pub fn set_drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
    }

    /// Releases the leases of databases so that other nodes can take them: all but those of `busy` databases and those that a call uses
    /// at the moment. With `is_at_once`, the leases of these are withdrawn too: what the calls write does not become durable.
    pub fn hand_over(&self, busy: &HashSet<DatabaseId>, is_at_once: bool) -> HandedOver {
        let led: Vec<_> = {
            let databases = self.databases.lock();
            let is_led = |entry: &Entry<S::Records>| matches!(entry.status.state(), State::Leading(..));
            databases.iter().filter(|(_, entry)| is_led(entry)).map(|(id, entry)| (*id, Arc::clone(entry))).collect()
        };
        let (next, done) = (AtomicUsize::new(0), Mutex::new(HandedOver::default()));
        let work = || {
            while let Some((database, entry)) = led.get(next.fetch_add(1, Ordering::Relaxed)) {
                let is_free = self.hand_over_one(*database, entry, busy.contains(database), is_at_once);
                let mut done = done.lock();
                *(if is_free { &mut done.released } else { &mut done.left }) += 1;
            }
        };
        // Each release waits for the metadata store.
        thread::scope(|scope| {
            for _ in 1..RELEASES.min(led.len()) {
                scope.spawn(work);
            }
            work();
        });
        done.into_inner()
    }

    /// Returns `true` if another node can take the lease of the database.
    fn hand_over_one(&self, database: DatabaseId, entry: &Entry<S::Records>, is_busy: bool, is_at_once: bool) -> bool {
        if is_busy && !is_at_once {
            return false;
        }
        if let Some(mut file) = entry.turn.try_lock() {
            release(&mut file);
            return true;
        }
        let Some(epoch) = entry.epoch() else { return true };
        if !is_at_once {
            return false;
        }
        match self.ports.records.withdraw(database, epoch) {
            Ok(()) => {
                entry.withdrawn.store(epoch.0, Ordering::SeqCst);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot withdraw the lease of a database; it is tried again");
                false
            }
        }
    }

    /// Replaces many small segments of the databases that this node leads by few large ones, where that is due. Returns how many
    /// databases were compacted.
    pub fn compact(&self) -> usize {
        let entries: Vec<_> = self.databases.lock().values().cloned().collect();
        let mut compacted = 0;
        for entry in entries {
            if !entry.is_leading() {
                continue;
            }
            let due = {
                let file = entry.turn.lock();
                match run(file.ports().records.load(None)) {
                    Ok(row) => file.compaction(&row),
                    Err(error) => {
                        tracing::warn!(%error, "cannot look for segments to compact");
                        return compacted;
                    }
                }
            };
            match due.map(|due| run(due.run())) {
                None => {}
                Some(Ok(is_done)) => compacted += usize::from(is_done),
                Some(Err(error)) => {
                    if let Error::File(FileError::Damaged(_)) = error {
                        entry.turn.lock().distrust();
                    }
                    tracing::warn!(%error, "cannot compact the segments of a database");
                }
            }
        }
        compacted
    }
}
