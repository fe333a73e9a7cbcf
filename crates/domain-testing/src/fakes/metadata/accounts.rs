//! Users and organizations.

use std::collections::BTreeSet;

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{
    Account, AccountKind, Email, MemberRole, Organization, PullState, RetiredName, User,
};
use branchyard_domain::ports::{
    AccountRepository, MetadataError, OrganizationRepository, Repositories, UserFilter, UserRepository, WriteKey,
};
use branchyard_domain::values::{AccountId, DatabaseId, OwnerName, Timestamp};

impl AccountRepository for MemoryTransaction<'_> {
    fn by_name(&mut self, name: &OwnerName) -> Result<Option<Account>> {
        let live = self.state.users.values().filter(|user| !self.state.retired.contains_key(&user.id));
        let users = live.map(|u| (u.id, &u.name, AccountKind::User));
        let organizations = self.state.organizations.values().map(|o| (o.id, &o.name, AccountKind::Organization));
        let found = users.chain(organizations).find(|(_, taken, _)| taken.key() == name.key());
        Ok(found.map(|(id, name, kind)| Account { id, name: name.clone(), kind }))
    }

    fn retired(&mut self, name: &OwnerName) -> Result<Option<RetiredName>> {
        let same = self.state.retired.values().filter(|(key, _)| *key == name.key()).map(|(_, retired)| *retired);
        Ok(same.max_by_key(|retired| retired.at))
    }

    fn forget_names(&mut self, before: Timestamp) -> Result<u64> {
        let erased = OwnerName::deleted_user();
        let state = self.change()?;
        let is_erased = |id: &AccountId| state.users.get(id).is_some_and(|user| user.name == erased);
        let old = state
            .retired
            .iter()
            .filter(|(id, (key, retired))| retired.at < before && *key != *erased.as_str() && is_erased(id));
        let old: Vec<AccountId> = old.map(|(id, _)| *id).collect();
        for id in &old {
            if let Some((key, _)) = state.retired.get_mut(id) {
                *key = erased.to_string();
            }
        }
        Ok(count(old.len()))
    }
}

impl UserRepository for MemoryTransaction<'_> {
    fn add(&mut self, user: &User) -> Result<()> {
        self.needs(WriteKey::Account(user.id));
        if self.accounts().by_name(&user.name)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.users.insert(user.id, user.clone());
        Ok(())
    }

    fn get(&mut self, id: AccountId) -> Result<Option<User>> {
        let is_deleted = self.state.retired.contains_key(&id);
        Ok(self.state.users.get(&id).filter(|_| !is_deleted).cloned())
    }

    fn update(&mut self, user: &User) -> Result<bool> {
        self.needs(WriteKey::Account(user.id));
        let Some(stored) = self.change()?.users.get_mut(&user.id) else { return Ok(false) };
        stored.display_name.clone_from(&user.display_name);
        stored.bio.clone_from(&user.bio);
        stored.location.clone_from(&user.location);
        stored.website_url.clone_from(&user.website_url);
        stored.profile_pic_url.clone_from(&user.profile_pic_url);
        stored.password_hash.clone_from(&user.password_hash);
        stored.is_admin = user.is_admin;
        stored.suspended_at = user.suspended_at;
        Ok(true)
    }

    fn set_emails(&mut self, user: AccountId, emails: &[Email]) -> Result<()> {
        self.needs(WriteKey::Account(user));
        let Some(stored) = self.change()?.users.get_mut(&user) else {
            return Err(missing("set the addresses of a user"));
        };
        stored.emails = emails.to_vec();
        Ok(())
    }

    fn any(&mut self) -> Result<bool> {
        Ok(!self.state.users.is_empty())
    }

    fn list(&mut self, filter: &UserFilter, after: Option<&str>, limit: usize) -> Result<Vec<User>> {
        if filter.contains.as_ref().is_some_and(|text| text.len() > UserFilter::MAX_CONTAINS) {
            return Ok(Vec::new());
        }
        let text = filter.contains.as_ref().map(|text| text.to_lowercase());
        let live = self.state.users.values().filter(|user| !self.state.retired.contains_key(&user.id));
        let mut found: Vec<&User> = live.collect();
        found.retain(|user| {
            text.as_ref().is_none_or(|text| user.name.key().contains(text))
                && filter.is_suspended.is_none_or(|wanted| user.suspended_at.is_some() == wanted)
                && filter.is_admin.is_none_or(|wanted| user.is_admin == wanted)
                && after.is_none_or(|after| *user.name.key() > *after)
        });
        found.sort_by_key(|user| user.name.key());
        Ok(page(found.into_iter().cloned(), limit))
    }

    fn count_active_admins(&mut self) -> Result<u64> {
        Ok(count(self.state.users.values().filter(|user| user.is_admin && user.suspended_at.is_none()).count()))
    }

    fn last_seen(&mut self, id: AccountId) -> Result<Option<Timestamp>> {
        let tokens = self.state.tokens.values().filter(|token| token.user_id == id);
        let sessions = self.state.sessions.values().filter(|session| session.user_id == id);
        let of_tokens = tokens.filter_map(|token| token.last_use.as_ref()).map(|last| last.at);
        let of_keys = self.state.user_keys.values().filter(|key| key.user_id == id).filter_map(|key| key.last_used_at);
        let grants = self.state.grants.values().filter(|grant| grant.user_id == id);
        let of_grants = grants.filter_map(|grant| grant.last_use.as_ref()).map(|last| last.at);
        Ok(of_tokens.chain(of_keys).chain(of_grants).chain(sessions.map(|session| session.last_use.at)).max())
    }

    fn remove(&mut self, id: AccountId, at: Timestamp) -> Result<()> {
        self.needs(WriteKey::Account(id));
        let state = self.change()?;
        let Some(user) = state.users.get_mut(&id) else { return Err(missing("remove a user")) };
        user.password_hash = None;
        user.is_admin = false;
        state.retired.insert(id, (user.name.key(), RetiredName { id, at, by: None }));
        state.tokens.retain(|_, token| token.user_id != id);
        state.user_keys.retain(|_, key| key.user_id != id);
        state.sessions.retain(|_, session| session.user_id != id);
        state.remove_oauth_of(id);
        state.invitations.retain(|_, invitation| invitation.created_by != Some(id));
        state.members.retain(|(_, user), _| *user != id);
        state.collaborators.retain(|(_, user), _| *user != id);
        state.deployment_collaborators.retain(|(_, user), _| *user != id);
        state.answers.retain(|(caller, _, _), _| *caller != id);
        state.former_names.retain(|(owner, _), _| *owner != id);
        let starred: Vec<DatabaseId> = state.stars.keys().filter(|(_, user)| *user == id).map(|(of, _)| *of).collect();
        for database in starred {
            self.stars().remove(database, id)?;
        }
        Ok(())
    }

    fn erase(&mut self, id: AccountId) -> Result<()> {
        self.needs(WriteKey::Account(id));
        let name = OwnerName::deleted_user();
        let state = self.change()?;
        if !state.retired.contains_key(&id) {
            return Err(missing("erase a user"));
        }
        let Some(user) = state.users.get_mut(&id) else { return Err(missing("erase a user")) };
        let former = std::mem::replace(&mut user.name, name.clone());
        (user.display_name, user.bio, user.location) = (None, None, None);
        (user.website_url, user.profile_pic_url) = (None, None);
        user.emails.clear();
        state.operations.retain(|_, leased| leased.operation.created_by != id || !leased.operation.settled());
        for leased in state.operations.values_mut().filter(|leased| leased.operation.created_by == id) {
            leased.operation.created_by_name = name.clone();
        }
        for activity in state.activities.values_mut().filter(|activity| activity.by == id) {
            activity.by_name = name.clone();
        }
        for (_, comment) in state.comments.values_mut().flatten().filter(|(author, _)| *author == id) {
            comment.author = name.clone();
        }
        for database in state.databases.values_mut().filter(|database| database.owner_id == id) {
            database.locator.owner = name.clone();
        }
        let owned: BTreeSet<DatabaseId> =
            state.databases.values().filter(|database| database.owner_id == id).map(|database| database.id).collect();
        for pull in state.pulls.values_mut() {
            if pull.creator_id == id {
                pull.creator = name.clone();
            }
            if owned.contains(&pull.from_database_id) {
                pull.from_locator.owner = name.clone();
            }
            if let PullState::Merged { by, .. } = &mut pull.state
                && by.key() == former.key()
            {
                *by = name.clone();
            }
        }
        Ok(())
    }
}

impl OrganizationRepository for MemoryTransaction<'_> {
    fn add(&mut self, organization: &Organization) -> Result<()> {
        self.needs(WriteKey::Account(organization.id));
        if self.accounts().by_name(&organization.name)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.organizations.insert(organization.id, organization.clone());
        Ok(())
    }

    fn get(&mut self, id: AccountId) -> Result<Option<Organization>> {
        Ok(self.state.organizations.get(&id).cloned())
    }

    fn update(&mut self, organization: &Organization) -> Result<bool> {
        self.needs(WriteKey::Account(organization.id));
        let Some(stored) = self.change()?.organizations.get_mut(&organization.id) else { return Ok(false) };
        stored.display_name.clone_from(&organization.display_name);
        stored.description.clone_from(&organization.description);
        stored.base_role = organization.base_role;
        Ok(true)
    }

    fn owns_others(&mut self, id: AccountId) -> Result<Option<&'static str>> {
        let owns = self.state.deployments.values().any(|known| known.owner_id == id && known.removed_at.is_none());
        Ok(owns.then_some("deployments"))
    }

    fn remove(&mut self, id: AccountId, at: Timestamp, by: AccountId) -> Result<()> {
        self.needs(WriteKey::Account(id));
        let state = self.change()?;
        if let Some(organization) = state.organizations.remove(&id) {
            state.retired.insert(id, (organization.name.key(), RetiredName { id, at, by: Some(by) }));
        }
        state.members.retain(|(organization, _), _| *organization != id);
        state.former_names.retain(|(owner, _), _| *owner != id);
        Ok(())
    }

    fn list(&mut self, user: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<(Organization, MemberRole)>> {
        let of_user = self.state.members.iter().filter(|((_, member), _)| *member == user);
        let mut found: Vec<(Organization, MemberRole)> = of_user
            .filter_map(|((id, _), (role, _))| Some((self.state.organizations.get(id)?.clone(), *role)))
            .collect();
        found.retain(|(organization, _)| after.is_none_or(|after| *organization.name.key() > *after));
        found.sort_by_key(|(organization, _)| organization.name.key());
        Ok(page(found.into_iter(), limit))
    }
}
