//! Collaborators.

use std::collections::BTreeMap;

use super::{MemoryTransaction, Result, missing, page};
use branchyard_domain::entities::{Collaborator, Role};
use branchyard_domain::ports::Repositories as _;
use branchyard_domain::ports::{CollaboratorRepository, WriteKey};
use branchyard_domain::values::{AccountId, DatabaseId, Timestamp};

impl CollaboratorRepository for MemoryTransaction<'_> {
    fn put(&mut self, database: DatabaseId, user: AccountId, role: Role, at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        if !self.state.databases.contains_key(&database) || !self.state.users.contains_key(&user) {
            return Err(missing("put a collaborator"));
        }
        let added = !self.state.collaborators.contains_key(&(database, user));
        self.change()?.collaborators.entry((database, user)).or_insert((role, at)).0 = role;
        Ok(added)
    }

    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>> {
        let Some((role, added_at)) = self.state.collaborators.get(&(database, user)) else { return Ok(None) };
        let found = self.state.users.get(&user);
        Ok(found.map(|u| Collaborator { user_id: user, username: u.name.clone(), role: *role, added_at: *added_at }))
    }

    fn roles(&mut self, user: AccountId, databases: &[DatabaseId]) -> Result<BTreeMap<DatabaseId, Role>> {
        let role_on = |id: &DatabaseId| Some((*id, self.state.collaborators.get(&(*id, user))?.0));
        Ok(databases.iter().filter_map(role_on).collect())
    }

    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>> {
        self.needs(WriteKey::Database(database));
        let found = self.collaborators().get(database, user)?;
        self.change()?.collaborators.remove(&(database, user));
        Ok(found)
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Collaborator>> {
        let ids: Vec<AccountId> =
            self.state.collaborators.keys().filter(|(id, _)| *id == database).map(|(_, user)| *user).collect();
        let mut found = Vec::new();
        for user in ids {
            found.extend(self.collaborators().get(database, user)?);
        }
        let after = after.map(str::to_ascii_lowercase);
        found.retain(|c| after.as_ref().is_none_or(|after| c.username.key() > *after));
        found.sort_by_key(|c| c.username.key());
        Ok(page(found.into_iter(), limit))
    }
}
