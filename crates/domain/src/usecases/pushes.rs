//! Pushes: clients of the engine upload chunks, then have a branch or a tag moved to a commit that they make up.
//!
//! The move is an operation, so it has the database to itself, and outlives the request that asked for it. A client that repeats
//! its request joins the operation.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;

use super::branches::writes_to;
use super::operations::{enqueue, save_queued};
use super::remotes::{PresentRefs, RemoteRefs, present_refs, read_refs};
use super::{Branches, Inner, Tags, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{
    Branch, FailureKind, Operation, OperationKind, OperationStatus, PushRequest, PushTarget, RefKind, Tag, Work,
};
use crate::errors::{OperationError, PortError, RefError, RemoteError};
use crate::ports::{
    HeldChunk, NextChunk, OperationFilter, PushedChunks, PushedChunksLoad, Pusher, Transaction, WriteKeys,
};
use crate::values::{AccountId, ChunkHash, CommitHash, DatabaseId, OperationId, RefName, Timestamp};

/// Seconds for which a request that is repeated gets the result of the operation that it began.
const RESULT_KEPT_SECONDS: i64 = 60;
/// Number of the newest pushes of a database among which a repeated request is looked for.
const LOOKED_AT: usize = 16;

/// A change of one ref that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefChange {
    /// Create or move a branch or a tag.
    Set {
        /// The branch or tag.
        target: PushTarget,
        /// The commit that it is to name.
        commit: CommitHash,
    },
    /// Delete a branch or a tag.
    Delete {
        /// What it is.
        kind: RefKind,
        /// Its name.
        name: RefName,
    },
}

/// How far a change of a ref has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushStep {
    /// The ref is as the client wants it.
    Done,
    /// An operation makes the change. [`Pushes::result`] returns its result when it has settled.
    Begun(OperationId),
}

/// The pushes whose callers were not answered when they ended, or have not ended, each with the time from which it counts.
#[derive(Default)]
pub(crate) struct UnansweredPushes(Mutex<HashMap<OperationId, Timestamp>>);

impl UnansweredPushes {
    /// Adds a push, and forgets those that no one came back for.
    fn add(&self, id: OperationId, now: Timestamp) {
        let mut unanswered = self.0.lock();
        // A push may take as long as an operation does.
        const FORGOTTEN_AFTER_SECONDS: i64 = 3_600;
        unanswered.retain(|_, at| at.plus_seconds(FORGOTTEN_AFTER_SECONDS) > now);
        unanswered.insert(id, now);
    }

    fn take(&self, id: OperationId) -> bool {
        self.0.lock().remove(&id).is_some()
    }
}

/// Use cases of pushes.
pub struct Pushes<'a>(&'a Inner);

impl<'a> Pushes<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns for each chunk whether the user need not upload it: the user has uploaded it, or the database has it. A commit that
    /// no branch, tag or pull request of the database reaches has to be uploaded, so that knowing its hash is not
    /// enough to adopt it.
    ///
    /// # Errors
    /// [`RemoteError::NoPushes`].
    pub fn has(&self, access: &DatabaseAccess<Write>, hashes: &[ChunkHash]) -> Result<Vec<bool>, RemoteError> {
        let id = access.database().id;
        let mut has = self.store()?.holds(pusher(access), hashes);
        let asked: Vec<ChunkHash> = hashes.iter().zip(&has).filter(|(_, has)| !**has).map(|(hash, _)| *hash).collect();
        if asked.is_empty() {
            return Ok(has);
        }
        let held = self.0.ports.engine.held_chunks(id, &asked)?;
        let (mut commits, mut parents) = (Vec::new(), Vec::new());
        for (hash, held) in asked.iter().zip(&held) {
            if let Some(HeldChunk::Commit(of_commit)) = held {
                commits.push(hash.as_commit());
                parents.push(of_commit.clone());
            }
        }
        let mut is_shown = revisions::all_held(self.0, id, &commits, &parents)?.into_iter();
        let mut found = held.into_iter().map(|held| match held {
            Some(HeldChunk::Commit(_)) => is_shown.next().unwrap_or_default(),
            Some(HeldChunk::Content) => true,
            None => false,
        });
        for has in has.iter_mut().filter(|has| !**has) {
            *has = found.next().unwrap_or_default();
        }
        Ok(has)
    }

    /// Keeps the chunks that `next` returns for a push of the user. No one else can read or use them. `next` may wait for the
    /// client.
    ///
    /// # Errors
    /// [`RemoteError::WrongHash`]; [`RemoteError::TooLarge`] above [`Limits::push_bytes`](super::Limits::push_bytes);
    /// [`RemoteError::NoPushes`]; [`PortError::Blobs`] also if `next` fails. Nothing is kept then.
    pub fn upload(&self, access: &DatabaseAccess<Write>, next: &mut NextChunk<'_>) -> Result<(), RemoteError> {
        let store = self.store()?;
        let mut wrong = None;
        let mut verified = || {
            let found = next()?;
            match &found {
                Some((hash, content)) if ChunkHash::of(content) != *hash => {
                    wrong = Some(*hash);
                    Err(io::ErrorKind::InvalidData.into())
                }
                _ => Ok(found),
            }
        };
        let at_most = self.0.limits.push_bytes;
        let added = store.add(pusher(access), &mut verified, at_most, self.0.now());
        if let Some(hash) = wrong {
            return Err(RemoteError::WrongHash(hash));
        }
        if added? { Ok(()) } else { Err(RemoteError::TooLarge(at_most)) }
    }

    /// Makes a change, or begins an operation that makes it. `seen` is the hash of the branches and tags that the client has seen,
    /// by which a repeated request is recognized. `is_seen` returns `true` for the present branches and tags if the client has seen
    /// these; its argument is `None` as long as nothing was written to the database.
    ///
    /// # Errors
    /// [`RemoteError::RefsChanged`]; [`RemoteError::NoSuchRef`]; [`RemoteError::NotFastForward`] for the deletion of the default
    /// branch; [`RemoteError::InUse`] if a release uses the tag; [`RemoteError::Busy`]; [`RemoteError::Quota`];
    /// [`RemoteError::NoPushes`]; those of [`Pushes::result`] for a repeated request.
    pub fn change(
        &self,
        access: &DatabaseAccess<Write>,
        change: &RefChange,
        seen: ChunkHash,
        is_seen: &dyn Fn(Option<&RemoteRefs>) -> bool,
    ) -> Result<PushStep, RemoteError> {
        self.store()?;
        let earlier = match change {
            RefChange::Set { target, commit } => self.repeated(access, target, commit, seen)?,
            RefChange::Delete { .. } => None,
        };
        if let Some(PushStep::Begun(id)) = earlier {
            return Ok(PushStep::Begun(id));
        }
        let present = present_refs(self.0, access.database().id)?;
        if !is_seen(present.shown()) {
            // The earlier push changed what the client had seen. If that is there again, it was undone, and the request is a new one.
            return earlier.ok_or(RemoteError::RefsChanged);
        }
        match change {
            RefChange::Delete { kind, name } => self.delete(access, *kind, name, &present),
            RefChange::Set { target, commit } => self.set(access, target, commit, seen, &present),
        }
    }

    fn store(&self) -> Result<&'a dyn PushedChunks, RemoteError> {
        self.0.ports.pushed_chunks.as_deref().ok_or(RemoteError::NoPushes)
    }

    /// Returns the step of an earlier request of the user for the same change.
    fn repeated(
        &self,
        access: &DatabaseAccess<Write>,
        target: &PushTarget,
        commit: &CommitHash,
        seen: ChunkHash,
    ) -> Result<Option<PushStep>, RemoteError> {
        let (id, user) = (access.database().id, access.who().id);
        let is_same = |operation: &Operation| {
            matches!(&operation.work, Work::Push(other)
                if operation.created_by == user && other.target == *target && other.commit == *commit && other.seen == seen)
        };
        let mut tx = self.0.ports.metadata.read()?;
        if let Some(pending) = tx.operations().pending(id)?.into_iter().find(is_same) {
            return Ok(Some(PushStep::Begun(pending.id)));
        }
        const KINDS: &[OperationKind] = &[OperationKind::Push];
        let filter = OperationFilter { state: None, kinds: Some(KINDS) };
        let newest = tx.operations().list(id, filter, None, LOOKED_AT)?;
        drop(tx);
        let since = self.0.now().plus_seconds(-RESULT_KEPT_SECONDS);
        let Some(found) = newest.into_iter().find(is_same) else { return Ok(None) };
        if found.finished_at.is_none_or(|at| at < since) {
            return Ok(None);
        }
        match &found.status {
            OperationStatus::Succeeded(_) => Ok(Some(PushStep::Done)),
            // After an answer, the request is a new one: the client may have uploaded what was missing.
            _ if self.0.unanswered_pushes.take(found.id) => result_of(&found).map(|()| None),
            _ => Ok(None),
        }
    }

    fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        kind: RefKind,
        name: &RefName,
        present: &PresentRefs,
    ) -> Result<PushStep, RemoteError> {
        let refused = |error| match error {
            error @ RefError::DefaultBranch(_) => RemoteError::NotFastForward(error.to_string()),
            error @ RefError::InUse(_) => RemoteError::Busy(error.to_string()),
            error @ RefError::ReleaseUsesTag(_) => RemoteError::InUse(error.to_string()),
            RefError::Changed => RemoteError::RefsChanged,
            RefError::NoSuchBranch(_) | RefError::NoSuchTag(_) => missing(kind, name),
            RefError::Access(error) => error.into(),
            RefError::Port(error) => error.into(),
            other => RemoteError::NotAllowed(other.to_string()),
        };
        match kind {
            RefKind::Branch => {
                let seen = present.refs.branch(name).ok_or_else(|| missing(kind, name))?;
                let is_seen = |branch: &Branch| branch.head == seen.head;
                Branches::new(self.0).delete(access, name.as_str(), Some(&is_seen)).map_err(refused)?;
            }
            RefKind::Tag => {
                let seen = present.refs.tag(name).ok_or_else(|| missing(kind, name))?;
                let is_seen = |tag: &Tag| tag == seen;
                Tags::new(self.0).delete(access, name.as_str(), Some(&is_seen)).map_err(refused)?;
            }
        }
        Ok(PushStep::Done)
    }

    fn set(
        &self,
        access: &DatabaseAccess<Write>,
        target: &PushTarget,
        commit: &CommitHash,
        seen: ChunkHash,
        present: &PresentRefs,
    ) -> Result<PushStep, RemoteError> {
        let (id, now) = (access.database().id, self.0.now());
        let was = match target {
            PushTarget::Branch { .. } if present.is_new => present.refs.branches.first().map(|branch| &branch.head),
            PushTarget::Branch { name, .. } => present.refs.branch(name).map(|branch| &branch.head),
            PushTarget::Tag { name, .. } => present.refs.tag(name).map(|tag| &tag.commit),
        };
        if was == Some(commit) && is_there(target, &present.refs) {
            return Ok(PushStep::Done);
        }
        let request = PushRequest {
            target: target.clone(),
            commit: commit.clone(),
            was: was.cloned(),
            seen,
            replaces_first: present.is_new,
        };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(id))?;
        let database = live(tx.as_mut(), id)?;
        if read_refs(self.0, tx.as_mut(), &database)? != present.refs {
            return Err(RemoteError::RefsChanged);
        }
        match target {
            PushTarget::Tag { name, .. } => refuse_used(tx.as_mut(), id, name)?,
            PushTarget::Branch { name, .. } => {
                let pending = tx.operations().pending(id)?;
                if let Some(other) = pending.into_iter().find(|operation| writes_to(operation, name, tx.as_mut())) {
                    return Err(RemoteError::Busy(RefError::InUse(other.id).to_string()));
                }
            }
        }
        let operation = enqueue(self.0, tx.as_mut(), &database, access.who(), Work::Push(request), now);
        let operation = operation.map_err(|error| match error {
            error @ OperationError::QueueFull(_) => RemoteError::Busy(error.to_string()),
            OperationError::Quota(error) => error.into(),
            OperationError::Access(error) => error.into(),
            OperationError::Port(error) => error.into(),
            other => RemoteError::NotAllowed(other.to_string()),
        })?;
        save_queued(self.0, tx)?;
        Ok(PushStep::Begun(operation.id))
    }

    /// Returns how much is uploaded and not taken over by a push.
    pub fn load(&self) -> PushedChunksLoad {
        self.0.ports.pushed_chunks.as_ref().map(|store| store.load()).unwrap_or_default()
    }

    /// Notes that the caller of a push got no answer. A repeated request then gets it.
    pub fn leave(&self, id: OperationId) {
        self.0.unanswered_pushes.add(id, self.0.now());
    }

    /// Returns `true` if a push has succeeded, `false` if it has not settled.
    ///
    /// # Errors
    /// [`RemoteError::MissingChunks`]; [`RemoteError::Rejected`]; [`RemoteError::NotFastForward`]; [`RemoteError::RefsChanged`];
    /// [`RemoteError::InUse`] if a release uses the tag; [`RemoteError::NotAllowed`]; [`RemoteError::Busy`] if the storage was not
    /// available; [`RemoteError::Internal`].
    pub fn result(&self, id: OperationId) -> Result<bool, RemoteError> {
        let found = self.0.ports.metadata.read()?.operations().get(id)?;
        let operation = found.ok_or(PortError::Unsettled("the record of a push is gone"))?;
        if !operation.settled() {
            return Ok(false);
        }
        self.0.unanswered_pushes.take(id);
        result_of(&operation).map(|()| true)
    }
}

fn pusher(access: &DatabaseAccess<Write>) -> Pusher {
    Pusher { database: access.database().id, user: access.who().id }
}

fn missing(kind: RefKind, name: &RefName) -> RemoteError {
    let kind = match kind {
        RefKind::Branch => "branch",
        RefKind::Tag => "tag",
    };
    RemoteError::NoSuchRef(format!("{kind} '{name}'"))
}

/// Returns `true` if a ref that names the wanted commit is as wanted in all else, too.
fn is_there(target: &PushTarget, refs: &RemoteRefs) -> bool {
    match target {
        PushTarget::Branch { name, .. } => refs.branch(name).is_some(),
        PushTarget::Tag { name, message, tagger, tagged_at } => refs
            .tag(name)
            .is_some_and(|tag| tag.message == *message && tag.tagger == *tagger && tag.tagged_at == *tagged_at),
    }
}

/// Refuses to move a tag that a release uses.
fn refuse_used(tx: &mut dyn Transaction, database: DatabaseId, name: &RefName) -> Result<(), RemoteError> {
    match tx.releases().get(database, name)? {
        Some(_) => Err(RemoteError::InUse(RefError::ReleaseUsesTag(name.to_string()).to_string())),
        None => Ok(()),
    }
}

/// Returns how a settled push ended.
fn result_of(operation: &Operation) -> Result<(), RemoteError> {
    let OperationStatus::Failed(failure) = &operation.status else { return Ok(()) };
    let detail = failure.detail.clone();
    Err(match failure.kind {
        FailureKind::Content => RemoteError::Rejected(detail),
        FailureKind::MergeConflict => RemoteError::NotFastForward(detail),
        FailureKind::NotFound => RemoteError::MissingChunks,
        FailureKind::Conflict => RemoteError::RefsChanged,
        FailureKind::Unprocessable => RemoteError::InUse(detail),
        FailureKind::Canceled | FailureKind::PermissionDenied => RemoteError::NotAllowed(detail),
        FailureKind::Unavailable => RemoteError::Busy(detail),
        FailureKind::Internal => RemoteError::Internal(detail),
    })
}

/// Returns the pusher of an operation.
pub(super) fn pusher_of(operation: &Operation) -> Pusher {
    let user: AccountId = operation.created_by;
    Pusher { database: operation.database_id, user }
}
