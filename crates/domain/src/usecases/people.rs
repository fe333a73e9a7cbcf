//! Users and organizations.

use branchyard_auth::PasswordHash;

use super::Inner;
use crate::entities::{AccountKind, Email, MemberRole, Organization, Role, User};
use crate::errors::PeopleError;
use crate::ports::MetadataError;
use crate::values::{AccountId, OwnerName};

/// A person to be.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Name.
    pub name: OwnerName,
    /// Primary address.
    pub email: String,
    /// Shown beside the name.
    pub display_name: Option<String>,
    /// Password, hashed.
    pub password: Option<PasswordHash>,
    /// Whether they administer the server.
    pub is_admin: bool,
}

/// Users and organizations.
pub struct People<'a>(&'a Inner);

impl<'a> People<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Makes a user.
    ///
    /// # Errors
    /// [`PeopleError::NameTaken`].
    pub fn create_user(&self, wanted: NewUser) -> Result<User, PeopleError> {
        self.refuse_reserved(&wanted.name)?;
        let now = self.0.now();
        let user = User {
            id: AccountId::from_uuid(self.0.ports.ids.uuid(now)),
            name: wanted.name,
            display_name: wanted.display_name,
            bio: None,
            location: None,
            website_url: None,
            profile_pic_url: None,
            emails: vec![Email { address: wanted.email, is_primary: true, is_verified: true }],
            password_hash: wanted.password.map(|hash| hash.as_phc().to_owned()),
            is_admin: wanted.is_admin,
            created_at: now,
        };
        let mut unit = self.0.ports.metadata.write()?;
        taken(unit.user_add(&user), &user.name)?;
        unit.save()?;
        Ok(user)
    }

    /// Makes an organization owned by `owner`.
    ///
    /// # Errors
    /// [`PeopleError::NameTaken`].
    pub fn create_organization(&self, name: OwnerName, owner: &User) -> Result<Organization, PeopleError> {
        self.refuse_reserved(&name)?;
        let now = self.0.now();
        let organization = Organization {
            id: AccountId::from_uuid(self.0.ports.ids.uuid(now)),
            name,
            display_name: None,
            description: None,
            base_role: Role::Write,
            created_at: now,
        };
        let mut unit = self.0.ports.metadata.write()?;
        taken(unit.organization_add(&organization), &organization.name)?;
        unit.member_put(organization.id, owner.id, MemberRole::Owner, now)?;
        unit.save()?;
        Ok(organization)
    }

    /// Finds a user by name, whatever the case.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`].
    pub fn find_user(&self, name: &OwnerName) -> Result<User, PeopleError> {
        let missing = || PeopleError::NoSuchUser(name.to_string());
        let mut unit = self.0.ports.metadata.read()?;
        let account = unit.account_by_name(name)?.ok_or_else(missing)?;
        match account.kind {
            AccountKind::User => unit.user_get(account.id)?.ok_or_else(missing),
            AccountKind::Organization => Err(missing()),
        }
    }

    fn refuse_reserved(&self, name: &OwnerName) -> Result<(), PeopleError> {
        if self.0.limits.reserved_names.contains(&name.key()) {
            return Err(PeopleError::NameTaken(name.to_string()));
        }
        Ok(())
    }
}

fn taken(result: Result<(), MetadataError>, name: &OwnerName) -> Result<(), PeopleError> {
    match result {
        Err(MetadataError::Taken) => Err(PeopleError::NameTaken(name.to_string())),
        other => Ok(other?),
    }
}
