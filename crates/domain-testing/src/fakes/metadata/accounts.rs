//! Users and organizations.

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{Account, AccountKind, Email, MemberRole, Organization, User};
use branchyard_domain::ports::{
    AccountRepository, MetadataError, OrganizationRepository, Repositories, UserFilter, UserRepository,
};
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};

impl AccountRepository for MemoryTransaction<'_> {
    fn by_name(&mut self, name: &OwnerName) -> Result<Option<Account>> {
        let users = self.state.users.values().map(|u| (u.id, &u.name, AccountKind::User));
        let organizations = self.state.organizations.values().map(|o| (o.id, &o.name, AccountKind::Organization));
        let found = users.chain(organizations).find(|(_, taken, _)| taken.key() == name.key());
        Ok(found.map(|(id, name, kind)| Account { id, name: name.clone(), kind }))
    }
}

impl UserRepository for MemoryTransaction<'_> {
    fn add(&mut self, user: &User) -> Result<()> {
        if self.accounts().by_name(&user.name)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.users.insert(user.id, user.clone());
        Ok(())
    }

    fn get(&mut self, id: AccountId) -> Result<Option<User>> {
        Ok(self.state.users.get(&id).cloned())
    }

    fn update(&mut self, user: &User) -> Result<bool> {
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
        let mut found: Vec<&User> = self.state.users.values().collect();
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
        Ok(of_tokens.chain(sessions.map(|session| session.last_use.at)).max())
    }
}

impl OrganizationRepository for MemoryTransaction<'_> {
    fn add(&mut self, organization: &Organization) -> Result<()> {
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

    fn remove(&mut self, id: AccountId, _at: Timestamp) -> Result<()> {
        let state = self.change()?;
        state.organizations.remove(&id);
        state.members.retain(|(organization, _), _| *organization != id);
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
