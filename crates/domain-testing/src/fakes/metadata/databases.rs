//! Databases.

use std::collections::BTreeMap;

use super::{MemoryTransaction, Result, count, page};
use branchyard_domain::entities::{Database, DatabaseLocator, FileState, Pull, PullState, Visibility, Work};
use branchyard_domain::ports::{
    BranchFacts, DatabaseFilter, DatabaseRepository, MetadataError, Ranking, Repositories as _, RoleSources,
    SizeChange, WriteKey,
};
use branchyard_domain::values::{AccountId, DatabaseId, DatabaseName, OwnerName, RefName, Timestamp};

impl MemoryTransaction<'_> {
    fn sees(&self, viewer: Option<AccountId>, database: &Database) -> bool {
        match database.quarantined_at {
            Some(_) => viewer.is_some_and(|user| self.is_admin(user)),
            None => {
                database.visibility == Visibility::Public || viewer.is_some_and(|user| self.has_role(user, database))
            }
        }
    }

    fn is_admin(&self, user: AccountId) -> bool {
        self.state.users.get(&user).is_some_and(|user| user.is_admin)
    }

    fn has_role(&self, user: AccountId, database: &Database) -> bool {
        database.owner_id == user
            || self.state.members.contains_key(&(database.owner_id, user))
            || self.state.collaborators.contains_key(&(database.id, user))
    }

    fn passes(&self, database: &Database, filter: &DatabaseFilter) -> bool {
        let text = filter.contains.as_ref().map(|text| text.to_lowercase());
        let said = |text: &String| {
            database.locator.name.as_str().to_lowercase().contains(text)
                || database.description.as_ref().is_some_and(|words| words.to_lowercase().contains(text))
        };
        filter.owner.as_ref().is_none_or(|owner| database.locator.owner.key() == owner.key())
            && filter.visibility.is_none_or(|visibility| database.visibility == visibility)
            && filter.starred_by.is_none_or(|user| self.state.stars.contains_key(&(database.id, user)))
            && filter.is_quarantined.is_none_or(|wanted| database.quarantined_at.is_some() == wanted)
            && text.as_ref().is_none_or(said)
    }

    fn live_page(
        &self,
        wanted: impl Fn(&Database) -> bool,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Vec<Database> {
        let key = |d: &Database| (d.locator.owner.key(), d.locator.name.key());
        let after = after.map(|(owner, name)| (owner.to_ascii_lowercase(), name.to_ascii_lowercase()));
        let mut found: Vec<&Database> = self.state.databases.values().filter(|d| d.deleted_at.is_none()).collect();
        found.retain(|d| wanted(d) && after.as_ref().is_none_or(|after| key(d) > *after));
        found.sort_by_key(|d| key(d));
        page(found.into_iter().cloned(), limit)
    }
}

impl DatabaseRepository for MemoryTransaction<'_> {
    fn add(&mut self, database: &Database) -> Result<()> {
        self.needs(WriteKey::Account(database.owner_id));
        let locator = &database.locator;
        if self.state.live(&locator.owner.key(), &locator.name.key()).is_some() {
            return Err(MetadataError::Taken);
        }
        let state = self.change()?;
        state.former_names.remove(&(database.owner_id, database.locator.name.key()));
        state.databases.insert(database.id, database.clone());
        Ok(())
    }

    fn by_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>> {
        Ok(self.state.live(&owner.key(), &name.key()).cloned())
    }

    fn get(&mut self, id: DatabaseId) -> Result<Option<Database>> {
        Ok(self.state.databases.get(&id).cloned())
    }

    fn branch_facts(
        &mut self,
        id: DatabaseId,
        branch: &RefName,
        user: AccountId,
        now: Timestamp,
    ) -> Result<Option<BranchFacts>> {
        let Some(database) = DatabaseRepository::get(self, id)? else { return Ok(None) };
        let is_active = self.users().get(user)?.is_some_and(|user| user.suspended_at.is_none());
        let member = self.members().roles(user, &[database.owner_id])?.get(&database.owner_id).copied();
        let collaborator = self.collaborators().roles(user, &[id])?.get(&id).copied();
        let is_from =
            |pull: &Pull| pull.state == PullState::Open && pull.from_database_id == id && pull.from_branch == *branch;
        Ok(Some(BranchFacts {
            is_held_up: self.operations().is_held_up(id, now)?,
            head: self.branches().get(id, branch)?.map(|branch| branch.head),
            has_hooks: self.hooks().count(id)? > 0,
            has_pulls: self.state.pulls.values().any(is_from),
            writer: is_active.then_some(RoleSources { member, collaborator }),
            database,
        }))
    }

    fn get_all(&mut self, ids: &[DatabaseId]) -> Result<Vec<Database>> {
        Ok(ids.iter().filter_map(|id| self.state.databases.get(id)).cloned().collect())
    }

    fn update(&mut self, database: &Database) -> Result<bool> {
        self.needs(WriteKey::Database(database.id));
        if self.state.databases.get(&database.id).is_none_or(|stored| stored.version != database.version) {
            return Ok(false);
        }
        let named = self.state.live(&database.locator.owner.key(), &database.locator.name.key());
        if database.deleted_at.is_none() && named.is_some_and(|other| other.id != database.id) {
            return Err(MetadataError::Taken);
        }
        let Some(stored) = self.change()?.databases.get_mut(&database.id) else { return Ok(false) };
        stored.description.clone_from(&database.description);
        stored.visibility = database.visibility;
        stored.default_branch = database.default_branch.clone();
        stored.anonymous_sql = database.anonymous_sql;
        stored.is_mirror = database.is_mirror;
        stored.last_write_at = database.last_write_at;
        stored.size_bytes = database.size_bytes;
        stored.deleted_at = database.deleted_at;
        stored.quarantined_at = database.quarantined_at;
        stored.version += 1;
        Ok(true)
    }

    fn rename(&mut self, database: &Database, most: usize) -> Result<bool> {
        self.needs(WriteKey::Database(database.id));
        self.needs(WriteKey::Account(database.owner_id));
        let stored = self.state.databases.get(&database.id);
        let stored = stored.filter(|stored| stored.version == database.version && stored.deleted_at.is_none());
        let Some(former) = stored.map(|stored| (stored.owner_id, stored.locator.name.clone())) else {
            return Ok(false);
        };
        self.needs(WriteKey::Account(former.0));
        let (id, locator) = (database.id, &database.locator);
        if self.state.live(&locator.owner.key(), &locator.name.key()).is_some_and(|other| other.id != id) {
            return Err(MetadataError::Taken);
        }
        let state = self.change()?;
        if let Some(stored) = state.databases.get_mut(&id) {
            (stored.owner_id, stored.locator) = (database.owner_id, locator.clone());
            stored.version += 1;
        }
        for pull in state.pulls.values_mut().filter(|pull| pull.from_database_id == id) {
            pull.from_locator = locator.clone();
        }
        for leased in state.operations.values_mut().filter(|leased| leased.operation.database_id == id) {
            leased.operation.locator = locator.clone();
        }
        let (now, was) = ((database.owner_id, locator.name.key()), (former.0, former.1.key()));
        state.former_names.remove(&now);
        if was != now {
            state.former_names.insert(was, (id, former.1, database.version));
        }
        let of_it = state.former_names.values().filter(|(of, ..)| *of == id);
        let mut kept: Vec<i64> = of_it.map(|(_, _, position)| *position).collect();
        kept.sort_unstable_by_key(|position| std::cmp::Reverse(*position));
        kept.truncate(most);
        state.former_names.retain(|_, (of, _, position)| *of != id || kept.contains(position));
        Ok(true)
    }

    fn by_former_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>> {
        let Some(account) = self.accounts().by_name(owner)? else { return Ok(None) };
        let found = self.state.former_names.get(&(account.id, name.key()));
        let found = found.and_then(|(id, ..)| self.state.databases.get(id));
        Ok(found.filter(|database| database.deleted_at.is_none()).cloned())
    }

    fn former_names(&mut self, id: DatabaseId) -> Result<Vec<DatabaseLocator>> {
        let of_it = self.state.former_names.iter().filter(|(_, (of, ..))| *of == id);
        let mut found = Vec::new();
        for ((owner, _), (_, name, position)) in of_it {
            let user = self.state.users.get(owner).map(|user| user.name.clone());
            let organization = || self.state.organizations.get(owner).map(|organization| organization.name.clone());
            if let Some(owner) = user.or_else(organization) {
                found.push((*position, DatabaseLocator { owner, name: name.clone() }));
            }
        }
        found.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
        Ok(found.into_iter().map(|(_, locator)| locator).collect())
    }

    fn clear_former_names(&mut self, id: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(id));
        self.change()?.former_names.retain(|_, (of, ..)| *of != id);
        Ok(())
    }

    fn record_write(&mut self, id: DatabaseId, at: Timestamp, file: FileState) -> Result<()> {
        self.needs(WriteKey::Database(id));
        if let Some(stored) = self.change()?.databases.get_mut(&id) {
            stored.last_write_at = Some(at);
        }
        self.record_file(id, file, SizeChange::Added)
    }

    fn record_file(&mut self, id: DatabaseId, file: FileState, change: SizeChange) -> Result<()> {
        self.needs(WriteKey::Database(id));
        let FileState { size_bytes, engine_format } = file;
        if let Some(stored) = self.change()?.databases.get_mut(&id) {
            match change {
                SizeChange::Added => stored.live_bytes += size_bytes - stored.size_bytes,
                SizeChange::Wasted => {}
                SizeChange::Collected => stored.live_bytes = size_bytes,
            }
            stored.size_bytes = size_bytes;
            stored.engine_format = engine_format;
        }
        Ok(())
    }

    fn next_generation(&mut self, id: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(id));
        if let Some(stored) = self.change()?.databases.get_mut(&id) {
            stored.generation += 1;
        }
        Ok(())
    }

    fn list_network(&mut self, network: DatabaseId, after: Option<DatabaseId>, limit: usize) -> Result<Vec<Database>> {
        let of_network = |database: &&Database| database.network_id == network && database.deleted_at.is_none();
        let found = self.state.databases.values().filter(of_network);
        let mut found: Vec<_> =
            found.filter(|database| after.is_none_or(|after| database.id > after)).cloned().collect();
        found.sort_by_key(|database| database.id);
        Ok(page(found.into_iter(), limit))
    }

    fn list(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>> {
        Ok(self.live_page(|d| self.passes(d, filter) && self.sees(viewer, d), after, limit))
    }

    fn list_all(
        &mut self,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>> {
        Ok(self.live_page(|d| self.passes(d, filter), after, limit))
    }

    fn list_ranked(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        ranking: Ranking,
        after: Option<(i64, DatabaseId)>,
        limit: usize,
    ) -> Result<Vec<Database>> {
        let key = |d: &Database| (ranking.of(d), d.id);
        let mut found = self.live_page(|d| self.passes(d, filter) && self.sees(viewer, d), None, usize::MAX);
        found.retain(|d| after.is_none_or(|after| key(d) < after));
        found.sort_by_key(|d| std::cmp::Reverse(key(d)));
        Ok(page(found.into_iter(), limit))
    }

    fn list_of_user(&mut self, user: AccountId, limit: usize) -> Result<Vec<Database>> {
        let live = self.state.databases.values().filter(|d| d.deleted_at.is_none() && self.has_role(user, d));
        let is_admin = self.is_admin(user);
        let mut found: Vec<Database> = live.filter(|d| is_admin || d.quarantined_at.is_none()).cloned().collect();
        found.sort_by_key(|d| std::cmp::Reverse((Ranking::LastWrite.of(d), d.id)));
        Ok(page(found.into_iter(), limit))
    }

    fn count(&mut self, owner: AccountId) -> Result<u64> {
        let live = self.state.databases.values().filter(|d| d.owner_id == owner && d.deleted_at.is_none());
        Ok(count(live.count()))
    }

    fn bytes_of(&mut self, owner: AccountId) -> Result<u64> {
        let of = |id: &DatabaseId| {
            self.state.databases.get(id).is_some_and(|d| d.owner_id == owner && d.deleted_at.is_none())
        };
        let files =
            self.state.databases.values().filter(|d| of(&d.id)).map(|d| u64::try_from(d.size_bytes).unwrap_or(0));
        let uploads = self.state.uploads.values().filter(|u| of(&u.database_id)).map(|u| u.content_length);
        let operations = self.state.operations.values().map(|leased| &leased.operation);
        let texts = operations.filter(|o| of(&o.database_id)).map(|o| match &o.work {
            Work::SqlWrite { statements, message, .. } => (statements.len() + message.len()) as u64,
            Work::Edit(edit) => edit.bytes() as u64,
            Work::Merge { message, .. } => message.len() as u64,
            Work::Fork { .. }
            | Work::Import(_)
            | Work::Purge
            | Work::Push(_)
            | Work::MirrorSync
            | Work::Restore { .. } => 0,
        });
        Ok(files.chain(uploads).chain(texts).sum())
    }

    fn list_forks(
        &mut self,
        viewer: Option<AccountId>,
        parent: DatabaseId,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>> {
        Ok(self.live_page(|d| d.parent_id == Some(parent) && self.sees(viewer, d), after, limit))
    }

    fn count_forks(&mut self, viewer: Option<AccountId>, networks: &[DatabaseId]) -> Result<BTreeMap<DatabaseId, u64>> {
        let mut counts = BTreeMap::new();
        let live = self.state.databases.values().filter(|d| networks.contains(&d.network_id) && d.deleted_at.is_none());
        for fork in live.filter(|d| d.parent_id.is_some() && self.sees(viewer, d)) {
            *counts.entry(fork.network_id).or_default() += 1;
        }
        Ok(counts)
    }

    fn ids(&mut self, after: Option<DatabaseId>, limit: usize) -> Result<Vec<DatabaseId>> {
        let live = self.state.databases.values().filter(|d| d.deleted_at.is_none()).map(|d| d.id);
        Ok(page(live.filter(|id| after.is_none_or(|after| *id > after)), limit))
    }
}
