//! Forks of databases.

use std::collections::BTreeSet;

use super::super::databases::has_room;
use super::{LeasedRun, RunError, failed};
use crate::access::ownership::{NewOwner, may_create_for};
use crate::entities::{Database, DatabaseLocator, FailureKind, FileState, Outcome, Role, User};
use crate::ports::{EngineError, KeptHeads, MetadataError, Transaction, WriteKey};
use crate::usecases::Inner;
use crate::usecases::engine_files::file_state;
use crate::values::{AccountId, CommitHash, DatabaseId, OwnerName};

pub(super) fn run(
    run: &LeasedRun<'_>,
    owner_id: AccountId,
    owner: &OwnerName,
    fork_id: DatabaseId,
) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (source, user) = run.begin(tx.as_mut(), Role::Read)?;
    new_owner(tx.as_mut(), &user, owner_id, owner)?;
    tx.discard();

    // Remove the copies of earlier attempts that could not settle, for example because the metadata store was unavailable.
    // Their leases have ended, so they never will.
    for earlier in 1..run.operation.attempts {
        inner.ports.engine.remove(copy_of(fork_id, earlier))?;
    }
    let fork_id = copy_of(fork_id, run.operation.attempts);
    // No other operation of the source runs meanwhile, so the copy holds every commit that a ref can name when the fork is
    // settled.
    let settled = if inner.ports.engine.copy_later(source.id, fork_id)? {
        settle(run, owner_id, owner, fork_id, None)
    } else {
        // The fork must not hold what the source has deleted, and what only its pull requests brought.
        let mut kept = SourceRefs { inner, source: source.id, covered: BTreeSet::new() };
        if let Err(error) = inner.ports.engine.collect(fork_id, &mut kept) {
            inner.ports.engine.remove(fork_id)?;
            return Err(error.into());
        }
        settle(run, owner_id, owner, fork_id, Some(&kept))
    };
    if matches!(settled, Err(RunError::Failed(_) | RunError::Lost)) {
        inner.ports.engine.remove(fork_id)?;
    }
    settled
}

/// The commits that a fork keeps: those of the branches and tags of its source.
struct SourceRefs<'a> {
    inner: &'a Inner,
    source: DatabaseId,
    /// The commits that the fork holds.
    covered: BTreeSet<CommitHash>,
}

impl SourceRefs<'_> {
    /// Returns the commits that the fork lacks, as `tx` sees the refs of the source.
    fn lacking(&self, tx: &mut dyn Transaction) -> Result<Vec<CommitHash>, MetadataError> {
        /// Number of refs read at a time.
        const PAGE: usize = 1_000;
        let mut named = BTreeSet::new();
        let mut after: Option<String> = None;
        loop {
            let page = tx.branches().list(self.source, after.as_deref(), PAGE)?;
            after = page.last().filter(|_| page.len() == PAGE).map(|branch| branch.name.to_string());
            named.extend(page.into_iter().map(|branch| branch.head));
            if after.is_none() {
                break;
            }
        }
        loop {
            let page = tx.tags().list(self.source, after.as_deref(), PAGE)?;
            after = page.last().filter(|_| page.len() == PAGE).map(|tag| tag.name.to_string());
            named.extend(page.into_iter().map(|tag| tag.commit));
            if after.is_none() {
                break;
            }
        }
        Ok(named.into_iter().filter(|commit| !self.covered.contains(commit)).collect())
    }

    fn look(&self) -> Result<Vec<CommitHash>, EngineError> {
        let look = || self.lacking(self.inner.ports.metadata.read()?.as_mut());
        look().map_err(|error| EngineError::Fault { context: "look up the refs".into(), source: Box::new(error) })
    }
}

impl KeptHeads for SourceRefs<'_> {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        self.look()
    }

    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        self.covered.clone_from(covered);
        self.look()
    }
}

/// Returns the id of the database that an attempt copies to. Each attempt has its own file: a worker that lost its lease
/// unnoticed may still copy or remove its file after another worker has settled and the fork is in use.
fn copy_of(fork: DatabaseId, attempt: u32) -> DatabaseId {
    let later = u128::from(attempt.saturating_sub(1));
    DatabaseId::from_uuid(uuid::Uuid::from_u128(fork.as_uuid().as_u128() ^ later))
}

/// Returns the account that the fork is for, if the operation's creator may still create databases there. The failure does
/// not name the account, because every reader of the source can read the failure.
fn new_owner(tx: &mut dyn Transaction, user: &User, id: AccountId, name: &OwnerName) -> Result<NewOwner, RunError> {
    let found = may_create_for(tx, user, name.as_str())?.filter(|found| found.id == id);
    found.ok_or_else(|| {
        failed(FailureKind::PermissionDenied, format!("{} may no longer create databases for the new owner", user.name))
    })
}

fn settle(
    run: &LeasedRun<'_>,
    owner_id: AccountId,
    owner: &OwnerName,
    fork_id: DatabaseId,
    kept: Option<&SourceRefs<'_>>,
) -> Result<(), RunError> {
    let inner = run.inner;
    let now = inner.now();
    // A copy that is put off is as large as its source until its own file is made.
    let measured = if kept.is_some() { fork_id } else { run.operation.database_id };
    let FileState { size_bytes, engine_format } = file_state(inner, measured)?;
    let mut tx =
        inner.ports.metadata.write(&run.keys().and(WriteKey::Account(owner_id)).and(WriteKey::Database(fork_id)))?;
    let (source, user) = run.begin(tx.as_mut(), Role::Read)?;
    let owner = new_owner(tx.as_mut(), &user, owner_id, owner)?;
    if let Some(kept) = kept
        && !kept.lacking(tx.as_mut())?.is_empty()
    {
        // A branch or tag was created meanwhile at a commit that only a pull request named before.
        return Err(RunError::Moved);
    }
    if let Err(limit) = has_room(inner, tx.as_mut(), owner.id)? {
        let text = format!("the new owner has reached the limit of {limit} databases");
        return Err(failed(FailureKind::Unprocessable, text));
    }
    let fork = Database {
        id: fork_id,
        owner_id: owner.id,
        locator: DatabaseLocator { owner: owner.name.clone(), name: source.locator.name.clone() },
        description: source.description.clone(),
        visibility: source.visibility,
        default_branch: source.default_branch.clone(),
        anonymous_sql: source.anonymous_sql,
        is_mirror: false,
        parent_id: Some(source.id),
        network_id: source.network_id,
        created_at: now,
        last_write_at: source.last_write_at,
        size_bytes,
        live_bytes: size_bytes,
        engine_format,
        star_count: 0,
        version: 1,
        generation: 0,
        deleted_at: None,
        quarantined_at: None,
    };
    match tx.databases().add(&fork) {
        Err(MetadataError::Taken) => {
            return Err(failed(FailureKind::Unprocessable, "a database of that name already exists"));
        }
        other => other?,
    }
    tx.refs().copy_all(source.id, fork_id)?;
    if owner.role < Role::Admin {
        tx.collaborators().put(fork_id, user.id, Role::Admin, now)?;
    }
    let outcome = Outcome { database: Some((fork_id, fork.locator)), ..Outcome::default() };
    run.succeed(tx, outcome, now)
}
