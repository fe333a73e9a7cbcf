//! The leases of databases: acquiring them, and releasing them to other nodes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Holder, Lead, Records as _, State, run};
use parking_lot::Mutex;

use super::entry::release;
use super::{DurableEngine, Entry, File, RecordSource, of_protocol};

/// Leases that are released at once.
const RELEASES: usize = 8;

/// How often a lease is taken from other nodes for one call.
const TAKEN_OVER: usize = 5;

/// What [`DurableEngine::hand_over`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Databases that other nodes can write now.
    pub released: usize,
    /// Databases that are in use.
    pub left: usize,
}

impl<S: RecordSource> DurableEngine<S> {
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

    /// Takes the lease of a database, and returns what is kept of it here.
    pub(crate) fn leading_entry(&self, database: DatabaseId) -> Result<Arc<Entry<S::Records>>, EngineError> {
        self.make_ready(database)?;
        let entry = self.entry(database);
        self.lead(&entry, &mut entry.turn.lock())?;
        Ok(entry)
    }

    /// Takes the lease of a database, unless this node has it.
    pub(super) fn lead(&self, entry: &Entry<S::Records>, file: &mut File<S::Records>) -> Result<(), EngineError> {
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
            Lead::Leading(_) => {
                *entry.led_at.lock() = Instant::now();
                Ok(())
            }
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

    /// Releases all leases, before the server ends. No call may write afterwards.
    pub fn release(&self) {
        let entries: Vec<_> = self.databases.lock().values().cloned().collect();
        for entry in entries {
            release(&mut entry.turn.lock());
        }
    }

    /// Lets other nodes write the databases, or no longer. While they do, [`write_batch`] refuses writes, which can run elsewhere.
    /// Other calls take a lease if no other node has it: what cannot be queued, such as a new database, has to be done here.
    ///
    /// [`write_batch`]: branchyard_domain::ports::Engine::write_batch
    pub fn set_drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
    }

    /// Releases the leases of databases so that other nodes can take them: all but those of `busy` databases and those that a call uses
    /// at the moment. With a `grace`, the leases of these that are older than it are withdrawn too: what the calls write does not become
    /// durable. A younger one was taken by a call for which there is no other node, and which has the time of the grace as well.
    pub fn hand_over(&self, busy: &HashSet<DatabaseId>, grace: Option<Duration>) -> HandedOver {
        let led: Vec<_> = {
            let databases = self.databases.lock();
            let is_led = |entry: &Entry<S::Records>| matches!(entry.status.state(), State::Leading(..));
            databases.iter().filter(|(_, entry)| is_led(entry)).map(|(id, entry)| (*id, Arc::clone(entry))).collect()
        };
        let (next, done) = (AtomicUsize::new(0), Mutex::new(HandedOver::default()));
        let work = || {
            while let Some((database, entry)) = led.get(next.fetch_add(1, Ordering::Relaxed)) {
                let is_free = self.hand_over_one(*database, entry, busy.contains(database), grace);
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
    fn hand_over_one(
        &self,
        database: DatabaseId,
        entry: &Entry<S::Records>,
        is_busy: bool,
        grace: Option<Duration>,
    ) -> bool {
        if is_busy && grace.is_none() {
            return false;
        }
        if let Some(mut file) = entry.turn.try_lock() {
            release(&mut file);
            return true;
        }
        let Some(epoch) = entry.epoch() else { return true };
        if grace.is_none_or(|grace| entry.led_at.lock().elapsed() < grace) {
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
}
