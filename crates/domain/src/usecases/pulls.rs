//! Pull requests.

use std::collections::BTreeMap;

use super::databases::{emit, live, visible_locator};
use super::operations::{enqueue, save_queued};
use super::{Inner, Once, once};
use crate::access::{DatabaseAccess, Level, Participate, Write};
use crate::entities::{
    Branch, Conflict, Database, DatabaseLocator, EventKind, Operation, Pull, PullAction, PullComment, PullEnds,
    PullState, Role, Side, TableChange, User, Work,
};
use crate::errors::{Fault, OperationError, PullError};
use crate::ports::{ChangedRows, EngineError, MetadataError, PullFilter, RowPage, Unit};
use crate::values::{
    CommentId, CommitHash, DatabaseId, DatabaseName, LongText, OwnerName, PullNumber, RefName, Timestamp, Title,
};

/// A pull to be.
#[derive(Debug, Clone)]
pub struct NewPull {
    /// What it is about.
    pub title: Title,
    /// More about it.
    pub description: Option<LongText>,
    /// Owner and name of the source database, as written.
    pub from_database: (String, String),
    /// The branch to merge.
    pub from_branch: String,
    /// Owner and name of the target database, as written.
    pub to_database: (String, String),
    /// The branch to merge into.
    pub to_branch: String,
}

/// States a pull can be put in by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedState {
    /// Open again.
    Open,
    /// Close.
    Closed,
}

/// Changes to a pull; absent fields stay.
#[derive(Debug, Clone, Default)]
pub struct EditPull {
    /// New title.
    pub title: Option<Title>,
    /// New description; empty clears.
    pub description: Option<LongText>,
    /// New state.
    pub state: Option<WantedState>,
}

/// How to merge.
#[derive(Debug, Clone, Default)]
pub struct MergePull {
    /// Message of the merge commit.
    pub message: Option<LongText>,
    /// Who wins in tables with conflicts.
    pub resolve: BTreeMap<String, Side>,
}

/// The commits a pull stands between; both are in the base file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullEdges {
    /// Where both sides parted.
    pub base: CommitHash,
    /// Head of the target branch.
    pub ours: CommitHash,
    /// Head of the source branch.
    pub theirs: CommitHash,
}

/// What a pull brings together.
struct Ends {
    source: Database,
    from_branch: Branch,
    to_branch: Branch,
}

/// Pull requests.
pub struct Pulls<'a>(&'a Inner);

impl<'a> Pulls<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Opens a pull.
    ///
    /// # Errors
    /// The variants of [`PullError`] about target, source, network, branches and duplicates.
    pub fn open(
        &self,
        access: &DatabaseAccess<Participate>,
        wanted: NewPull,
        once: Option<&Once<'_, Pull>>,
    ) -> Result<Pull, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut unit = self.0.ports.metadata.write()?;
        let base = live(unit.as_mut(), access.database().id)?;
        if !is_called(&base, &wanted.to_database) {
            return Err(PullError::OtherTarget(base.locator.to_string()));
        }
        let ends =
            self.ends(unit.as_mut(), user, &base, &wanted.from_database, &wanted.from_branch, &wanted.to_branch)?;
        let Ends { source, from_branch, to_branch } = ends;
        let pull = new_pull(
            unit.as_mut(),
            &base,
            &source,
            (from_branch.name, to_branch.name),
            user,
            wanted.title,
            wanted.description.map(LongText::into_string),
            now,
        )?;
        self.emit_pull(unit.as_mut(), &pull, PullAction::Opened, user, now)?;
        once::keep(self.0, unit.as_mut(), once, &pull, now)?;
        unit.save()?;
        self.0.outbox.one();
        Ok(pull)
    }

    /// The commits a pull between these branches would stand between, without opening it. The source is fetched into the base.
    ///
    /// # Errors
    /// As [`Pulls::open`], [`PullError::Duplicate`] among them; [`PullError::BranchMissing`] without a common history.
    pub fn preview(
        &self,
        access: &DatabaseAccess<Participate>,
        from_database: &(String, String),
        from_branch: &str,
        to_branch: &str,
    ) -> Result<PullEdges, PullError> {
        let mut unit = self.0.ports.metadata.read()?;
        let base = live(unit.as_mut(), access.database().id)?;
        let Ends { source, from_branch, to_branch } =
            self.ends(unit.as_mut(), access.who(), &base, from_database, from_branch, to_branch)?;
        if let Some(open) = unit.pull_open_between(base.id, source.id, &from_branch.name, &to_branch.name)? {
            return Err(PullError::Duplicate(open.number));
        }
        drop(unit);
        edges(self.0, &base, source.id, to_branch.head, from_branch.head)
    }

    /// Source and branches of a pull to `base`, once they are found to fit.
    fn ends(
        &self,
        unit: &mut dyn Unit,
        user: &User,
        base: &Database,
        from_database: &(String, String),
        from_branch: &str,
        to_branch: &str,
    ) -> Result<Ends, PullError> {
        let within = is_called(base, from_database);
        if within && from_branch == to_branch {
            return Err(PullError::SameBranch);
        }
        let source = match within {
            true => base.clone(),
            false => self.visible_source(unit, user, from_database)?,
        };
        if source.network_id != base.network_id {
            return Err(PullError::OtherNetwork(source.locator.to_string()));
        }
        let from_branch = branch_of(unit, &source, from_branch, true)?;
        let to_branch = branch_of(unit, base, to_branch, false)?;
        Ok(Ends { source, from_branch, to_branch })
    }

    fn visible_source(
        &self,
        unit: &mut dyn Unit,
        user: &User,
        (owner, name): &(String, String),
    ) -> Result<Database, PullError> {
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else {
            return Err(PullError::NoSuchSource);
        };
        let source = unit.database_by_name(&owner, &name)?.ok_or(PullError::NoSuchSource)?;
        match visible_locator(unit, Some(user.id), source.id)? {
            Some(_) => Ok(source),
            None => Err(PullError::NoSuchSource),
        }
    }

    /// A pull.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`].
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, number: PullNumber) -> Result<Pull, PullError> {
        self.0.ports.metadata.read()?.pull_get(access.database().id, number)?.ok_or(PullError::NoSuchPull)
    }

    /// A pull that the holder of the access may edit.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`]; [`PullError::NotYours`] for a pull of somebody else without the write role.
    pub fn editable(&self, access: &DatabaseAccess<Participate>, number: PullNumber) -> Result<Pull, PullError> {
        let pull = self.get(access, number)?;
        if pull.creator_id != access.who().id && access.role() < Role::Write {
            return Err(PullError::NotYours);
        }
        Ok(pull)
    }

    /// Pulls by number descending, before `before`.
    ///
    /// # Errors
    /// [`PullError::Fault`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>, PullError> {
        Ok(self.0.ports.metadata.read()?.pull_list(access.database().id, filter, before, limit)?)
    }

    /// Edits, closes or reopens a pull. A state it already has changes nothing.
    ///
    /// # Errors
    /// [`PullError::NotYours`], [`PullError::State`], [`PullError::Merging`], [`PullError::Duplicate`],
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`]; [`PullError::Changed`] when `expected` says that it is not as the caller saw it.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Participate>,
        number: PullNumber,
        edit: EditPull,
        expected: Option<&dyn Fn(&Pull) -> bool>,
    ) -> Result<Pull, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut unit = self.0.ports.metadata.write()?;
        let base = live(unit.as_mut(), access.database().id)?;
        let mut pull = unit.pull_get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        if pull.creator_id != user.id && access.role() < Role::Write {
            return Err(PullError::NotYours);
        }
        let seen = pull.clone();
        let action = wanted_state(unit.as_mut(), &mut pull, edit.state, now)?;
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
        update(unit.as_mut(), &mut pull)?;
        if let Some(action) = action {
            self.emit_pull(unit.as_mut(), &pull, action, user, now)?;
        }
        unit.save()?;
        self.0.outbox.one();
        Ok(pull)
    }

    /// Comments, oldest first, after `after`.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`].
    pub fn comments<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>, PullError> {
        let mut unit = self.0.ports.metadata.read()?;
        let id = access.database().id;
        unit.pull_get(id, number)?.ok_or(PullError::NoSuchPull)?;
        Ok(unit.comment_list(id, number, after, limit)?)
    }

    /// Adds a comment; allowed in every state.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`].
    pub fn comment(
        &self,
        access: &DatabaseAccess<Participate>,
        number: PullNumber,
        body: LongText,
        once: Option<&Once<'_, PullComment>>,
    ) -> Result<PullComment, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut unit = self.0.ports.metadata.write()?;
        let base = live(unit.as_mut(), access.database().id)?;
        unit.pull_get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        let comment = PullComment {
            id: CommentId::from_uuid(self.0.ports.ids.uuid(now)),
            author: user.name.clone(),
            body: body.into_string(),
            created_at: now,
            updated_at: now,
        };
        unit.comment_add(base.id, number, user.id, &comment)?;
        once::keep(self.0, unit.as_mut(), once, &comment, now)?;
        unit.save()?;
        Ok(comment)
    }

    /// Accepts the merge of a pull as an operation.
    ///
    /// # Errors
    /// [`PullError::Merging`], [`PullError::State`], [`PullError::BranchGone`], [`PullError::BranchMissing`], [`PullError::QueueFull`].
    pub fn merge(
        &self,
        access: &DatabaseAccess<Write>,
        number: PullNumber,
        how: MergePull,
        once: Option<&Once<'_, Operation>>,
    ) -> Result<Operation, PullError> {
        let now = self.0.now();
        let mut unit = self.0.ports.metadata.write()?;
        let base = live(unit.as_mut(), access.database().id)?;
        let pull = unit.pull_get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        if let Some(operation) = merging(unit.as_mut(), &pull)? {
            return Err(PullError::Merging(operation.id));
        }
        pull.clone().close(now)?;
        if matches!(pull.state, PullState::Closed { .. }) {
            return Err(crate::errors::PullStateError::Closed.into());
        }
        heads(unit.as_mut(), &pull)?;
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
        let operation =
            enqueue(self.0, unit.as_mut(), &base, access.who(), work, now).map_err(|error| match error {
                OperationError::QueueFull(limit) => PullError::QueueFull(limit),
                OperationError::Fault(fault) => PullError::Fault(fault),
                _ => PullError::Fault(Fault::Unsettled("a merge could not be queued")),
            })?;
        once::keep(self.0, unit.as_mut(), once, &operation, now)?;
        save_queued(self.0, unit)?;
        Ok(operation)
    }

    /// The commits a pull stands between now; for a merged pull, those it was merged at. The source is fetched into the base.
    ///
    /// # Errors
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`].
    pub fn edges<L: Level>(&self, access: &DatabaseAccess<L>, pull: &Pull) -> Result<PullEdges, PullError> {
        if let PullState::Merged { commit, base, source, .. } = &pull.state {
            return Ok(PullEdges { base: base.clone(), ours: commit.clone(), theirs: source.clone() });
        }
        let (ours, theirs) = heads(self.0.ports.metadata.read()?.as_mut(), pull)?;
        edges(self.0, access.database(), pull.from_database_id, ours, theirs)
    }

    /// The tables a pull changes, by name.
    ///
    /// # Errors
    /// [`PullError::Fault`].
    pub fn changed_tables<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &PullEdges,
    ) -> Result<Vec<TableChange>, PullError> {
        Ok(self.0.ports.engine.changed_tables(access.database().id, &at.base, &at.theirs)?)
    }

    /// The rows of a table a pull changes, by primary key.
    ///
    /// # Errors
    /// [`PullError::NoSuchTable`].
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

    /// What merging a pull would leave unsettled, by table, then primary key, leaving out the first `skip`.
    ///
    /// # Errors
    /// [`PullError::TooSlow`], [`PullError::CannotMerge`]; [`PullError::NoSuchTable`] when neither side has it.
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
            other => other?,
        };
        // What is in conflict is there; only an empty list may be of nothing.
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
        unit: &mut dyn Unit,
        pull: &Pull,
        action: PullAction,
        sender: &User,
        now: Timestamp,
    ) -> Result<(), Fault> {
        emit_pull(self.0, unit, pull, action, sender, now)
    }
}

/// Puts a pull in the state asked for; gives what there is to report.
fn wanted_state(
    unit: &mut dyn Unit,
    pull: &mut Pull,
    wanted: Option<WantedState>,
    now: Timestamp,
) -> Result<Option<PullAction>, PullError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let (changed, action) = match wanted {
        WantedState::Closed => (pull.close(now)?, PullAction::Closed),
        WantedState::Open => (pull.reopen()?, PullAction::Reopened),
    };
    if let Some(operation) = merging(unit, pull)? {
        return Err(PullError::Merging(operation.id));
    }
    if changed && wanted == WantedState::Open {
        let rival =
            unit.pull_open_between(pull.database_id, pull.from_database_id, &pull.from_branch, &pull.to_branch)?;
        if let Some(open) = rival {
            return Err(PullError::Duplicate(open.number));
        }
        heads(unit, pull)?;
    }
    Ok(changed.then_some(action))
}

/// Reports what was done to a pull.
pub(super) fn emit_pull(
    inner: &Inner,
    unit: &mut dyn Unit,
    pull: &Pull,
    action: PullAction,
    sender: &User,
    now: Timestamp,
) -> Result<(), Fault> {
    let kind = EventKind::Pull {
        number: pull.number,
        action,
        from: pull.from_locator.clone(),
        from_branch: pull.from_branch.clone(),
        to_branch: pull.to_branch.clone(),
        author: pull.creator.clone(),
        sender: sender.name.clone(),
    };
    emit(inner, unit, pull.database_id, sender.named(), now, kind)
}

/// Numbers and adds an open pull.
#[expect(clippy::too_many_arguments, reason = "the fields of a pull, shared by people and imports")]
pub(super) fn new_pull(
    unit: &mut dyn Unit,
    base: &Database,
    source: &Database,
    (from_branch, to_branch): (RefName, RefName),
    user: &User,
    title: Title,
    description: Option<String>,
    now: Timestamp,
) -> Result<Pull, PullError> {
    if let Some(open) = unit.pull_open_between(base.id, source.id, &from_branch, &to_branch)? {
        return Err(PullError::Duplicate(open.number));
    }
    let pull = Pull {
        database_id: base.id,
        number: unit.pull_next_number(base.id)?,
        title: title.into_string(),
        description: description.filter(|text| !text.is_empty()),
        state: PullState::Open,
        creator_id: user.id,
        creator: user.name.clone(),
        from_database_id: source.id,
        from_locator: source.locator.clone(),
        from_branch,
        to_branch,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    unit.pull_add(&pull)?;
    Ok(pull)
}

/// Saves a changed pull.
pub(super) fn update(unit: &mut dyn Unit, pull: &mut Pull) -> Result<(), PullError> {
    match unit.pull_update(pull) {
        Ok(true) => {
            pull.version += 1;
            Ok(())
        }
        Ok(false) => Err(PullError::Changed),
        Err(MetadataError::Taken) => {
            let open =
                unit.pull_open_between(pull.database_id, pull.from_database_id, &pull.from_branch, &pull.to_branch)?;
            Err(open.map_or(PullError::Changed, |open| PullError::Duplicate(open.number)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Heads of target and source.
pub(super) fn heads(unit: &mut dyn Unit, pull: &Pull) -> Result<(CommitHash, CommitHash), PullError> {
    let source = unit.database_get(pull.from_database_id)?.filter(|d| d.deleted_at.is_none());
    if source.is_none() {
        return Err(PullError::BranchMissing("the source database was deleted".to_owned()));
    }
    let missing = |name: &RefName| PullError::BranchGone(name.clone());
    let ours = unit.branch_get(pull.database_id, &pull.to_branch)?.ok_or_else(|| missing(&pull.to_branch))?;
    let theirs =
        unit.branch_get(pull.from_database_id, &pull.from_branch)?.ok_or_else(|| missing(&pull.from_branch))?;
    Ok((ours.head, theirs.head))
}

/// Brings the source into the base file and finds where both parted.
pub(super) fn edges(
    inner: &Inner,
    base: &Database,
    source: DatabaseId,
    ours: CommitHash,
    theirs: CommitHash,
) -> Result<PullEdges, PullError> {
    let engine = &inner.ports.engine;
    if source != base.id {
        engine.fetch(base.id, source, &theirs)?;
    }
    let parted = engine.merge_base(base.id, &ours, &theirs)?;
    let parted =
        parted.ok_or_else(|| PullError::BranchMissing("the two branches have no common history".to_owned()))?;
    Ok(PullEdges { base: parted, ours, theirs })
}

/// The unsettled operation that merges this pull.
fn merging(unit: &mut dyn Unit, pull: &Pull) -> Result<Option<Operation>, Fault> {
    let pending = unit.operation_pending(pull.database_id)?;
    Ok(pending.into_iter().find(|o| matches!(&o.work, Work::Merge { pull: number, .. } if *number == pull.number)))
}

/// Whether owner and name, as written, are those of this database.
fn is_called(database: &Database, (owner, name): &(String, String)) -> bool {
    let locator = &database.locator;
    locator.owner.as_str().eq_ignore_ascii_case(owner) && locator.name.as_str().eq_ignore_ascii_case(name)
}

fn branch_of(unit: &mut dyn Unit, database: &Database, name: &str, is_source: bool) -> Result<Branch, PullError> {
    let missing = |locator: &DatabaseLocator| PullError::NoSuchBranch {
        database: locator.to_string(),
        branch: name.to_owned(),
        is_source,
    };
    let parsed = RefName::parse(name).map_err(|_| missing(&database.locator))?;
    unit.branch_get(database.id, &parsed)?.ok_or_else(|| missing(&database.locator))
}
