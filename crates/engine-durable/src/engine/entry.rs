//! What an engine keeps of each database, and the steps of the protocol that concern one database only.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::CommitHash;
use branchyard_segments::{DatabaseFile, Epoch, FileStatus, Records, Shipped, State, run};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::of_protocol;
use crate::lease::NodeKeeper;
use crate::local_file::NodeFile;
use crate::objects::{RandomNonces, StoredObjects};

/// Most commits that are noted of a database.
const SEEN_MAX: usize = 1_000;

/// How often a file is compared with the durable bytes at most because a read found it damaged. That reads the whole file.
const DISTRUST_EVERY: Duration = Duration::from_secs(60);

pub(crate) type File<R> = DatabaseFile<R, StoredObjects, NodeFile, RandomNonces>;

/// A database on this node.
pub(crate) struct Entry<R> {
    /// The protocol's value. It is locked for as long as a call writes.
    pub(crate) turn: Mutex<File<R>>,
    pub(super) status: FileStatus,
    node: Option<Arc<NodeKeeper>>,
    /// The last epoch that was withdrawn while a call used it; 0 if there was none. The protocol's value still takes it for its own.
    pub(super) withdrawn: AtomicU64,
    /// Whether the file may hold commits from elsewhere, whose hashes others know, that are not durable.
    pub(super) is_behind: AtomicBool,
    /// Commits that were read while another node led the database. Forgotten with a file.
    seen: Mutex<HashSet<CommitHash>>,
    /// Locked by each call that uses the file, and exclusively by what removes it.
    pub(super) use_of_file: RwLock<()>,
    pub(super) used_at: Mutex<Instant>,
    /// When the lease was taken last.
    pub(super) led_at: Mutex<Instant>,
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
    pub(super) fn is_here(&self) -> bool {
        self.status.state().known().is_some()
    }
}

impl<R: Records<Unit = (), Refusal = Infallible>> Entry<R> {
    /// Creates the entry of a database of which nothing is known yet.
    pub(super) fn new(file: File<R>, node: Option<Arc<NodeKeeper>>) -> Self {
        Self {
            status: file.status(),
            node,
            withdrawn: AtomicU64::new(0),
            turn: Mutex::new(file),
            is_behind: AtomicBool::new(false),
            seen: Mutex::default(),
            use_of_file: RwLock::new(()),
            used_at: Mutex::new(Instant::now()),
            led_at: Mutex::new(Instant::now()),
            distrusted_at: Mutex::default(),
            is_made: AtomicBool::new(false),
            making: Mutex::default(),
        }
    }

    /// Makes what was committed to a file durable.
    pub(super) fn ship(&self, file: &mut File<R>) -> Result<(), EngineError> {
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
    pub(super) fn is_leading(&self) -> bool {
        let is_present = |node: &Arc<NodeKeeper>| self.status.holder().is_some_and(|holder| node.is_present(&holder));
        self.epoch().is_some() && self.node.as_ref().is_some_and(is_present)
    }

    /// Returns the epoch in which this node leads the database, unless it was withdrawn.
    pub(super) fn epoch(&self) -> Option<Epoch> {
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
    pub(super) fn distrust(&self) -> bool {
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
pub(super) fn release<R: Records<Unit = (), Refusal = Infallible>>(file: &mut File<R>) {
    if let Err(error) = run(file.release()) {
        tracing::warn!(%error, "the lease of a database ends with that of this node");
    }
}
