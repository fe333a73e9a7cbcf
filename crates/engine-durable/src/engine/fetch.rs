//! Fetches of commits from one database into another, on the node that leads it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::{DurableEngine, RecordSource};

/// The nodes that lead databases, as far as this one can ask them to do something.
pub trait Leaders: Send + Sync {
    /// Has the node that leads a database fetch a commit into it, as by [`Engine::fetch`](branchyard_domain::ports::Engine::fetch).
    /// Returns `false` if this node is to do it.
    ///
    /// # Errors
    /// [`EngineError`].
    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<bool, EngineError>;
}

impl<S: RecordSource> DurableEngine<S> {
    /// Has fetches into databases that other nodes lead done by these. Counts once.
    pub fn ask_leaders(&self, leaders: Arc<dyn Leaders>) {
        // A second value would be the same one.
        let _ = self.leaders.set(leaders);
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

    /// Fetches a commit into a database that this node leads, as by [`Engine::fetch`](branchyard_domain::ports::Engine::fetch), without
    /// asking another one.
    ///
    /// # Errors
    /// Those of [`Engine::fetch`](branchyard_domain::ports::Engine::fetch).
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
}
