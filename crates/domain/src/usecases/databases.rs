//! Databases: access to them, and creating, listing, editing and deleting them.

mod counts;

use std::collections::{BTreeMap, BTreeSet};

use super::engine_files::file_state;
use super::lookup_cache::access_key;
use super::operations::enqueue;
use super::quotas::check_bytes;
use super::ref_log::{FormerCommit, ref_change};
use super::write_keys::{begin_write, of_pulls_from, of_pulls_to};
use super::{IdempotencyRecord, Inner, NewMirror, idempotency, mirrors, pulls, renames, texts};
use crate::access::ownership::{NewOwner, may_create_for};
use crate::access::visibility::{grant_seen, live, role_by_name, role_of, roles_of};
use crate::access::{Admin, Caller, DatabaseAccess, Level};
use crate::call_context;
use crate::entities::{
    Branch, Database, DatabaseLocator, FailureKind, FileState, OperationFailure, OperationStatus, Role, User,
    Visibility, Work,
};
use crate::errors::{AccessError, DatabaseError, MirrorError, PortError, PullError};
use crate::ports::{DatabaseFilter, Durability, MetadataError, Ranking, SavedAnswer, Transaction, WriteKey, WriteKeys};
use crate::values::{AccountId, DatabaseId, DatabaseName, Description, RefName, Timestamp};

/// The properties of a new database.
#[derive(Debug, Clone)]
pub struct NewDatabase {
    /// Name of the owner, as written by the caller.
    pub owner: String,
    /// Name of the database.
    pub name: DatabaseName,
    /// Visibility of the database.
    pub visibility: Visibility,
    /// Description of the database.
    pub description: Option<Description>,
    /// Name of the first branch; `main` if absent.
    pub default_branch: Option<RefName>,
}

/// Changes to a database. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditDatabase {
    /// New name.
    pub name: Option<DatabaseName>,
    /// Name of the new owner, as written by the caller.
    pub owner: Option<String>,
    /// New description. An empty one removes the description.
    pub description: Option<Description>,
    /// New visibility. Forks keep theirs.
    pub visibility: Option<Visibility>,
    /// Name of the new default branch, as written by the caller.
    pub default_branch: Option<String>,
    /// Whether anonymous callers may run SQL from now on.
    pub anonymous_sql: Option<bool>,
}

/// A database as seen by one caller.
#[derive(Debug, Clone)]
pub struct DatabaseView {
    /// The database.
    pub database: Database,
    /// The caller's role on the database.
    pub role: Role,
    /// Number of forks in the whole fork network that are visible to the caller.
    pub fork_network_count: u64,
    /// The database this one was forked from, if it exists and is visible to the caller.
    pub parent: Option<DatabaseLocator>,
    /// The root of the fork network, if it is another database, exists and is visible to the caller.
    pub network_root: Option<DatabaseLocator>,
}

/// Use cases of databases.
pub struct Databases<'a>(&'a Inner);

impl<'a> Databases<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the proof that `caller` may do what the level `L` allows on `owner/name`.
    ///
    /// # Errors
    /// [`AccessError::SignInRequired`], before any lookup, if the level needs a signed-in user and the caller is anonymous;
    /// [`AccessError::NoSuchDatabase`] if the database does not exist or is hidden from the caller;
    /// [`AccessError::SignInRequired`] if the database is visible and only signed-in users may run SQL on it;
    /// [`AccessError::Denied`] if the database is visible and the caller's role is too low.
    pub fn access<L: Level>(&self, caller: &Caller, owner: &str, name: &str) -> Result<DatabaseAccess<L>, AccessError> {
        if L::who(caller).is_none() {
            return Err(AccessError::SignInRequired);
        }
        let metadata = self.0.ports.metadata.as_ref();
        let key = access_key(caller, owner, name);
        let found = self.0.remembered.roles.find(metadata, key, || match foreseen_role(caller, owner, name) {
            Some(found) => Ok(Some(found)),
            None => role_by_name(metadata.look()?.as_mut(), caller, owner, name),
        })?;
        let (database, role) = found.ok_or(AccessError::NoSuchDatabase)?;
        grant_seen(&self.0.limits, caller, database, role)
    }

    /// Returns the access if the cache holds the caller's role. Never blocks. `None` does not mean that access is denied.
    pub fn known_access<L: Level>(&self, caller: &Caller, owner: &str, name: &str) -> Option<DatabaseAccess<L>> {
        let metadata = self.0.ports.metadata.as_ref();
        let (database, role) = self.0.remembered.roles.known(metadata, &access_key(caller, owner, name))?;
        grant_seen(&self.0.limits, caller, database, role).ok()
    }

    /// Returns the access to a database given by its id.
    ///
    /// # Errors
    /// As [`Databases::access`].
    pub fn access_by_id<L: Level>(&self, caller: &Caller, id: DatabaseId) -> Result<DatabaseAccess<L>, AccessError> {
        if L::who(caller).is_none() {
            return Err(AccessError::SignInRequired);
        }
        let mut tx = self.0.ports.metadata.read()?;
        let database = live(tx.as_mut(), id)?;
        let role = role_of(tx.as_mut(), caller.user().map(|u| u.id), &database)?.ok_or(AccessError::NoSuchDatabase)?;
        grant_seen(&self.0.limits, caller, database, role)
    }

    /// Creates a database with one branch that holds one empty commit by `user`.
    ///
    /// # Errors
    /// [`DatabaseError::MayNotCreateFor`] if `user` cannot create databases for the owner; [`DatabaseError::NameTaken`];
    /// [`DatabaseError::TooMany`] if the owner has reached [`super::Limits::databases_per_owner`].
    pub fn create(
        &self,
        user: &User,
        wanted: NewDatabase,
        once: Option<&IdempotencyRecord<'_, DatabaseView>>,
    ) -> Result<DatabaseView, DatabaseError> {
        self.create_new(user, wanted, None, once)
    }

    /// Creates a database that follows one of another server, and queues the first sync.
    ///
    /// # Errors
    /// As [`Databases::create`]; [`DatabaseError::Mirror`] if the source or the interval is not accepted.
    pub fn create_mirror(
        &self,
        user: &User,
        wanted: NewDatabase,
        mirror_of: &NewMirror,
        once: Option<&IdempotencyRecord<'_, DatabaseView>>,
    ) -> Result<DatabaseView, DatabaseError> {
        self.create_new(user, wanted, Some(mirror_of), once)
    }

    fn create_new(
        &self,
        user: &User,
        wanted: NewDatabase,
        mirror_of: Option<&NewMirror>,
        once: Option<&IdempotencyRecord<'_, DatabaseView>>,
    ) -> Result<DatabaseView, DatabaseError> {
        let now = self.0.now();
        let id = DatabaseId::from_uuid(self.0.ports.ids.uuid(now));
        let mirror = mirror_of.map(|mirror| mirrors::check(self.0, mirror)).transpose()?;
        let owner = {
            let mut tx = self.0.ports.metadata.read()?;
            self.check_new(tx.as_mut(), user, &wanted.owner, &wanted.name)?
        };
        let head = self.0.ports.engine.create(id, &user.signature(now), "Initialize database")?;
        let created = self.settle_new(user, wanted, mirror, id, &owner, head, now, once);
        if created.is_err() {
            // No database record refers to the file. If removing it fails, `doctor` finds the file as garbage.
            let _ = self.0.ports.engine.remove(id);
        }
        created
    }

    #[expect(clippy::too_many_arguments, reason = "the second half of `create`, split where the transaction begins")]
    fn settle_new(
        &self,
        user: &User,
        wanted: NewDatabase,
        mirror: Option<NewMirror>,
        id: DatabaseId,
        owner: &NewOwner,
        head: crate::values::CommitHash,
        now: Timestamp,
        once: Option<&IdempotencyRecord<'_, DatabaseView>>,
    ) -> Result<DatabaseView, DatabaseError> {
        let FileState { size_bytes, engine_format } = file_state(self.0, id)?;
        let default_branch = match wanted.default_branch {
            Some(name) => name,
            None => RefName::parse("main").map_err(|_| PortError::Unsettled("main is a branch name"))?,
        };
        let mut keys = WriteKeys::account(owner.id).and(WriteKey::Database(id));
        if mirror.is_some() {
            // Its secret must not be sealed while secrets are counted (`Secrets::with_counts`).
            keys = keys.and(WriteKey::Server);
        }
        let mut tx = self.0.ports.metadata.write(&keys)?;
        self.check_new(tx.as_mut(), user, &wanted.owner, &wanted.name)?;
        let mirror = mirror.map(|mirror| mirrors::of_new(self.0, id, user, mirror)).transpose()?;
        let database = Database {
            id,
            owner_id: owner.id,
            locator: DatabaseLocator { owner: owner.name.clone(), name: wanted.name },
            description: wanted.description.map(Description::into_string).filter(|d| !d.is_empty()),
            visibility: wanted.visibility,
            default_branch: default_branch.clone(),
            anonymous_sql: true,
            is_mirror: mirror.is_some(),
            parent_id: None,
            network_id: id,
            created_at: now,
            last_write_at: Some(now),
            size_bytes,
            live_bytes: size_bytes,
            engine_format,
            star_count: 0,
            version: 1,
            generation: 0,
            deleted_at: None,
            quarantined_at: None,
        };
        match tx.databases().add(&database) {
            Err(MetadataError::Taken) => return Err(DatabaseError::NameTaken(database.locator.to_string())),
            other => other?,
        }
        call_context::note_database(&database.locator);
        let head_time = Timestamp::from_seconds(now.as_seconds());
        let first = Branch { name: default_branch, head, updated_at: head_time };
        tx.branches().add(id, &first, ref_change(self.0, user.id, FormerCommit::Reached))?;
        if owner.role < Role::Admin {
            tx.collaborators().put(id, user.id, Role::Admin, now)?;
        }
        if let Some(mirror) = &mirror {
            tx.mirrors().add(mirror)?;
            enqueue(self.0, tx.as_mut(), &database, user, Work::MirrorSync, now).map_err(MirrorError::from)?;
        }
        let view = view(tx.as_mut(), Some(user.id), database, Role::Admin)?;
        idempotency::keep(self.0, tx.as_mut(), once, &view, now)?;
        tx.commit(Durability::Synced)?;
        if mirror.is_some() {
            self.0.wake.one();
        }
        Ok(view)
    }

    fn check_new(
        &self,
        tx: &mut dyn Transaction,
        user: &User,
        owner: &str,
        name: &DatabaseName,
    ) -> Result<NewOwner, DatabaseError> {
        let owner = may_create_for(tx, user, owner)?.ok_or_else(|| DatabaseError::MayNotCreateFor(owner.to_owned()))?;
        let locator = DatabaseLocator { owner: owner.name.clone(), name: name.clone() };
        if tx.databases().by_name(&owner.name, name)?.is_some() {
            return Err(DatabaseError::NameTaken(locator.to_string()));
        }
        match has_room(self.0, tx, owner.id)? {
            Ok(()) => {}
            Err(limit) => return Err(DatabaseError::TooMany(limit)),
        }
        // The size of the new file is unknown, and is not 0.
        check_bytes::<DatabaseError>(self.0, tx, owner.id, 1)?;
        Ok(owner)
    }

    /// Returns the database as it is now, as seen by the access holder.
    ///
    /// # Errors
    /// [`AccessError::NoSuchDatabase`] if it has been deleted since; [`DatabaseError::Port`].
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>) -> Result<DatabaseView, DatabaseError> {
        let mut tx = self.0.ports.metadata.read()?;
        let viewer = access.caller().user().map(|u| u.id);
        let database = live(tx.as_mut(), access.database().id)?;
        view(tx.as_mut(), viewer, database, access.role()).map_err(Into::into)
    }

    /// Returns up to `limit` databases visible to the caller, ordered by lower-case owner, then name, starting after the
    /// pair `after`.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn list(
        &self,
        caller: &Caller,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<DatabaseView>, DatabaseError> {
        let viewer = caller.user().map(|u| u.id);
        let mut tx = self.0.ports.metadata.read()?;
        let found = tx.databases().list(viewer, filter, after, limit)?;
        Ok(views(tx.as_mut(), viewer, found)?)
    }

    /// Returns up to `limit` databases visible to the caller, the highest in the ranking first. `after` is the rank value
    /// and the id of the last database of the previous page.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn ranked(
        &self,
        caller: &Caller,
        filter: &DatabaseFilter,
        ranking: Ranking,
        after: Option<(i64, DatabaseId)>,
        limit: usize,
    ) -> Result<Vec<DatabaseView>, DatabaseError> {
        let viewer = caller.user().map(|u| u.id);
        let mut tx = self.0.ports.metadata.read()?;
        let found = tx.databases().list_ranked(viewer, filter, ranking, after, limit)?;
        Ok(views(tx.as_mut(), viewer, found)?)
    }

    /// Returns up to `limit` direct forks visible to the caller, ordered by lower-case owner, then name, starting after the
    /// pair `after`.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn forks<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<DatabaseLocator>, DatabaseError> {
        let viewer = access.caller().user().map(|u| u.id);
        let found = self.0.ports.metadata.read()?.databases().list_forks(viewer, access.database().id, after, limit)?;
        Ok(found.into_iter().map(|database| database.locator).collect())
    }

    /// Changes the name, owner, description, visibility, default branch or anonymous SQL of a database. A former address forwards to
    /// the database until another one has it.
    ///
    /// # Errors
    /// [`DatabaseError::MayNotCreateFor`] if the access holder cannot create databases for the new owner; [`DatabaseError::NameTaken`];
    /// [`DatabaseError::TooMany`] and [`DatabaseError::Quota`] if the new owner has reached a limit; [`DatabaseError::NoSuchBranch`] if
    /// the new default branch does not exist; [`DatabaseError::ParentPrivate`] if a fork of a private database would become public
    /// without an administrator of the parent; [`DatabaseError::Changed`] if `expected` rejects the current state or the database
    /// changes concurrently.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Admin>,
        edit: EditDatabase,
        expected: Option<&dyn Fn(&DatabaseView) -> bool>,
    ) -> Result<DatabaseView, DatabaseError> {
        let viewer = Some(access.who().id);
        let id = access.database().id;
        let is_moved = edit.name.is_some() || edit.owner.is_some();
        let mut tx = match edit.visibility {
            None if !is_moved => self.0.ports.metadata.write(&WriteKeys::database(id))?,
            _ => begin_write(self.0, WriteKeys::database(id), |tx| -> Result<_, PortError> {
                // Pull requests may end with the visibility, which are those of other databases, and may come from them. Those from
                // the database show its address.
                let mut keys = of_pulls_from(tx, id)?;
                if edit.visibility.is_some() {
                    keys.extend(of_pulls_to(tx, id)?);
                }
                if is_moved {
                    keys.extend(renames::keys(tx, access.who(), id, &edit)?);
                }
                Ok(keys)
            })?,
        };
        let mut database = live(tx.as_mut(), access.database().id)?;
        let seen = view(tx.as_mut(), viewer, database.clone(), access.role())?;
        let destination = match is_moved {
            true => renames::destination(tx.as_mut(), access.who(), &database, &edit)?,
            false => None,
        };
        if let Some(text) = edit.default_branch {
            if database.is_mirror && text != database.default_branch.as_str() {
                return Err(AccessError::Mirror.into());
            }
            let found = match RefName::parse(&text) {
                Ok(name) => tx.branches().get(database.id, &name)?,
                Err(_) => None,
            };
            database.default_branch = found.ok_or(DatabaseError::NoSuchBranch(text))?.name;
        }
        if expected.is_some_and(|matches| !matches(&seen)) {
            return Err(DatabaseError::Changed);
        }
        let is_transfer = destination.as_ref().is_some_and(renames::Destination::is_transfer);
        if let Some(destination) = destination {
            renames::move_to(self.0, tx.as_mut(), &mut database, destination, access.who())?;
        }
        if let Some(text) = edit.description {
            database.description = Some(text.into_string()).filter(|text| !text.is_empty());
        }
        if let Some(is_allowed) = edit.anonymous_sql {
            database.anonymous_sql = is_allowed;
        }
        let changes_visibility = edit.visibility.is_some_and(|wanted| wanted != database.visibility);
        if let Some(visibility) = edit.visibility.filter(|_| changes_visibility) {
            if visibility == Visibility::Public && !may_publish(tx.as_mut(), access.who(), &database)? {
                return Err(DatabaseError::ParentPrivate);
            }
            database.visibility = visibility;
        }
        if !tx.databases().update(&database)? {
            return Err(DatabaseError::Changed);
        }
        database.version += 1;
        if changes_visibility {
            let (now, by) = (self.0.now(), access.who());
            let ended = match database.visibility {
                Visibility::Private => pulls::end_with_source(self.0, tx.as_mut(), database.id, by, now),
                Visibility::Public => pulls::end_with_public_base(self.0, tx.as_mut(), database.id, by, now),
            };
            ended.map_err(ending_failed)?;
        }
        tx.commit(Durability::Synced)?;
        if is_transfer {
            self.0.revocations.announce();
        }
        if changes_visibility {
            self.0.outbox.one();
            self.0.collection_wake.one();
        }
        Ok(DatabaseView { database, ..seen })
    }

    /// Returns the addresses that forward to the database, the newest first.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn former_names(&self, access: &DatabaseAccess<Admin>) -> Result<Vec<DatabaseLocator>, DatabaseError> {
        Ok(self.0.ports.metadata.read()?.databases().former_names(access.database().id)?)
    }

    /// Deletes a database and returns its last state. Cancels its queued operations. The name can be reused at once.
    ///
    /// # Errors
    /// [`DatabaseError::Changed`] if `expected` rejects the current state or the database changes concurrently.
    pub fn delete(
        &self,
        access: &DatabaseAccess<Admin>,
        expected: Option<&dyn Fn(&DatabaseView) -> bool>,
    ) -> Result<DatabaseView, DatabaseError> {
        let now = self.0.now();
        let id = access.database().id;
        let keys = WriteKeys::server().and(WriteKey::Database(id));
        let mut tx = begin_write(self.0, keys, |tx| of_pulls_from(tx, id))?;
        let database = live(tx.as_mut(), id)?;
        let seen = view(tx.as_mut(), Some(access.who().id), database.clone(), access.role())?;
        if expected.is_some_and(|matches| !matches(&seen)) {
            return Err(DatabaseError::Changed);
        }
        end(self.0, tx.as_mut(), database, access.who(), now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        self.0.collection_wake.one();
        remove_content(self.0, id)?;
        Ok(seen)
    }

    /// Returns the answer saved under an idempotency key, unless it has expired.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn saved_answer(&self, caller: AccountId, scope: &str, key: &str) -> Result<Option<SavedAnswer>, PortError> {
        let not_before = self.0.now().plus_seconds(-self.0.limits.answer_retention_seconds);
        Ok(self.0.ports.metadata.read()?.idempotency().get(caller, scope, key, not_before)?)
    }
}

/// Returns the ids of all databases that are not deleted, ascending. Page by page, because a transaction for each takes seconds where
/// there are many.
pub(super) fn live_databases(tx: &mut dyn Transaction) -> Result<Vec<DatabaseId>, MetadataError> {
    const PAGE: usize = 1_000;
    let mut live = Vec::new();
    loop {
        let page = tx.databases().ids(live.last().copied(), PAGE)?;
        let is_last = page.len() < PAGE;
        live.extend(page);
        if is_last {
            return Ok(live);
        }
    }
}

/// Removes the content of a deleted database. The file goes last: as long as it exists, a start after a crash does the rest.
pub(super) fn remove_content(inner: &Inner, id: DatabaseId) -> Result<(), PortError> {
    texts::remove_of_deleted(inner, id)?;
    Ok(inner.ports.engine.remove(id)?)
}

/// Deletes a database within a transaction of the caller, who calls [`remove_content`] after the commit.
pub(super) fn end(
    inner: &Inner,
    tx: &mut dyn Transaction,
    mut database: Database,
    by: &User,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let id = database.id;
    for mut operation in tx.operations().pending(id)? {
        if operation.status == OperationStatus::Queued {
            operation.status =
                OperationStatus::Failed(OperationFailure::new(FailureKind::Canceled, "its database was deleted"));
            operation.finished_at = Some(now);
            tx.operations().settle(&operation, None)?;
        }
    }
    database.deleted_at = Some(now);
    if !tx.databases().update(&database)? {
        return Err(DatabaseError::Changed);
    }
    tx.databases().clear_former_names(id)?;
    tx.hooks().clear(id)?;
    tx.mirrors().remove(id)?;
    tx.stars().clear(id)?;
    tx.activities().clear(id)?;
    tx.ref_log().expire(id, None)?;
    pulls::end_with_source(inner, tx, id, by, now).map_err(ending_failed)
}

/// Returns `true` if a user may make a database public. A fork of a private database requires an administrator of its
/// parent.
fn may_publish(tx: &mut dyn Transaction, user: &User, database: &Database) -> Result<bool, PortError> {
    let Some(parent) = database.parent_id else { return Ok(true) };
    let Some(parent) = tx.databases().get(parent)? else { return Ok(true) };
    let role = role_of(tx, Some(user.id), &parent)?;
    Ok(pulls::rules::may_make_fork_public(parent.visibility, role))
}

/// Converts the error of closing a database's pull requests.
fn ending_failed(error: PullError) -> DatabaseError {
    match error {
        PullError::Port(fault) => fault.into(),
        PullError::Access(error) => error.into(),
        PullError::Changed => DatabaseError::Changed,
        _ => PortError::Unsettled("a pull could not be closed with its source").into(),
    }
}

/// Checks whether an owner may have one more database. The inner error is the limit.
pub(super) fn has_room(
    inner: &Inner,
    tx: &mut dyn Transaction,
    owner: AccountId,
) -> Result<Result<(), u64>, PortError> {
    let limit = inner.limits.databases_per_owner;
    if limit > 0 && tx.databases().count(owner)? >= limit {
        return Ok(Err(limit));
    }
    Ok(Ok(()))
}

/// Returns databases as seen by a viewer, with a number of lookups that does not depend on theirs.
fn views(
    tx: &mut dyn Transaction,
    viewer: Option<AccountId>,
    databases: Vec<Database>,
) -> Result<Vec<DatabaseView>, PortError> {
    let roles = roles_of(tx, viewer, &databases)?;
    let relations = ForkRelations::of(tx, viewer, &databases)?;
    let role = |database: &Database| roles.get(&database.id).copied().unwrap_or(Role::Read);
    Ok(databases.into_iter().map(|database| relations.view(role(&database), database)).collect())
}

fn view(
    tx: &mut dyn Transaction,
    viewer: Option<AccountId>,
    database: Database,
    role: Role,
) -> Result<DatabaseView, PortError> {
    let relations = ForkRelations::of(tx, viewer, std::slice::from_ref(&database))?;
    Ok(relations.view(role, database))
}

/// Returns the root of a fork's network; `None` for the root itself.
fn root_of(database: &Database) -> Option<DatabaseId> {
    (database.network_id != database.id).then_some(database.network_id)
}

/// What a viewer sees of the fork networks of some databases.
struct ForkRelations {
    /// Number of visible forks by network.
    forks: BTreeMap<DatabaseId, u64>,
    /// Visible parents and roots.
    locators: BTreeMap<DatabaseId, DatabaseLocator>,
}

impl ForkRelations {
    fn of(tx: &mut dyn Transaction, viewer: Option<AccountId>, databases: &[Database]) -> Result<Self, PortError> {
        let networks: BTreeSet<DatabaseId> = databases.iter().map(|database| database.network_id).collect();
        let forks = tx.databases().count_forks(viewer, &networks.into_iter().collect::<Vec<_>>())?;
        let of = |database: &Database| [database.parent_id, root_of(database)];
        let related: BTreeSet<DatabaseId> = databases.iter().flat_map(of).flatten().collect();
        let mut locators = BTreeMap::new();
        if !related.is_empty() {
            let mut found = tx.databases().get_all(&related.into_iter().collect::<Vec<_>>())?;
            found.retain(|database| database.deleted_at.is_none());
            let roles = roles_of(tx, viewer, &found)?;
            let visible = found.into_iter().filter(|database| roles.contains_key(&database.id));
            locators.extend(visible.map(|database| (database.id, database.locator)));
        }
        Ok(Self { forks, locators })
    }

    fn view(&self, role: Role, database: Database) -> DatabaseView {
        let fork_network_count = self.forks.get(&database.network_id).copied().unwrap_or_default();
        let locator = |id: &DatabaseId| self.locators.get(id).cloned();
        let parent = database.parent_id.as_ref().and_then(locator);
        let network_root = root_of(&database).as_ref().and_then(locator);
        DatabaseView { database, role, fork_network_count, parent, network_root }
    }
}

/// Returns the database and the caller's role, if they were read with the credential of the call.
fn foreseen_role(caller: &Caller, owner: &str, name: &str) -> Option<(Database, Role)> {
    let user = caller.user()?.id;
    let is_it = |(id, database, _): &mut (AccountId, Database, Role)| {
        let DatabaseLocator { owner: its_owner, name: its_name } = &database.locator;
        *id == user && its_owner.as_str().eq_ignore_ascii_case(owner) && its_name.as_str().eq_ignore_ascii_case(name)
    };
    let (_, database, role) = call_context::take_foreseen(|foreseen| foreseen.access.take_if(is_it))?;
    Some((database, role))
}
