//! Organizations and access to them.

use super::people::{refuse_reserved, refuse_retired, taken};
use super::quotas::check_organizations;
use super::{IdempotencyRecord, Inner, idempotency};
use crate::access::{Caller, OrganizationAccess, Own, Standing};
use crate::entities::{AccountKind, MemberRole, Organization, Role, User};
use crate::errors::OrganizationError;
use crate::ports::{Durability, Transaction, WriteKey, WriteKeys};
use crate::values::{AccountId, Description, DisplayName, OwnerName};

/// The properties of a new organization.
#[derive(Debug, Clone)]
pub struct NewOrganization {
    /// Name of the organization.
    pub name: OwnerName,
    /// Name shown beside the account name.
    pub display_name: Option<DisplayName>,
    /// Description of the organization.
    pub description: Option<Description>,
    /// Role of plain members on the organization's databases; `Write` if absent.
    pub base_role: Option<Role>,
}

impl NewOrganization {
    /// Returns the properties of an organization with a name and nothing else.
    pub fn named(name: OwnerName) -> Self {
        Self { name, display_name: None, description: None, base_role: None }
    }
}

/// Changes to an organization. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditOrganization {
    /// New display name. An empty one removes the display name.
    pub display_name: Option<DisplayName>,
    /// New description. An empty one removes the description.
    pub description: Option<Description>,
    /// New role of plain members on the organization's databases.
    pub base_role: Option<Role>,
}

/// An organization as seen by one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrganizationView {
    /// The organization.
    pub organization: Organization,
    /// The caller's role in the organization, or `None` if the caller is not a member.
    pub role: Option<MemberRole>,
}

/// Use cases of organizations.
pub struct Organizations<'a>(&'a Inner);

impl<'a> Organizations<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the proof that `caller` may do what the standing `S` allows in the organization called `name`.
    ///
    /// # Errors
    /// [`OrganizationError::SignInRequired`], before any lookup, if the standing needs a signed-in user and the caller is
    /// anonymous; [`OrganizationError::NoSuchOrganization`]; [`OrganizationError::Denied`] if the caller's role is too low.
    pub fn access<S: Standing>(&self, caller: &Caller, name: &str) -> Result<OrganizationAccess<S>, OrganizationError> {
        if S::who(caller).is_none() {
            return Err(OrganizationError::SignInRequired);
        }
        let name = OwnerName::parse(name).map_err(|_| OrganizationError::NoSuchOrganization)?;
        let mut tx = self.0.ports.metadata.read()?;
        let account = tx.accounts().by_name(&name)?.filter(|account| account.kind == AccountKind::Organization);
        let account = account.ok_or(OrganizationError::NoSuchOrganization)?;
        let organization = tx.organizations().get(account.id)?.ok_or(OrganizationError::NoSuchOrganization)?;
        let member = match caller.user() {
            Some(user) => tx.members().get(organization.id, user.id)?,
            None => None,
        };
        OrganizationAccess::grant(organization, caller, member.map(|member| member.role))
            .ok_or(OrganizationError::Denied(S::NAME))
    }

    /// Creates an organization owned by `owner`.
    ///
    /// # Errors
    /// [`OrganizationError::People`] if the name is taken, reserved, or that of an account
    /// deleted in the last 90 days; [`OrganizationError::TooMany`] if the user owns
    /// [`super::Limits::organizations_per_user`].
    pub fn create(
        &self,
        owner: &User,
        wanted: NewOrganization,
        once: Option<&IdempotencyRecord<'_, OrganizationView>>,
    ) -> Result<OrganizationView, OrganizationError> {
        refuse_reserved(self.0, &wanted.name)?;
        let now = self.0.now();
        let organization = Organization {
            id: AccountId::from_uuid(self.0.ports.ids.uuid(now)),
            name: wanted.name,
            display_name: wanted.display_name.map(DisplayName::into_string).filter(|text| !text.is_empty()),
            description: wanted.description.map(Description::into_string).filter(|text| !text.is_empty()),
            base_role: wanted.base_role.unwrap_or(Role::Write),
            created_at: now,
        };
        let mut tx =
            self.0.ports.metadata.write(&WriteKeys::account(owner.id).and(WriteKey::Account(organization.id)))?;
        check_organizations(self.0, tx.as_mut(), owner)?;
        refuse_retired(tx.as_mut(), &organization.name, Some(owner), now)?;
        taken(tx.organizations().add(&organization), &organization.name)?;
        tx.members().put(organization.id, owner.id, MemberRole::Owner, now)?;
        let view = OrganizationView { organization, role: Some(MemberRole::Owner) };
        idempotency::keep(self.0, tx.as_mut(), once, &view, now)?;
        tx.commit(Durability::Synced)?;
        Ok(view)
    }

    /// Returns the organization as seen by the access holder.
    pub fn get<S: Standing>(&self, access: &OrganizationAccess<S>) -> OrganizationView {
        OrganizationView { organization: access.organization().clone(), role: access.role() }
    }

    /// Returns up to `limit` organizations of a user whose lower-case names follow `after`, in order of these names.
    ///
    /// # Errors
    /// [`OrganizationError::Port`].
    pub fn list(
        &self,
        user: &User,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<OrganizationView>, OrganizationError> {
        let found = self.0.ports.metadata.read()?.organizations().list(user.id, after, limit)?;
        let view = |(organization, role)| OrganizationView { organization, role: Some(role) };
        Ok(found.into_iter().map(view).collect())
    }

    /// Changes the display name, description or base role of an organization.
    ///
    /// # Errors
    /// [`OrganizationError::Changed`] if `expected` rejects the current state.
    pub fn edit(
        &self,
        access: &OrganizationAccess<Own>,
        edit: EditOrganization,
        expected: Option<&dyn Fn(&OrganizationView) -> bool>,
    ) -> Result<OrganizationView, OrganizationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(access.organization().id))?;
        let mut view = seen(tx.as_mut(), access, expected)?;
        let organization = &mut view.organization;
        if let Some(text) = edit.display_name {
            organization.display_name = Some(text.into_string()).filter(|text| !text.is_empty());
        }
        if let Some(text) = edit.description {
            organization.description = Some(text.into_string()).filter(|text| !text.is_empty());
        }
        if let Some(role) = edit.base_role {
            organization.base_role = role;
        }
        tx.organizations().update(organization)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(view)
    }

    /// Deletes an organization that owns nothing, and returns its last state. The name stays taken for 90 days, except for
    /// the user who deletes the organization and for administrators of the server.
    ///
    /// # Errors
    /// [`OrganizationError::OwnsDatabases`] with their number; [`OrganizationError::OwnsOthers`] with what else the
    /// organization owns; [`OrganizationError::Changed`] if `expected` rejects the current state.
    pub fn delete(
        &self,
        access: &OrganizationAccess<Own>,
        expected: Option<&dyn Fn(&OrganizationView) -> bool>,
    ) -> Result<OrganizationView, OrganizationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(access.organization().id))?;
        let owned = tx.databases().count(access.organization().id)?;
        if owned > 0 {
            return Err(OrganizationError::OwnsDatabases(owned));
        }
        if let Some(what) = tx.organizations().owns_others(access.organization().id)? {
            return Err(OrganizationError::OwnsOthers(what));
        }
        let view = seen(tx.as_mut(), access, expected)?;
        tx.organizations().remove(view.organization.id, self.0.now(), access.who().id)?;
        tx.commit(Durability::Synced)?;
        Ok(view)
    }
}

/// Reads the organization within the transaction that changes it, and checks it against `expected`.
fn seen(
    tx: &mut dyn Transaction,
    access: &OrganizationAccess<Own>,
    expected: Option<&dyn Fn(&OrganizationView) -> bool>,
) -> Result<OrganizationView, OrganizationError> {
    let view = OrganizationView { organization: live(tx, access)?, role: access.role() };
    match expected {
        Some(matches) if !matches(&view) => Err(OrganizationError::Changed),
        _ => Ok(view),
    }
}

/// Returns the organization unless it has been deleted.
pub(super) fn live<S: Standing>(
    tx: &mut dyn Transaction,
    access: &OrganizationAccess<S>,
) -> Result<Organization, OrganizationError> {
    tx.organizations().get(access.organization().id)?.ok_or(OrganizationError::NoSuchOrganization)
}
