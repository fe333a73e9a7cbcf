//! Members of organizations.

use super::Inner;
use super::organizations::live;
use super::people::account_of;
use crate::access::{Belong, OrganizationAccess, Own, Standing};
use crate::entities::{Member, MemberRole, User};
use crate::errors::OrganizationError;
use crate::ports::{Durability, Transaction, WriteKeys};
use crate::values::AccountId;

/// Use cases of members.
pub struct Members<'a>(&'a Inner);

impl<'a> Members<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns a member by name, in any letter case.
    ///
    /// # Errors
    /// [`OrganizationError::NoSuchMember`] if the account does not exist or is not a member.
    pub fn get(&self, access: &OrganizationAccess<Belong>, name: &str) -> Result<Member, OrganizationError> {
        let missing = || OrganizationError::NoSuchMember(name.to_owned());
        let mut tx = self.0.ports.metadata.read()?;
        let account = account_of(tx.as_mut(), name)?.ok_or_else(missing)?;
        tx.members().get(access.organization().id, account.id)?.ok_or_else(missing)
    }

    /// Returns up to `limit` members whose lower-case names follow `after`, in order of these names.
    ///
    /// # Errors
    /// [`OrganizationError::Port`].
    pub fn list(
        &self,
        access: &OrganizationAccess<Belong>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Member>, OrganizationError> {
        Ok(self.0.ports.metadata.read()?.members().list(access.organization().id, after, limit)?)
    }

    /// Adds a member or changes the role of an existing one. The flag is `true` if the member was added.
    ///
    /// # Errors
    /// [`OrganizationError::NoOwnerLeft`] if the last owner would become a plain member.
    pub fn put(
        &self,
        access: &OrganizationAccess<Own>,
        user: &User,
        role: MemberRole,
    ) -> Result<(Member, bool), OrganizationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(access.organization().id))?;
        let organization = live(tx.as_mut(), access)?.id;
        if role < MemberRole::Owner {
            keep_an_owner(tx.as_mut(), organization, user.id)?;
        }
        let added = tx.members().put(organization, user.id, role, self.0.now())?;
        let missing = || OrganizationError::NoSuchMember(user.name.to_string());
        let member = tx.members().get(organization, user.id)?.ok_or_else(missing)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok((member, added))
    }

    /// Removes a member and returns the removed membership.
    ///
    /// # Errors
    /// [`OrganizationError::NoSuchMember`]; [`OrganizationError::NoOwnerLeft`] if the member is the last owner.
    pub fn remove(&self, access: &OrganizationAccess<Own>, member: &Member) -> Result<Member, OrganizationError> {
        self.end(access, member.user_id, member.username.as_str())
    }

    /// Removes the access holder from the members and returns the removed membership.
    ///
    /// # Errors
    /// [`OrganizationError::NoOwnerLeft`] if the access holder is the last owner.
    pub fn leave(&self, access: &OrganizationAccess<Belong>) -> Result<Member, OrganizationError> {
        self.end(access, access.who().id, access.who().name.as_str())
    }

    fn end<S: Standing>(
        &self,
        access: &OrganizationAccess<S>,
        user: AccountId,
        name: &str,
    ) -> Result<Member, OrganizationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(access.organization().id))?;
        let organization = live(tx.as_mut(), access)?.id;
        keep_an_owner(tx.as_mut(), organization, user)?;
        let member = tx.members().remove(organization, user)?;
        let member = member.ok_or_else(|| OrganizationError::NoSuchMember(name.to_owned()))?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(member)
    }
}

/// Fails if this user is the only owner. The check holds until the commit, because the
/// transaction has the key of the organization.
fn keep_an_owner(tx: &mut dyn Transaction, organization: AccountId, user: AccountId) -> Result<(), OrganizationError> {
    let is_owner = tx.members().get(organization, user)?.is_some_and(|member| member.role == MemberRole::Owner);
    if is_owner && tx.members().count_owners(organization)? < 2 {
        return Err(OrganizationError::NoOwnerLeft);
    }
    Ok(())
}
