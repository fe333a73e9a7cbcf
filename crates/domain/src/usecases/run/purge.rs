//! Purges: garbage collections that a user asked for. No other operation of the database runs meanwhile.

use std::collections::HashSet;

use super::super::collections::{CollectionEnd, collect, finish};
use super::super::operations::LEASE_SECONDS;
use super::super::put_off_copies::make_forks_of;
use super::super::revisions;
use super::{LeasedRun, RunError, failed};
use crate::access::visibility::find_live;
use crate::entities::{Database, FailureKind, Outcome, Purged, Role};
use crate::errors::PortError;
use crate::ports::Transaction;
use crate::usecases::Inner;
use crate::values::DatabaseId;

/// Number of commits or databases read at a time.
const PAGE: usize = 1_000;
/// Number of commits of a fork that are looked at. A fork with more of its own counts as one that keeps removed commits.
const MOST_OF_FORK: usize = 2_000;

pub(super) fn run(run: &LeasedRun<'_>) -> Result<(), RunError> {
    let (inner, operation) = (run.inner, &run.operation);
    let mut tx = inner.ports.metadata.read()?;
    let (database, _) = run.begin(tx.as_mut(), Role::Admin)?;
    tx.discard();
    // Forks that share the file would keep it.
    make_forks_of(inner, database.id)?;
    let kept_by = forks_that_keep(inner, &database)?;
    let extend = |tx: &mut dyn Transaction| {
        tx.operations().extend_lease(operation.id, run.holder, inner.now().plus_seconds(LEASE_SECONDS))
    };
    let effect = collect(inner, database.id, true, &extend).map_err(|ended| match ended {
        CollectionEnd::DatabaseGone => failed(FailureKind::Canceled, "its database was deleted"),
        CollectionEnd::LeaseLost => RunError::Lost,
        CollectionEnd::Port(fault) => RunError::Port(fault),
    })?;
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    finish(inner, tx.as_mut(), database.id, &effect)?;
    let outcome = Outcome { purged: Some(Purged { freed_bytes: effect.freed_bytes(), kept_by }), ..Outcome::default() };
    run.succeed(tx, outcome, inner.now())
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
