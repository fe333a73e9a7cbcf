//! Pull requests: opening, previewing, editing, withdrawing and merging them.

use std::collections::BTreeMap;

use super::operations::{enqueue, save_queued};
use super::outbox::emit;
use super::{IdempotencyRecord, Inner, idempotency};
use crate::access::visibility::{deny_like_a_hidden_one, find_live, live, role_of};
use crate::access::{Caller, DatabaseAccess, Level, Participate, Write};
use crate::entities::{
    Branch, Conflict, Database, DatabaseLocator, EventKind, ObjectKind, Operation, Pull, PullAction, PullComment,
    PullContent, PullEnds, PullHeads, PullHidden, PullState, Role, Side, TableChange, User, Work, brought,
    object_changes,
};
use crate::errors::{AccessError, NotShown, OperationError, PortError, PullError};
use crate::ports::{ChangedRows, Durability, EngineError, MetadataError, PullFilter, RowPage, Transaction};
use crate::values::{
    CommentId, CommitHash, DatabaseId, DatabaseName, LongText, OwnerName, PullNumber, RefName, Timestamp, Title,
};

mod fetches;
pub mod rules;

use fetches::PreviewKey;
pub use fetches::Refreshed;
pub(super) use fetches::{Fetches, branch_moved};
use rules::{OpenRequest, OpeningError};

/// Number of pull requests read at a time when a database is deleted or changes its visibility.
const CLOSED_AT_A_TIME: usize = 500;

/// The properties of a new pull request.
#[derive(Debug, Clone)]
pub struct NewPull {
    /// Title of the pull request.
    pub title: Title,
    /// Description of the pull request.
    pub description: Option<LongText>,
    /// Owner and name of the source database, as written by the caller.
    pub from_database: (String, String),
    /// Branch to merge.
    pub from_branch: String,
    /// Owner and name of the target database, as written by the caller.
    pub to_database: (String, String),
    /// Branch to merge into.
    pub to_branch: String,
    /// Whether the author consents to making the source branch public.
    pub publish: bool,
}

/// The states that a user can put a pull request in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedState {
    /// Reopened.
    Open,
    /// Closed.
    Closed,
}

/// Changes to a pull request. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditPull {
    /// New title.
    pub title: Option<Title>,
    /// New description. An empty one removes the description.
    pub description: Option<LongText>,
    /// New state.
    pub state: Option<WantedState>,
    /// Whether the caller consents to making the source branch public; used for reopening.
    pub publish: bool,
}

/// The settings of a merge.
#[derive(Debug, Clone, Default)]
pub struct MergePull {
    /// Message of the merge commit. A default is used if it is absent or blank.
    pub message: Option<LongText>,
    /// The side that wins in each table with conflicts.
    pub resolve: BTreeMap<String, Side>,
}

/// The commits that a pull request lies between. Both heads are in the base file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullEdges {
    /// The merge base.
    pub base: CommitHash,
    /// Head of the target branch.
    pub ours: CommitHash,
    /// Head of the source branch.
    pub theirs: CommitHash,
}

/// The state of a pull request's preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviewStage {
    /// The preview can be shown.
    Ready(PullEdges),
    /// The commits of the source are being fetched.
    Preparing,
    /// [`Pulls::prepare`] has to be called before the preview can be shown.
    Unprepared,
}

/// What a pull request would show, and whether opening it publishes the source branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullPreview {
    /// Whether opening the pull request makes a private branch public.
    pub publishes: bool,
    /// What can be shown.
    pub stage: PreviewStage,
}

/// Proof that a user may withdraw a pull request.
#[derive(Debug, Clone)]
pub struct Withdrawable {
    user: std::sync::Arc<User>,
    base: Database,
    number: PullNumber,
    /// Whether the user may read the base of the pull request.
    pub sees_base: bool,
}

impl Withdrawable {
    /// Returns the user who may withdraw the pull request.
    pub fn who(&self) -> &std::sync::Arc<User> {
        &self.user
    }

    /// Returns the locator of the pull request's base database.
    pub fn base(&self) -> &DatabaseLocator {
        &self.base.locator
    }
}

/// The source and the branches of a pull request.
struct PullRefs {
    source: Database,
    from_branch: Branch,
    to_branch: Branch,
    opening: OpenRequest,
}

/// Use cases of pull requests.
pub struct Pulls<'a>(&'a Inner);

impl<'a> Pulls<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Opens a pull request.
    ///
    /// # Errors
    /// The variants of [`PullError`] about the target, the source, the fork network, the branches and duplicates.
    pub fn open(
        &self,
        access: &DatabaseAccess<Participate>,
        wanted: NewPull,
        once: Option<&IdempotencyRecord<'_, Pull>>,
    ) -> Result<Pull, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut tx = self.0.ports.metadata.write()?;
        let base = live(tx.as_mut(), access.database().id)?;
        if !is_called(&base, &wanted.to_database) {
            return Err(PullError::OtherTarget(base.locator.to_string()));
        }
        let ends =
            self.ends(tx.as_mut(), user, &base, &wanted.from_database, &wanted.from_branch, &wanted.to_branch)?;
        let PullRefs { source, from_branch, to_branch, opening } = ends;
        may_open(OpenRequest { publish: true, ..opening })?;
        if let Some(open) = tx.pulls().find_open(base.id, source.id, &from_branch.name, &to_branch.name)? {
            return Err(PullError::Duplicate(open.number));
        }
        may_open(OpenRequest { publish: wanted.publish, ..opening })?;
        let pull = new_pull(
            tx.as_mut(),
            &base,
            &source,
            (&from_branch, &to_branch),
            wanted.publish,
            user,
            wanted.title,
            wanted.description.map(LongText::into_string),
            now,
        )?;
        self.emit_pull(tx.as_mut(), &pull, PullAction::Opened, user, now)?;
        idempotency::keep(self.0, tx.as_mut(), once, &pull, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        self.wake_for(&pull);
        Ok(pull)
    }

    /// Wakes the worker that has background work for an opened pull request.
    fn wake_for(&self, pull: &Pull) {
        if pull.content.fetch_due_at.is_some() {
            self.0.fetch_wake.one();
        } else {
            // The pull request is open even if this fails. Its first reader then requests the trial merge.
            let _ = fetches::want_trial_of(self.0, pull);
        }
    }

    /// Returns the commits that a pull request between these branches would lie between, without opening it. Fetches
    /// nothing: if the source is another database, [`Pulls::prepare`] fetches its commits first.
    ///
    /// # Errors
    /// As [`Pulls::open`], including [`PullError::Duplicate`] but not [`PullError::NeedsPublish`];
    /// [`PullError::BranchMissing`] if the branches have no common history.
    pub fn preview(
        &self,
        access: &DatabaseAccess<Participate>,
        from_database: &(String, String),
        from_branch: &str,
        to_branch: &str,
    ) -> Result<PullPreview, PullError> {
        let (key, publishes) = self.previewed(access, from_database, from_branch, to_branch)?;
        let engine = &self.0.ports.engine;
        let is_there = key.source == key.base || engine.commit(key.base, &key.theirs)?.is_some();
        let stage = match is_there {
            true => PreviewStage::Ready(edges(self.0, key.base, key.ours, key.theirs)?),
            false => match self.0.fetches.is_ready(&key, self.0.now()) {
                Some(false) => PreviewStage::Preparing,
                Some(true) | None => PreviewStage::Unprepared,
            },
        };
        Ok(PullPreview { publishes, stage })
    }

    /// Queues the fetch of the commits that a preview between these branches needs, once for each pair of heads. The result
    /// is kept for ten minutes.
    ///
    /// # Errors
    /// As [`Pulls::preview`]; [`PullError::TooManyPreviews`] if the user or the server has too many previews.
    pub fn prepare(
        &self,
        access: &DatabaseAccess<Participate>,
        from_database: &(String, String),
        from_branch: &str,
        to_branch: &str,
    ) -> Result<(), PullError> {
        let (key, _) = self.previewed(access, from_database, from_branch, to_branch)?;
        if key.source != key.base {
            if !self.0.fetches.prepare(key, access.who().id, self.0.now()) {
                return Err(PullError::TooManyPreviews);
            }
            self.0.fetch_wake.one();
        }
        Ok(())
    }

    /// Returns the key of a preview, and whether opening the pull request publishes the source branch.
    fn previewed(
        &self,
        access: &DatabaseAccess<Participate>,
        from_database: &(String, String),
        from_branch: &str,
        to_branch: &str,
    ) -> Result<(PreviewKey, bool), PullError> {
        let mut tx = self.0.ports.metadata.read()?;
        let base = live(tx.as_mut(), access.database().id)?;
        let PullRefs { source, from_branch, to_branch, opening } =
            self.ends(tx.as_mut(), access.who(), &base, from_database, from_branch, to_branch)?;
        may_open(OpenRequest { publish: true, ..opening })?;
        if let Some(open) = tx.pulls().find_open(base.id, source.id, &from_branch.name, &to_branch.name)? {
            return Err(PullError::Duplicate(open.number));
        }
        let key = PreviewKey { base: base.id, source: source.id, ours: to_branch.head, theirs: from_branch.head };
        Ok((key, opening.publishes()))
    }

    /// Returns the source and the branches of a pull request to `base`, after checking that they fit together.
    fn ends(
        &self,
        tx: &mut dyn Transaction,
        user: &User,
        base: &Database,
        from_database: &(String, String),
        from_branch: &str,
        to_branch: &str,
    ) -> Result<PullRefs, PullError> {
        let within = is_called(base, from_database);
        if within && from_branch == to_branch {
            return Err(PullError::SameBranch);
        }
        let (source, role) = match within {
            true => (base.clone(), Role::Read),
            false => self.visible_source(tx, user, from_database)?,
        };
        if source.network_id != base.network_id {
            return Err(PullError::OtherNetwork(source.locator.to_string()));
        }
        let from_branch = branch_of(tx, &source, from_branch, true)?;
        let to_branch = branch_of(tx, base, to_branch, false)?;
        let opening = OpenRequest {
            is_within: within,
            source: source.visibility,
            role: Some(role),
            base: base.visibility,
            publish: false,
        };
        Ok(PullRefs { source, from_branch, to_branch, opening })
    }

    fn visible_source(
        &self,
        tx: &mut dyn Transaction,
        user: &User,
        (owner, name): &(String, String),
    ) -> Result<(Database, Role), PullError> {
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else {
            return Err(PullError::NoSuchSource);
        };
        let source = tx.databases().by_name(&owner, &name)?.ok_or(PullError::NoSuchSource)?;
        let role = role_of(tx, Some(user.id), &source)?.ok_or(PullError::NoSuchSource)?;
        Ok((source, role))
    }

    /// Returns a pull request.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`] if the database has no such pull request.
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, number: PullNumber) -> Result<Pull, PullError> {
        self.0.ports.metadata.read()?.pulls().get(access.database().id, number)?.ok_or(PullError::NoSuchPull)
    }

    /// Returns a pull request that the access holder may edit.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`]; [`PullError::NotYours`] if the access holder neither created the pull request nor has the
    /// write role.
    pub fn editable(&self, access: &DatabaseAccess<Participate>, number: PullNumber) -> Result<Pull, PullError> {
        let pull = self.get(access, number)?;
        if pull.creator_id != access.who().id && access.role() < Role::Write {
            return Err(PullError::NotYours);
        }
        Ok(pull)
    }

    /// Returns up to `limit` pull requests before `before`, highest number first.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>, PullError> {
        Ok(self.0.ports.metadata.read()?.pulls().list(access.database().id, filter, before, limit)?)
    }

    /// Edits, closes or reopens a pull request. Requesting the state that it already has changes nothing.
    ///
    /// # Errors
    /// [`PullError::NotYours`], [`PullError::State`], [`PullError::Merging`], [`PullError::Duplicate`],
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`], [`PullError::NotShown`]; for reopening also
    /// [`PullError::SourceDenied`] and [`PullError::NeedsPublish`]; [`PullError::Changed`] if `expected` rejects the current
    /// state or the pull request changes concurrently.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Participate>,
        number: PullNumber,
        edit: EditPull,
        expected: Option<&dyn Fn(&Pull) -> bool>,
    ) -> Result<Pull, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut tx = self.0.ports.metadata.write()?;
        let base = live(tx.as_mut(), access.database().id)?;
        let mut pull = tx.pulls().get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        if pull.creator_id != user.id && access.role() < Role::Write {
            return Err(PullError::NotYours);
        }
        let seen = pull.clone();
        let action = wanted_state(tx.as_mut(), (&base, user), &mut pull, (edit.state, edit.publish), now)?;
        if expected.is_some_and(|matches| !matches(&seen)) {
            return Err(PullError::Changed);
        }
        let mut changed = action.is_some();
        if let Some(title) = edit.title {
            changed |= pull.title != title.as_str();
            pull.title = title.into_string();
        }
        if let Some(description) = edit.description {
            let description = Some(description.into_string()).filter(|text| !text.is_empty());
            changed |= pull.description != description;
            pull.description = description;
        }
        if !changed {
            return Ok(pull);
        }
        pull.updated_at = now;
        update(tx.as_mut(), &mut pull)?;
        if let Some(action) = action {
            self.emit_pull(tx.as_mut(), &pull, action, user, now)?;
        }
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        self.wake_for(&pull);
        Ok(pull)
    }

    /// Returns the proof that `caller` may withdraw a pull request of `owner/name`. The base need not be visible to the
    /// caller.
    ///
    /// # Errors
    /// [`AccessError::SignInRequired`]; [`AccessError::NoSuchDatabase`] if the base does not exist, or is hidden from a
    /// caller who does not administer the source; [`PullError::NoSuchPull`] and [`PullError::NotSourceAdmin`] if the base is
    /// visible.
    pub fn withdrawable(
        &self,
        caller: &Caller,
        owner: &str,
        name: &str,
        number: PullNumber,
    ) -> Result<Withdrawable, PullError> {
        let Some(user) = caller.user() else { return Err(AccessError::SignInRequired.into()) };
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else {
            return Err(AccessError::NoSuchDatabase.into());
        };
        let mut tx = self.0.ports.metadata.read()?;
        let Some(base) = tx.databases().by_name(&owner, &name)? else {
            deny_like_a_hidden_one(tx.as_mut(), Some(user.id))?;
            return Err(AccessError::NoSuchDatabase.into());
        };
        let sees_base = role_of(tx.as_mut(), Some(user.id), &base)?.is_some();
        let pull = tx.pulls().get(base.id, number)?;
        let is_admin = match &pull {
            Some(pull) => administers_source(tx.as_mut(), user, pull)?,
            None => false,
        };
        match (pull, sees_base) {
            (Some(_), _) if is_admin => Ok(Withdrawable { user: std::sync::Arc::clone(user), base, number, sees_base }),
            (_, false) => Err(AccessError::NoSuchDatabase.into()),
            (None, true) => Err(PullError::NoSuchPull),
            (Some(_), true) => Err(PullError::NotSourceAdmin),
        }
    }

    /// Hides the content of a pull request and closes it. A pull request that is hidden already stays as it is.
    ///
    /// # Errors
    /// [`PullError::State`] if the pull request is merged; as [`Pulls::withdrawable`] if the permission has changed.
    pub fn withdraw(&self, of: &Withdrawable, once: Option<&IdempotencyRecord<'_, Pull>>) -> Result<Pull, PullError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        let base = live(tx.as_mut(), of.base.id)?;
        let mut pull = tx.pulls().get(base.id, of.number)?.ok_or(PullError::NoSuchPull)?;
        if !administers_source(tx.as_mut(), &of.user, &pull)? {
            return Err(match of.sees_base {
                true => PullError::NotSourceAdmin,
                false => AccessError::NoSuchDatabase.into(),
            });
        }
        if pull.content.hidden.is_none() {
            hide(self.0, tx.as_mut(), &mut pull, PullHidden::Withdrawn, &of.user, now)?;
        }
        idempotency::keep(self.0, tx.as_mut(), once, &pull, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        Ok(pull)
    }

    /// Returns `true` if a caller may withdraw a pull request.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn may_withdraw(&self, caller: &Caller, pull: &Pull) -> Result<bool, PullError> {
        let Some(user) = caller.user() else { return Ok(false) };
        if pull.content.hidden.is_some() || matches!(pull.state, PullState::Merged { .. }) {
            return Ok(false);
        }
        Ok(administers_source(self.0.ports.metadata.read()?.as_mut(), user, pull)?)
    }

    /// Returns up to `limit` comments, oldest first, starting after `after`.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`] if the database has no such pull request.
    pub fn comments<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>, PullError> {
        let mut tx = self.0.ports.metadata.read()?;
        let id = access.database().id;
        tx.pulls().get(id, number)?.ok_or(PullError::NoSuchPull)?;
        Ok(tx.pull_comments().list(id, number, after, limit)?)
    }

    /// Adds a comment, in any state of the pull request.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`] if the database has no such pull request.
    pub fn comment(
        &self,
        access: &DatabaseAccess<Participate>,
        number: PullNumber,
        body: LongText,
        once: Option<&IdempotencyRecord<'_, PullComment>>,
    ) -> Result<PullComment, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut tx = self.0.ports.metadata.write()?;
        let base = live(tx.as_mut(), access.database().id)?;
        tx.pulls().get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        let comment = PullComment {
            id: CommentId::from_uuid(self.0.ports.ids.uuid(now)),
            author: user.name.clone(),
            body: body.into_string(),
            created_at: now,
            updated_at: now,
        };
        tx.pull_comments().add(base.id, number, user.id, &comment)?;
        idempotency::keep(self.0, tx.as_mut(), once, &comment, now)?;
        tx.commit(Durability::Synced)?;
        Ok(comment)
    }

    /// Queues the merge of a pull request as an operation.
    ///
    /// # Errors
    /// [`PullError::Merging`] if a merge is queued or running; [`PullError::State`] if the pull request is not open;
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`], [`PullError::QueueFull`].
    pub fn merge(
        &self,
        access: &DatabaseAccess<Write>,
        number: PullNumber,
        how: MergePull,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, PullError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        let base = live(tx.as_mut(), access.database().id)?;
        let pull = tx.pulls().get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        if let Some(operation) = merging(tx.as_mut(), &pull)? {
            return Err(PullError::Merging(operation.id));
        }
        pull.clone().close(now)?;
        if matches!(pull.state, PullState::Closed { .. }) {
            return Err(crate::errors::PullStateError::Closed.into());
        }
        heads(tx.as_mut(), &pull)?;
        let message = how.message.map(LongText::into_string).filter(|m| !m.trim().is_empty());
        let work = Work::Merge {
            pull: number,
            ends: PullEnds {
                from: pull.from_locator.clone(),
                from_branch: pull.from_branch.clone(),
                to_branch: pull.to_branch.clone(),
            },
            message: message.unwrap_or_else(|| format!("Merge pull request #{number}: {}", pull.title)),
            resolve: how.resolve,
        };
        let operation = enqueue(self.0, tx.as_mut(), &base, access.who(), work, now).map_err(|error| match error {
            OperationError::QueueFull(limit) => PullError::QueueFull(limit),
            OperationError::Port(fault) => PullError::Port(fault),
            _ => PullError::Port(PortError::Unsettled("a merge could not be queued")),
        })?;
        idempotency::keep(self.0, tx.as_mut(), once, &operation, now)?;
        save_queued(self.0, tx)?;
        Ok(operation)
    }

    /// Returns the commits that a pull request lies between now, or lay between when it was closed or merged.
    ///
    /// # Errors
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`]; [`PullError::NotShown`] if the content is hidden;
    /// [`PullError::Preparing`] while commits of the source are being fetched.
    pub fn edges<L: Level>(&self, access: &DatabaseAccess<L>, pull: &Pull) -> Result<PullEdges, PullError> {
        if let PullState::Merged { commit, base, source, .. } = &pull.state {
            return Ok(PullEdges { base: base.clone(), ours: commit.clone(), theirs: source.clone() });
        }
        let is_open = pull.state == PullState::Open;
        let present = match is_open {
            true => Some(heads(self.0.ports.metadata.read()?.as_mut(), pull)?),
            false => None,
        };
        let shown = match pull.shown() {
            // The pull request was opened by a release that did not store heads.
            Err(NotShown::NoHeads) if is_open => return Err(PullError::Preparing),
            other => other?,
        };
        if pull.content.fetch_due_at.is_some() {
            return Err(PullError::Preparing);
        }
        let ours = present.map_or_else(|| shown.to.clone(), |(ours, _)| ours);
        edges(self.0, access.database().id, ours, shown.from.clone())
    }

    /// Returns the tables that a pull request changes, ordered by name.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn changed_tables<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &PullEdges,
    ) -> Result<Vec<TableChange>, PullError> {
        Ok(self.0.ports.engine.changed_tables(access.database().id, &at.base, &at.theirs)?)
    }

    /// Returns the kinds of objects with code of their own (triggers and views) that a merge of these commits adds or
    /// changes.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn brought<L: Level>(&self, access: &DatabaseAccess<L>, at: &PullEdges) -> Result<Vec<ObjectKind>, PullError> {
        if at.base == at.theirs {
            return Ok(Vec::new());
        }
        let id = access.database().id;
        self.0.remembered.brought.find_fixed((id, at.base.clone(), at.theirs.clone()), || {
            let objects = |commit| self.0.ports.engine.objects(id, commit);
            let changes = object_changes(objects(&at.base)?, objects(&at.theirs)?);
            Ok(brought(changes.iter().map(|(_, change)| change)))
        })
    }

    /// Returns what [`Pulls::brought`] returns once the pull request is open, or `None` if that is unknown before the source
    /// is fetched.
    pub fn brings_of_new(&self, access: &DatabaseAccess<Participate>, wanted: &NewPull) -> Option<Vec<ObjectKind>> {
        if !is_called(access.database(), &wanted.from_database) {
            return None;
        }
        let preview = self.preview(access, &wanted.from_database, &wanted.from_branch, &wanted.to_branch).ok()?;
        let PreviewStage::Ready(at) = preview.stage else { return None };
        self.brought(access, &at).ok()
    }

    /// Returns what [`Pulls::brought`] returns for a pull request, or `None` if its commits are unknown, for example because
    /// a branch was deleted.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn brings<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        pull: &Pull,
    ) -> Result<Option<Vec<ObjectKind>>, PullError> {
        match self.edges(access, pull).and_then(|at| self.brought(access, &at)) {
            Ok(kinds) => Ok(Some(kinds)),
            Err(PullError::Port(PortError::Engine(EngineError::NoSuchCommit(_)))) => Ok(None),
            Err(error @ PullError::Port(_)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns a page of the rows of a table that a pull request changes, ordered by primary key.
    ///
    /// # Errors
    /// [`PullError::NoSuchTable`] if the table exists at neither commit.
    pub fn changed_rows<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &PullEdges,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, PullError> {
        match self.0.ports.engine.changed_rows(access.database().id, &at.base, &at.theirs, table, page) {
            Err(EngineError::NoSuchTable(name)) => Err(PullError::NoSuchTable(name)),
            other => Ok(other?),
        }
    }

    /// Returns up to `limit` conflicts of a merge, ordered by table, then primary key. The first `skip` are left out.
    ///
    /// # Errors
    /// [`PullError::TooSlow`] if the engine exceeds its time limit; [`PullError::CannotMerge`]; [`PullError::NoSuchTable`]
    /// if neither side has the table.
    pub fn conflicts<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &PullEdges,
        table: Option<&str>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Conflict>, PullError> {
        let (id, engine) = (access.database().id, &self.0.ports.engine);
        let found = match engine.conflicts(id, &at.ours, &at.theirs, table, skip, limit) {
            Err(EngineError::TimedOut(_)) => return Err(PullError::TooSlow),
            Err(EngineError::CannotMerge(reason)) => return Err(PullError::CannotMerge(reason)),
            Err(error @ EngineError::Busy) => {
                fetches::want_trial(self.0, id, access.database().owner_id, &at.ours, &at.theirs);
                return Err(error.into());
            }
            other => other?,
        };
        // A table with conflicts exists. Only an empty list may be due to a missing table.
        if let Some(table) = table.filter(|_| found.is_empty() && skip == 0) {
            let is_in = |commit: &CommitHash| -> Result<bool, EngineError> {
                Ok(engine.tables(id, commit)?.iter().any(|found| found.name.eq_ignore_ascii_case(table)))
            };
            if !is_in(&at.ours)? && !is_in(&at.theirs)? {
                return Err(PullError::NoSuchTable(table.to_owned()));
            }
        }
        Ok(found)
    }

    fn emit_pull(
        &self,
        tx: &mut dyn Transaction,
        pull: &Pull,
        action: PullAction,
        sender: &User,
        now: Timestamp,
    ) -> Result<(), PortError> {
        emit_pull(self.0, tx, pull, action, sender, now)
    }
}

/// Returns `true` if a user is an administrator of the database that a pull request comes from.
fn administers_source(tx: &mut dyn Transaction, user: &User, pull: &Pull) -> Result<bool, PortError> {
    let source = find_live(tx, pull.from_database_id)?;
    let Some(source) = source else { return Ok(false) };
    Ok(role_of(tx, Some(user.id), &source)? == Some(Role::Admin))
}

fn may_open(opening: OpenRequest) -> Result<(), PullError> {
    opening.check().map_err(|error| match error {
        OpeningError::Hidden => PullError::NoSuchSource,
        OpeningError::NeedsWrite => PullError::SourceDenied,
        OpeningError::NeedsPublish => PullError::NeedsPublish,
    })
}

/// Hides the content of a pull request, closes it, and emits an event if it was open.
fn hide(
    inner: &Inner,
    tx: &mut dyn Transaction,
    pull: &mut Pull,
    why: PullHidden,
    by: &User,
    now: Timestamp,
) -> Result<(), PullError> {
    let was_open = pull.hide(why, now)?;
    pull.updated_at = now;
    update(tx, pull)?;
    if was_open && live(tx, pull.database_id).is_ok() {
        emit_pull(inner, tx, pull, PullAction::Closed, by, now)?;
    }
    Ok(())
}

/// Closes and hides the pull requests to other databases from a database that is deleted or made private.
pub(super) fn end_with_source(
    inner: &Inner,
    tx: &mut dyn Transaction,
    source: DatabaseId,
    by: &User,
    now: Timestamp,
) -> Result<(), PullError> {
    let mut after = None;
    loop {
        let page = tx.pulls().list_unmerged_from(source, after, CLOSED_AT_A_TIME)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.database_id, last.number));
        for mut pull in page.into_iter().filter(rules::ends_with_source) {
            hide(inner, tx, &mut pull, PullHidden::WithSource, by, now)?;
        }
    }
}

/// Closes and hides the pull requests of a database that is made public, unless their authors consented to making the source
/// public.
pub(super) fn end_with_public_base(
    inner: &Inner,
    tx: &mut dyn Transaction,
    base: DatabaseId,
    by: &User,
    now: Timestamp,
) -> Result<(), PullError> {
    let mut after = None;
    loop {
        let page = tx.pulls().list_unmerged_to(base, after, CLOSED_AT_A_TIME)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.number);
        for mut pull in page {
            let source = tx.databases().get(pull.from_database_id)?;
            if source.is_none_or(|source| rules::ends_with_public_base(&pull, &source)) {
                hide(inner, tx, &mut pull, PullHidden::WithSource, by, now)?;
            }
        }
    }
}

/// Reopens a closed pull request, which requires the same permissions as opening one.
fn reopen(
    tx: &mut dyn Transaction,
    (base, user): (&Database, &User),
    pull: &mut Pull,
    publish: bool,
    now: Timestamp,
) -> Result<(), PullError> {
    let source = find_live(tx, pull.from_database_id)?;
    let opening = match source {
        None => None,
        Some(source) => Some(OpenRequest {
            is_within: pull.is_within(),
            source: source.visibility,
            role: role_of(tx, Some(user.id), &source)?,
            base: base.visibility,
            publish,
        }),
    };
    // Permission errors take precedence over those about the pull request's state, which take precedence over a missing
    // consent.
    if let Some(opening) = opening {
        // Every reader of the base can see the name of the source, so a hidden source is reported as a denied one.
        may_open(OpenRequest { publish: true, ..opening }).map_err(|error| match error {
            PullError::NoSuchSource => PullError::SourceDenied,
            other => other,
        })?;
    }
    let rival = tx.pulls().find_open(pull.database_id, pull.from_database_id, &pull.from_branch, &pull.to_branch)?;
    if let Some(open) = rival {
        return Err(PullError::Duplicate(open.number));
    }
    pull.shown()?;
    opening.map_or(Ok(()), may_open)?;
    let (to, from) = heads(tx, pull)?;
    pull.content.is_published = publish;
    pull.show(PullHeads { from, to }, now);
    Ok(())
}

/// Puts a pull request in the requested state. Returns the action to emit, if the state changed.
fn wanted_state(
    tx: &mut dyn Transaction,
    on: (&Database, &User),
    pull: &mut Pull,
    (wanted, publish): (Option<WantedState>, bool),
    now: Timestamp,
) -> Result<Option<PullAction>, PullError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let (changed, action) = match wanted {
        WantedState::Closed => (pull.close(now)?, PullAction::Closed),
        WantedState::Open => (pull.reopen()?, PullAction::Reopened),
    };
    if let Some(operation) = merging(tx, pull)? {
        return Err(PullError::Merging(operation.id));
    }
    if changed && wanted == WantedState::Open {
        reopen(tx, on, pull, publish, now)?;
    }
    Ok(changed.then_some(action))
}

/// Emits the event of an action on a pull request.
pub(super) fn emit_pull(
    inner: &Inner,
    tx: &mut dyn Transaction,
    pull: &Pull,
    action: PullAction,
    sender: &User,
    now: Timestamp,
) -> Result<(), PortError> {
    let kind = EventKind::Pull {
        number: pull.number,
        action,
        from: pull.from_locator.clone(),
        from_branch: pull.from_branch.clone(),
        to_branch: pull.to_branch.clone(),
        author: pull.creator.clone(),
        sender: sender.name.clone(),
    };
    emit(inner, tx, pull.database_id, sender.named(), now, kind)
}

/// Adds an open pull request under the next number of its database.
#[expect(clippy::too_many_arguments, reason = "the fields of a pull, shared by people and imports")]
pub(super) fn new_pull(
    tx: &mut dyn Transaction,
    base: &Database,
    source: &Database,
    (from_branch, to_branch): (&Branch, &Branch),
    is_published: bool,
    user: &User,
    title: Title,
    description: Option<String>,
    now: Timestamp,
) -> Result<Pull, PullError> {
    if let Some(open) = tx.pulls().find_open(base.id, source.id, &from_branch.name, &to_branch.name)? {
        return Err(PullError::Duplicate(open.number));
    }
    let mut pull = Pull {
        database_id: base.id,
        number: tx.pulls().next_number(base.id)?,
        title: title.into_string(),
        description: description.filter(|text| !text.is_empty()),
        state: PullState::Open,
        creator_id: user.id,
        creator: user.name.clone(),
        from_database_id: source.id,
        from_locator: source.locator.clone(),
        from_branch: from_branch.name.clone(),
        to_branch: to_branch.name.clone(),
        content: PullContent { is_published, ..PullContent::default() },
        created_at: now,
        updated_at: now,
        version: 1,
    };
    pull.show(PullHeads { from: from_branch.head.clone(), to: to_branch.head.clone() }, now);
    tx.pulls().add(&pull)?;
    Ok(pull)
}

/// Saves a changed pull request.
pub(super) fn update(tx: &mut dyn Transaction, pull: &mut Pull) -> Result<(), PullError> {
    match tx.pulls().update(pull) {
        Ok(true) => {
            pull.version += 1;
            Ok(())
        }
        Ok(false) => Err(PullError::Changed),
        Err(MetadataError::Taken) => {
            let open =
                tx.pulls().find_open(pull.database_id, pull.from_database_id, &pull.from_branch, &pull.to_branch)?;
            Err(open.map_or(PullError::Changed, |open| PullError::Duplicate(open.number)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the heads of the target and of the source branch.
pub(super) fn heads(tx: &mut dyn Transaction, pull: &Pull) -> Result<(CommitHash, CommitHash), PullError> {
    let source = find_live(tx, pull.from_database_id)?;
    if source.is_none() {
        return Err(PullError::BranchMissing("the source database was deleted".to_owned()));
    }
    let missing = |name: &RefName| PullError::BranchGone(name.clone());
    let ours = tx.branches().get(pull.database_id, &pull.to_branch)?.ok_or_else(|| missing(&pull.to_branch))?;
    let theirs =
        tx.branches().get(pull.from_database_id, &pull.from_branch)?.ok_or_else(|| missing(&pull.from_branch))?;
    Ok((ours.head, theirs.head))
}

/// Returns the edges between two commits of a database, with their merge base.
pub(super) fn edges(
    inner: &Inner,
    base: DatabaseId,
    ours: CommitHash,
    theirs: CommitHash,
) -> Result<PullEdges, PullError> {
    let key = (base, ours.clone(), theirs.clone());
    let parted =
        inner.remembered.merge_bases.find_fixed(key, || inner.ports.engine.merge_base(base, &ours, &theirs))?;
    let parted =
        parted.ok_or_else(|| PullError::BranchMissing("the two branches have no common history".to_owned()))?;
    Ok(PullEdges { base: parted, ours, theirs })
}

/// Returns the unsettled operation that merges this pull request.
fn merging(tx: &mut dyn Transaction, pull: &Pull) -> Result<Option<Operation>, PortError> {
    let pending = tx.operations().pending(pull.database_id)?;
    Ok(pending.into_iter().find(|o| matches!(&o.work, Work::Merge { pull: number, .. } if *number == pull.number)))
}

/// Returns `true` if owner and name, as written by the caller, are those of this database.
fn is_called(database: &Database, (owner, name): &(String, String)) -> bool {
    let locator = &database.locator;
    locator.owner.as_str().eq_ignore_ascii_case(owner) && locator.name.as_str().eq_ignore_ascii_case(name)
}

fn branch_of(tx: &mut dyn Transaction, database: &Database, name: &str, is_source: bool) -> Result<Branch, PullError> {
    let missing = |locator: &DatabaseLocator| PullError::NoSuchBranch {
        database: locator.to_string(),
        branch: name.to_owned(),
        is_source,
    };
    let parsed = RefName::parse(name).map_err(|_| missing(&database.locator))?;
    tx.branches().get(database.id, &parsed)?.ok_or_else(|| missing(&database.locator))
}
