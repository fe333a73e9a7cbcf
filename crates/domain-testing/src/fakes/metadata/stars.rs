//! Stars.

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::Star;
use branchyard_domain::ports::Repositories as _;
use branchyard_domain::ports::{StarRepository, WriteKey};
use branchyard_domain::values::{AccountId, DatabaseId, Timestamp};

impl MemoryTransaction<'_> {
    fn count_stars(&mut self, database: DatabaseId) -> Result<()> {
        let stars = count(self.state.stars.keys().filter(|(id, _)| *id == database).count());
        if let Some(stored) = self.change()?.databases.get_mut(&database) {
            stored.star_count = i64::try_from(stars).unwrap_or(i64::MAX);
        }
        Ok(())
    }
}

impl StarRepository for MemoryTransaction<'_> {
    fn add(&mut self, database: DatabaseId, user: AccountId, at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        if !self.state.databases.contains_key(&database) || !self.state.users.contains_key(&user) {
            return Err(missing("add a star"));
        }
        if self.state.stars.contains_key(&(database, user)) {
            return Ok(false);
        }
        self.change()?.stars.insert((database, user), at);
        self.count_stars(database)?;
        Ok(true)
    }

    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let removed = self.change()?.stars.remove(&(database, user)).is_some();
        self.count_stars(database)?;
        Ok(removed)
    }

    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Star>> {
        let Some(starred_at) = self.state.stars.get(&(database, user)) else { return Ok(None) };
        let found = self.state.users.get(&user);
        Ok(found.map(|u| Star { user_id: user, username: u.name.clone(), starred_at: *starred_at }))
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Star>> {
        let ids: Vec<AccountId> =
            self.state.stars.keys().filter(|(id, _)| *id == database).map(|(_, user)| *user).collect();
        let mut found = Vec::new();
        for user in ids {
            found.extend(self.stars().get(database, user)?);
        }
        found.retain(|star| after.is_none_or(|after| star.username.key().as_str() > after));
        found.sort_by_key(|star| star.username.key());
        Ok(page(found.into_iter(), limit))
    }

    fn clear(&mut self, database: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.change()?.stars.retain(|(id, _), _| *id != database);
        self.count_stars(database)
    }
}
