//! The in-memory metadata store.
//!
//! The state of the store is immutable. A transaction keeps the state with which it began. A write transaction
//! excludes all other writers and changes its own copy of the state, and its commit replaces the state of the store
//! by the copy.

mod accounts;
mod activities;
mod collaborators;
mod collections;
mod databases;
mod deployments;
mod events;
mod hooks;
mod ledger;
mod members;
mod mirrors;
mod oauth;
mod operations;
mod personal_data;
mod pulls;
mod ref_log;
mod refs;
mod releases;
mod sessions;
mod stars;
mod state;
mod tokens;
mod uploads;
mod user_keys;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::FakeFault;
use branchyard_deployments::ports::{DeploymentStore, DeploymentTransaction};
use branchyard_domain::ports::{Durability, Metadata, MetadataError, Transaction, WriteKey, WriteKeys};
use state::MetadataState;

type Result<T> = std::result::Result<T, MetadataError>;

/// A planned failure of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveFault {
    /// Nothing is committed, and the caller gets an error.
    Lost,
    /// The changes are committed, but the caller gets an error, as if the connection had broken before the response.
    Unheard,
}

/// An in-memory metadata store.
#[derive(Debug, Default)]
pub struct MemoryMetadata {
    state: Mutex<Arc<MetadataState>>,
    version: AtomicU64,
    writing: Mutex<bool>,
    written: Condvar,
    faults: Mutex<VecDeque<Option<SaveFault>>>,
}

impl MemoryMetadata {
    /// Plans `times` failures after the next `saves` commits. Replaces an earlier plan.
    pub fn fail_after(&self, saves: usize, times: usize, fault: SaveFault) {
        let plan = std::iter::repeat_n(None, saves).chain(std::iter::repeat_n(Some(fault), times));
        *self.faults.lock() = plan.collect();
    }

    /// Cancels the planned failures. Returns `true` if any commit of the plan was left.
    pub fn no_more_faults(&self) -> bool {
        !std::mem::take(&mut *self.faults.lock()).is_empty()
    }

    fn reading(&self) -> MemoryTransaction<'_> {
        MemoryTransaction { state: Arc::clone(&self.state.lock()), writer: None, keys: WriteKeys::none() }
    }

    fn writing(&self, keys: &WriteKeys) -> MemoryTransaction<'_> {
        let writer = self.seize();
        MemoryTransaction { state: Arc::clone(&self.state.lock()), writer: Some(writer), keys: keys.clone() }
    }

    fn seize(&self) -> Writer<'_> {
        let mut writing = self.writing.lock();
        self.written.wait_while(&mut writing, |writing| *writing);
        *writing = true;
        Writer(self)
    }
}

/// The exclusive right to write. Dropping it admits the next writer.
struct Writer<'a>(&'a MemoryMetadata);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        *self.0.writing.lock() = false;
        self.0.written.notify_one();
    }
}

impl Metadata for MemoryMetadata {
    fn read(&self) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.reading()))
    }

    fn write(&self, keys: &WriteKeys) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.writing(keys)))
    }

    fn version(&self) -> Option<u64> {
        Some(self.version.load(Ordering::SeqCst))
    }

    fn scrub(&self) -> Result<()> {
        Ok(())
    }
}

impl DeploymentStore for MemoryMetadata {
    fn read_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>> {
        Ok(Box::new(self.reading()))
    }

    fn write_deployments(&self, keys: &WriteKeys) -> Result<Box<dyn DeploymentTransaction + '_>> {
        Ok(Box::new(self.writing(keys)))
    }
}

/// A transaction: a state, and the right to write unless the transaction is read-only.
struct MemoryTransaction<'a> {
    state: Arc<MetadataState>,
    writer: Option<Writer<'a>>,
    keys: WriteKeys,
}

impl MemoryTransaction<'_> {
    /// Panics if the transaction writes without a key. Writers exclude each other here in any case, but not in every store.
    #[track_caller]
    fn needs(&self, key: WriteKey) {
        if self.writer.is_some() {
            self.keys.require(key);
        }
    }

    /// Returns the transaction's own copy of the state.
    fn change(&mut self) -> Result<&mut MetadataState> {
        if self.writer.is_none() {
            return Err(MetadataError::Fault {
                context: "write",
                source: Box::new(FakeFault("the transaction only reads")),
            });
        }
        Ok(Arc::make_mut(&mut self.state))
    }
}

impl Transaction for MemoryTransaction<'_> {
    fn hold(&mut self, keys: &[WriteKey]) -> Result<()> {
        self.keys.take_further(keys);
        Ok(())
    }

    fn commit(self: Box<Self>, _: Durability) -> Result<()> {
        self.commit_notifying(&mut || ())
    }

    fn commit_notifying(self: Box<Self>, on_visible: &mut dyn FnMut()) -> Result<()> {
        let Some(Writer(store)) = &self.writer else { return Ok(()) };
        let fault = store.faults.lock().pop_front().flatten();
        if fault != Some(SaveFault::Lost) {
            *store.state.lock() = Arc::clone(&self.state);
            store.version.fetch_add(1, Ordering::SeqCst);
            on_visible();
        }
        match fault {
            None => Ok(()),
            Some(_) => Err(MetadataError::Unavailable(Box::new(FakeFault("a fault that a test planned")))),
        }
    }

    fn discard(self: Box<Self>) {}
}

/// Returns at most `limit` items.
fn page<T>(items: impl Iterator<Item = T>, limit: usize) -> Vec<T> {
    items.take(limit).collect()
}

/// Creates an error for a reference to a row that does not exist.
fn missing(context: &'static str) -> MetadataError {
    MetadataError::Fault { context, source: Box::new(FakeFault("it refers to something that is not there")) }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
