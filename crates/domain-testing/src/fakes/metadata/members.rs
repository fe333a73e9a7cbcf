//! Memberships in organizations.

use std::collections::BTreeMap;

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{Member, MemberRole, Role};
use branchyard_domain::ports::Repositories as _;
use branchyard_domain::ports::{MemberRepository, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp};

impl MemberRepository for MemoryTransaction<'_> {
    fn put(&mut self, organization: AccountId, user: AccountId, role: MemberRole, at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Account(organization));
        if !self.state.organizations.contains_key(&organization) || !self.state.users.contains_key(&user) {
            return Err(missing("put a member"));
        }
        let added = !self.state.members.contains_key(&(organization, user));
        self.change()?.members.entry((organization, user)).or_insert((role, at)).0 = role;
        Ok(added)
    }

    fn get(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>> {
        let Some((role, added_at)) = self.state.members.get(&(organization, user)) else { return Ok(None) };
        let member = self.state.users.get(&user);
        Ok(member.map(|u| Member { user_id: user, username: u.name.clone(), role: *role, added_at: *added_at }))
    }

    fn roles(
        &mut self,
        user: AccountId,
        organizations: &[AccountId],
    ) -> Result<BTreeMap<AccountId, (MemberRole, Role)>> {
        let role_in = |id: &AccountId| {
            let (role, _) = self.state.members.get(&(*id, user))?;
            let organization = self.state.organizations.get(id)?;
            Some((*id, (*role, organization.base_role)))
        };
        Ok(organizations.iter().filter_map(role_in).collect())
    }

    fn remove(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>> {
        self.needs(WriteKey::Account(organization));
        let found = self.members().get(organization, user)?;
        self.change()?.members.remove(&(organization, user));
        Ok(found)
    }

    fn list(&mut self, organization: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<Member>> {
        let ids: Vec<AccountId> =
            self.state.members.keys().filter(|(id, _)| *id == organization).map(|(_, user)| *user).collect();
        let mut found = Vec::new();
        for user in ids {
            found.extend(self.members().get(organization, user)?);
        }
        found.retain(|member| after.is_none_or(|after| *member.username.key() > *after));
        found.sort_by_key(|member| member.username.key());
        Ok(page(found.into_iter(), limit))
    }

    fn count_owned(&mut self, user: AccountId) -> Result<u64> {
        let owned = self.state.members.iter().filter(|((_, of), (role, _))| *of == user && *role == MemberRole::Owner);
        Ok(count(owned.count()))
    }

    fn count_owners(&mut self, organization: AccountId) -> Result<u64> {
        let owners = self.state.members.iter().filter(|(_, (role, _))| *role == MemberRole::Owner);
        Ok(count(owners.filter(|((id, _), _)| *id == organization).count()))
    }
}
