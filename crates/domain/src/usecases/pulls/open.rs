//! Opening a pull request, and what it would show before it is opened.

use super::content::{PullEdges, edges};
use super::fetches::PreviewKey;
use super::rules::{OpenRequest, OpeningError};
use super::{Pulls, fetches};
use crate::access::visibility::{by_address, find_live, live, role_of};
use crate::access::{DatabaseAccess, Participate};
use crate::entities::{
    Branch, Database, DatabaseLocator, ObjectKind, Pull, PullAction, PullContent, PullHeads, PullState, Role, User,
};
use crate::errors::PullError;
use crate::ports::{Durability, Transaction, WriteKey, WriteKeys};
use crate::usecases::write_keys::begin_write;
use crate::usecases::{IdempotencyRecord, idempotency};
use crate::values::{DatabaseName, LongText, OwnerName, RefName, Timestamp, Title};

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

/// The source and the branches of a pull request.
struct PullRefs {
    source: Database,
    from_branch: Branch,
    to_branch: Branch,
    opening: OpenRequest,
}

impl Pulls<'_> {
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
        let mut tx = begin_write(self.0, WriteKeys::database(access.database().id), |tx| -> Result<_, PullError> {
            let is_within = match find_live(tx, access.database().id)? {
                Some(base) => is_at(tx, &base, &wanted.from_database)?,
                None => true,
            };
            if is_within {
                return Ok(Vec::new());
            }
            match self.visible_source(tx, user, &wanted.from_database) {
                Ok((source, _)) => Ok(vec![WriteKey::Database(source.id)]),
                Err(error @ PullError::Port(_)) => Err(error),
                // The transaction finds out, in the order in which checks come.
                Err(_) => Ok(Vec::new()),
            }
        })?;
        let base = live(tx.as_mut(), access.database().id)?;
        if !is_at(tx.as_mut(), &base, &wanted.to_database)? {
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
    pub(super) fn wake_for(&self, pull: &Pull) {
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
        let within = is_at(tx, base, from_database)?;
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
        let source = by_address(tx, &owner, &name)?.ok_or(PullError::NoSuchSource)?;
        let role = role_of(tx, Some(user.id), &source)?.ok_or(PullError::NoSuchSource)?;
        Ok((source, role))
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
}

pub(super) fn may_open(opening: OpenRequest) -> Result<(), PullError> {
    opening.check().map_err(|error| match error {
        OpeningError::Hidden => PullError::NoSuchSource,
        OpeningError::NeedsWrite => PullError::SourceDenied,
        OpeningError::NeedsPublish => PullError::NeedsPublish,
    })
}

/// Adds an open pull request under the next number of its database.
#[expect(clippy::too_many_arguments, reason = "the fields of a pull, shared by people and imports")]
pub(crate) fn new_pull(
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

/// Returns `true` if owner and name, as written by the caller, are those of this database.
pub(super) fn is_called(database: &Database, (owner, name): &(String, String)) -> bool {
    let locator = &database.locator;
    locator.owner.as_str().eq_ignore_ascii_case(owner) && locator.name.as_str().eq_ignore_ascii_case(name)
}

/// Returns `true` if owner and name, as written by the caller, are those of this database, or were before and forward to it.
fn is_at(tx: &mut dyn Transaction, database: &Database, address: &(String, String)) -> Result<bool, PullError> {
    if is_called(database, address) {
        return Ok(true);
    }
    let (Ok(owner), Ok(name)) = (OwnerName::parse(&address.0), DatabaseName::parse(&address.1)) else {
        return Ok(false);
    };
    Ok(by_address(tx, &owner, &name)?.is_some_and(|found| found.id == database.id))
}

pub(super) fn branch_of(
    tx: &mut dyn Transaction,
    database: &Database,
    name: &str,
    is_source: bool,
) -> Result<Branch, PullError> {
    let missing = |locator: &DatabaseLocator| PullError::NoSuchBranch {
        database: locator.to_string(),
        branch: name.to_owned(),
        is_source,
    };
    let parsed = RefName::parse(name).map_err(|_| missing(&database.locator))?;
    tx.branches().get(database.id, &parsed)?.ok_or_else(|| missing(&database.locator))
}
