//! Users, organizations, memberships.

use super::{MemoryUnit, Result, missing};
use crate::entities::{Account, AccountKind, Member, MemberRole, Organization, User};
use crate::ports::{AccountRepository, MetadataError};
use crate::values::{AccountId, OwnerName, Timestamp};

impl AccountRepository for MemoryUnit<'_> {
    fn account_by_name(&mut self, name: &OwnerName) -> Result<Option<Account>> {
        let users = self.state.users.values().map(|u| (u.id, &u.name, AccountKind::User));
        let organizations = self.state.organizations.values().map(|o| (o.id, &o.name, AccountKind::Organization));
        let found = users.chain(organizations).find(|(_, taken, _)| taken.key() == name.key());
        Ok(found.map(|(id, name, kind)| Account { id, name: name.clone(), kind }))
    }

    fn user_add(&mut self, user: &User) -> Result<()> {
        if self.account_by_name(&user.name)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.users.insert(user.id, user.clone());
        Ok(())
    }

    fn user_get(&mut self, id: AccountId) -> Result<Option<User>> {
        Ok(self.state.users.get(&id).cloned())
    }

    fn organization_add(&mut self, organization: &Organization) -> Result<()> {
        if self.account_by_name(&organization.name)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.organizations.insert(organization.id, organization.clone());
        Ok(())
    }

    fn organization_get(&mut self, id: AccountId) -> Result<Option<Organization>> {
        Ok(self.state.organizations.get(&id).cloned())
    }

    fn member_put(&mut self, organization: AccountId, user: AccountId, role: MemberRole, at: Timestamp) -> Result<()> {
        if !self.state.organizations.contains_key(&organization) || !self.state.users.contains_key(&user) {
            return Err(missing("put a member"));
        }
        let member = self.change()?.members.entry((organization, user)).or_insert((role, at));
        member.0 = role;
        Ok(())
    }

    fn member_get(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>> {
        let Some((role, added_at)) = self.state.members.get(&(organization, user)) else { return Ok(None) };
        let member = self.state.users.get(&user);
        Ok(member.map(|u| Member { user_id: user, username: u.name.clone(), role: *role, added_at: *added_at }))
    }
}
