//! What a pull request shows: its commits, changes and conflicts.

use super::{Pulls, fetches};
use crate::access::visibility::{find_live, visible_locator};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{
    Conflict, DatabaseLocator, ObjectKind, Pull, PullContent, PullHidden, PullState, TableChange, brought,
    object_changes,
};
use crate::errors::{NotShown, PortError, PullError};
use crate::ports::{ChangedRows, EngineError, PullFilter, PullStanding, RowPage, Transaction};
use crate::usecases::Inner;
use crate::values::{CommitHash, DatabaseId, RefName};

/// Number of pull requests read at a time.
const PULLS: usize = 500;

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

/// What a pull request shows, also after one of its branches was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPull {
    /// The commits that it lies between.
    pub edges: PullEdges,
    /// The branch of an open pull request that no longer exists.
    pub gone: Option<GoneBranch>,
}

/// A branch of a pull request that no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoneBranch {
    /// The source.
    Source,
    /// The target.
    Target,
}

impl Pulls<'_> {
    /// Returns what [`Pulls::edges`] returns. If a branch of an open pull request was deleted, returns the commits that the pull
    /// request showed last, and which branch that is.
    ///
    /// # Errors
    /// As [`Pulls::edges`], without [`PullError::BranchGone`].
    pub fn shown<L: Level>(&self, access: &DatabaseAccess<L>, pull: &Pull) -> Result<ShownPull, PullError> {
        let name = match self.edges(access, pull) {
            Ok(edges) => return Ok(ShownPull { edges, gone: None }),
            Err(PullError::BranchGone(name)) => name,
            Err(error) => return Err(error),
        };
        let heads = pull.shown()?;
        if pull.content.fetch_due_at.is_some() {
            return Err(PullError::Preparing);
        }
        let target = self.0.ports.metadata.read()?.branches().get(pull.database_id, &pull.to_branch)?;
        let gone = if target.is_none() && name == pull.to_branch { GoneBranch::Target } else { GoneBranch::Source };
        let ours = target.map_or_else(|| heads.to.clone(), |branch| branch.head);
        let edges = edges(self.0, access.database().id, ours, heads.from.clone())?;
        Ok(ShownPull { edges, gone: Some(gone) })
    }

    /// Returns the branch without which a closed pull request cannot be reopened, if its database still exists. Such a pull request
    /// shows the heads that it had when it was closed.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn gone_of_closed<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        pull: &Pull,
    ) -> Result<Option<GoneBranch>, PullError> {
        if !matches!(pull.state, PullState::Closed { .. }) || pull.shown().is_err() {
            return Ok(None);
        }
        let mut tx = self.0.ports.metadata.read()?;
        match heads(tx.as_mut(), pull) {
            Ok(_) | Err(PullError::BranchMissing(_)) => Ok(None),
            Err(PullError::BranchGone(_)) => {
                let target = tx.branches().get(access.database().id, &pull.to_branch)?;
                Ok(Some(if target.is_some() { GoneBranch::Source } else { GoneBranch::Target }))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the open pull requests from or into a branch that the access holder sees, with their databases, at most `most` of
    /// them.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn of_branch<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        branch: &RefName,
        most: usize,
    ) -> Result<Vec<(DatabaseLocator, Pull)>, PullError> {
        let database = access.database();
        let viewer = access.caller().user().map(|user| user.id);
        let mut found = Vec::new();
        let filter = PullFilter { standing: Some(PullStanding::Open), contains: None };
        let mut before = None;
        while found.len() < most {
            let page = self.0.ports.metadata.read()?.pulls().list(database.id, &filter, before, PULLS)?;
            before = page.last().filter(|_| page.len() == PULLS).map(|pull| pull.number);
            let touches = |pull: &Pull| pull.to_branch == *branch || (pull.is_within() && pull.from_branch == *branch);
            found.extend(page.into_iter().filter(touches).map(|pull| (database.locator.clone(), pull)));
            if before.is_none() {
                break;
            }
        }
        let mut after = None;
        while found.len() < most {
            let mut tx = self.0.ports.metadata.read()?;
            let page = tx.pulls().list_unmerged_from(database.id, after, PULLS)?;
            after = page.last().filter(|_| page.len() == PULLS).map(|pull| (pull.database_id, pull.number));
            for pull in page {
                if pull.state == PullState::Open
                    && pull.from_branch == *branch
                    && let Some(locator) = visible_locator(tx.as_mut(), viewer, pull.database_id)?
                {
                    found.push((locator, pull));
                }
            }
            if after.is_none() {
                break;
            }
        }
        found.truncate(most);
        Ok(found)
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
}

/// Returns a pull request as its readers see it: while another source database is quarantined, it shows no content, as if
/// the source had been deleted. A merged pull request shows what is part of the base.
pub(super) fn without_quarantined_source(tx: &mut dyn Transaction, mut pull: Pull) -> Result<Pull, PortError> {
    if pull.is_within() || matches!(pull.state, PullState::Merged { .. }) {
        return Ok(pull);
    }
    let source = find_live(tx, pull.from_database_id)?;
    if source.is_some_and(|source| source.quarantined_at.is_some()) {
        let hidden = pull.content.hidden.or(Some(PullHidden::WithSource));
        pull.content = PullContent { hidden, ..PullContent::default() };
    }
    Ok(pull)
}

/// Returns the heads of the target and of the source branch.
pub(crate) fn heads(tx: &mut dyn Transaction, pull: &Pull) -> Result<(CommitHash, CommitHash), PullError> {
    let Some(source) = find_live(tx, pull.from_database_id)? else {
        return Err(PullError::BranchMissing("the source database was deleted".to_owned()));
    };
    if !pull.is_within() && source.quarantined_at.is_some() {
        return Err(PullError::BranchMissing("the source database is not available".to_owned()));
    }
    let missing = |name: &RefName| PullError::BranchGone(name.clone());
    let ours = tx.branches().get(pull.database_id, &pull.to_branch)?.ok_or_else(|| missing(&pull.to_branch))?;
    let theirs =
        tx.branches().get(pull.from_database_id, &pull.from_branch)?.ok_or_else(|| missing(&pull.from_branch))?;
    Ok((ours.head, theirs.head))
}

/// Returns the edges between two commits of a database, with their merge base.
pub(crate) fn edges(
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
