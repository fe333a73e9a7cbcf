//! Purges: garbage collections that a user asked for.
//!
//! No other operation of the database runs meanwhile. What stores a hash without an operation compares the generation of
//! the database, which the collection increments in the transaction that reads for the last time what is to be kept.

use std::collections::{BTreeSet, HashSet};

use super::super::operations::LEASE_SECONDS;
use super::super::{revisions, texts};
use super::{LeasedRun, RunError, failed};
use crate::access::visibility::find_live;
use crate::entities::{Database, FailureKind, Outcome, Purged, Role};
use crate::errors::PortError;
use crate::ports::{Durability, EngineError, KeptHeads, MetadataError, Transaction};
use crate::usecases::Inner;
use crate::values::{CommitHash, DatabaseId};

/// Number of commits or databases read at a time.
const PAGE: usize = 1_000;
/// Number of commits of a fork that are looked at. A fork with more of its own counts as one that keeps removed commits.
const MOST_OF_FORK: usize = 2_000;

pub(super) fn run(run: &LeasedRun<'_>) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, _) = run.begin(tx.as_mut(), Role::Admin)?;
    tx.discard();
    // A collection takes as much space as the file and a core for seconds.
    let _only = inner.collecting.lock();
    let kept_by = forks_that_keep(inner, &database)?;
    let mut kept = Kept { run, ended: None };
    let collected = inner.ports.engine.collect(database.id, &mut kept);
    if let Some(ended) = kept.ended {
        return Err(ended);
    }
    let collected = collected?;
    inner.fetches.forget_previews(database.id);
    texts::remove_of_lost_commits(inner, database.id)?;

    let now = inner.now();
    let size = i64::try_from(collected.after).unwrap_or(i64::MAX);
    let mut tx = inner.ports.metadata.write()?;
    if let Some(database) = find_live(tx.as_mut(), database.id)? {
        let written = database.last_write_at.unwrap_or(database.created_at);
        tx.databases().record_write(database.id, written, size)?;
    }
    let freed_bytes = collected.before.saturating_sub(collected.after);
    let outcome = Outcome { purged: Some(Purged { freed_bytes, kept_by }), ..Outcome::default() };
    run.succeed(tx, outcome, now)
}

/// What a purge keeps.
struct Kept<'a, 'r> {
    run: &'a LeasedRun<'r>,
    /// Why the collection has to end.
    ended: Option<RunError>,
}

impl Kept<'_, '_> {
    fn approve(&self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, RunError> {
        let (inner, operation) = (self.run.inner, &self.run.operation);
        let mut tx = inner.ports.metadata.write()?;
        if find_live(tx.as_mut(), operation.database_id)?.is_none() {
            return Err(failed(FailureKind::Canceled, "its database was deleted"));
        }
        // After the lease is lost, other operations of the database may run.
        let until = inner.now().plus_seconds(LEASE_SECONDS);
        if !tx.operations().extend_lease(operation.id, self.run.holder, until)? {
            return Err(RunError::Lost);
        }
        let mut lacking = kept_commits(tx.as_mut(), operation.database_id)?;
        lacking.retain(|commit| !covered.contains(commit));
        if lacking.is_empty() {
            tx.databases().next_generation(operation.database_id)?;
            tx.commit(Durability::Synced)?;
        }
        Ok(lacking)
    }
}

impl KeptHeads for Kept<'_, '_> {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        let mut tx = self.run.inner.ports.metadata.read().map_err(unavailable)?;
        kept_commits(tx.as_mut(), self.run.operation.database_id).map_err(unavailable)
    }

    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        Kept::approve(self, covered).map_err(|ended| {
            self.ended = Some(ended);
            EngineError::Unavailable("the collection ended".into())
        })
    }
}

fn unavailable(error: MetadataError) -> EngineError {
    EngineError::Fault { context: "look up what to keep".into(), source: Box::new(error) }
}

fn kept_commits(tx: &mut dyn Transaction, database: DatabaseId) -> Result<Vec<CommitHash>, MetadataError> {
    let mut kept: Vec<CommitHash> = Vec::new();
    loop {
        let page = tx.refs().kept_commits(database, kept.last(), PAGE)?;
        let is_last = page.len() < PAGE;
        kept.extend(page);
        if is_last {
            return Ok(kept);
        }
    }
}

/// Returns the databases of the fork network whose refs reach commits that the file of `database` holds and its own refs
/// do not reach.
fn forks_that_keep(inner: &Inner, database: &Database) -> Result<Vec<DatabaseId>, RunError> {
    let mut keeping = Vec::new();
    let mut after = None;
    loop {
        let page = inner.ports.metadata.read()?.databases().list_network(database.network_id, after, PAGE)?;
        for fork in page.iter().filter(|fork| fork.id != database.id) {
            match keeps(inner, database.id, fork.id) {
                Ok(true) => keeping.push(fork.id),
                Ok(false) => {}
                // It may have been deleted meanwhile.
                Err(_) if find_live(inner.ports.metadata.read()?.as_mut(), fork.id)?.is_none() => {}
                Err(error) => return Err(error.into()),
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.id),
            _ => return Ok(keeping),
        }
    }
}

fn keeps(inner: &Inner, database: DatabaseId, fork: DatabaseId) -> Result<bool, PortError> {
    let engine = &inner.ports.engine;
    let mut named = None;
    let mut seen = HashSet::new();
    loop {
        let page = inner.ports.metadata.read()?.refs().named_commits(fork, named.as_ref(), PAGE)?;
        let mut next = page.clone();
        while let Some(commit) = next.pop() {
            // What the database reaches stays there, with all its ancestors.
            if !seen.insert(commit.clone()) || revisions::held(inner, database, &commit)? {
                continue;
            }
            if seen.len() > MOST_OF_FORK || engine.commit(database, &commit)?.is_some() {
                return Ok(true);
            }
            next.extend(engine.commit(fork, &commit)?.into_iter().flat_map(|commit| commit.parents));
        }
        match page.last() {
            Some(last) if page.len() == PAGE => named = Some(last.clone()),
            _ => return Ok(false),
        }
    }
}
