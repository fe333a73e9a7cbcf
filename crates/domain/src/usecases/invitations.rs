//! Invitations, and sign-up with and without one.

use branchyard_auth::{PasswordHash, PlainSecret};

use super::{Inner, NewUser, people};
use crate::entities::{Invitation, User};
use crate::errors::{PortError, SignUpError};
use crate::ports::{Durability, Transaction, WriteKey, WriteKeys};
use crate::values::{AccountId, EmailAddress, InvitationId, OwnerName};

/// The sign-up mode of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignUp {
    /// Sign-up needs no invitation.
    Open,
    /// Sign-up needs an invitation by an administrator.
    #[default]
    Invitation,
    /// Only the first user, the server's administrator, can sign up.
    Closed,
}

/// The account data of a person who signs up.
#[derive(Debug, Clone)]
pub struct Applicant {
    /// The user name.
    pub name: OwnerName,
    /// The primary email address.
    pub email: EmailAddress,
    /// The hashed password.
    pub password: PasswordHash,
}

/// A new invitation with its secret, which is readable only now.
#[derive(Debug)]
pub struct MintedInvitation {
    /// The stored invitation.
    pub invitation: Invitation,
    /// The secret, for the sign-up link.
    pub secret: PlainSecret,
}

/// Use cases of invitations.
pub struct Invitations<'a>(&'a Inner);

impl<'a> Invitations<'a> {
    /// Maximum number of open invitations.
    pub const OPEN: usize = 1_000;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates the invitation for the server's administrator and revokes all earlier ones. Returns `None` if the server has
    /// a user.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn administrator(&self) -> Result<Option<MintedInvitation>, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        if tx.users().any()? {
            return Ok(None);
        }
        for old in tx.invitations().list()? {
            tx.invitations().remove(old.id)?;
        }
        let minted = self.mint(tx.as_mut(), true, None)?;
        tx.commit(Durability::Synced)?;
        Ok(Some(minted))
    }

    /// Creates an invitation for one person.
    ///
    /// # Errors
    /// [`SignUpError::NotYours`] unless `by` administers the server; [`SignUpError::Closed`] if sign-up is closed;
    /// [`SignUpError::TooManyInvitations`] if [`Invitations::OPEN`] invitations are open.
    pub fn create(&self, by: &User) -> Result<MintedInvitation, SignUpError> {
        must_administer(by)?;
        if self.0.limits.sign_up == SignUp::Closed {
            return Err(SignUpError::Closed);
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        tx.invitations().purge(self.0.now())?;
        if tx.invitations().list()?.len() >= Self::OPEN {
            return Err(SignUpError::TooManyInvitations(Self::OPEN));
        }
        let minted = self.mint(tx.as_mut(), false, Some(by.id))?;
        tx.commit(Durability::Synced)?;
        Ok(minted)
    }

    /// Returns the open invitations, newest first.
    ///
    /// # Errors
    /// [`SignUpError::NotYours`] unless `by` administers the server.
    pub fn list(&self, by: &User) -> Result<Vec<Invitation>, SignUpError> {
        must_administer(by)?;
        let now = self.0.now();
        let mut open = self.0.ports.metadata.read()?.invitations().list()?;
        open.retain(|invitation| !invitation.expired(now));
        Ok(open)
    }

    /// Revokes an invitation. Returns `true` if it existed.
    ///
    /// # Errors
    /// [`SignUpError::NotYours`] unless `by` administers the server.
    pub fn revoke(&self, by: &User, id: InvitationId) -> Result<bool, SignUpError> {
        must_administer(by)?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let removed = tx.invitations().remove(id)?;
        tx.commit(Durability::Synced)?;
        Ok(removed)
    }

    /// Checks whether sign-up is permitted with this invitation secret, or without one. Returns the invitation, if there is
    /// one.
    ///
    /// # Errors
    /// As [`Invitations::sign_up`], except for the errors about the name.
    pub fn check(&self, secret: Option<&str>) -> Result<Option<Invitation>, SignUpError> {
        let mut tx = self.0.ports.metadata.read()?;
        self.admit(tx.as_mut(), secret)
    }

    /// Creates a user from an invitation, or without one if sign-up is open. An invitation works once.
    ///
    /// # Errors
    /// [`SignUpError::Closed`]; [`SignUpError::InvitationNeeded`]; [`SignUpError::NoSuchInvitation`] if the invitation is
    /// unknown, used or expired; [`SignUpError::People`] if the name is taken or reserved.
    pub fn sign_up(&self, who: Applicant, secret: Option<&str>) -> Result<User, SignUpError> {
        people::refuse_reserved(self.0, &who.name)?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let invitation = self.admit(tx.as_mut(), secret)?;
        let user = people::new_user(
            self.0,
            NewUser {
                name: who.name,
                email: who.email.into_string(),
                display_name: None,
                password: Some(who.password),
                is_admin: invitation.as_ref().is_some_and(|invitation| invitation.is_admin),
            },
        );
        tx.hold(&[WriteKey::Account(user.id)])?;
        people::refuse_retired(tx.as_mut(), &user.name, None, user.created_at)?;
        people::taken(tx.users().add(&user), &user.name)?;
        if let Some(invitation) = invitation {
            tx.invitations().remove(invitation.id)?;
        }
        tx.commit(Durability::Synced)?;
        Ok(user)
    }

    fn admit(&self, tx: &mut dyn Transaction, secret: Option<&str>) -> Result<Option<Invitation>, SignUpError> {
        let mode = self.0.limits.sign_up;
        let Some(secret) = secret else {
            return match mode {
                SignUp::Open => Ok(None),
                SignUp::Invitation => Err(SignUpError::InvitationNeeded),
                SignUp::Closed => Err(SignUpError::Closed),
            };
        };
        let secret = PlainSecret::parse(secret).map_err(|_| SignUpError::NoSuchInvitation)?;
        let now = self.0.now();
        let found = tx.invitations().by_hash(&secret.hash())?.filter(|invitation| !invitation.expired(now));
        match found.ok_or(SignUpError::NoSuchInvitation)? {
            invitation if mode == SignUp::Closed && !invitation.is_admin => Err(SignUpError::Closed),
            invitation => Ok(Some(invitation)),
        }
    }

    fn mint(
        &self,
        tx: &mut dyn Transaction,
        is_admin: bool,
        created_by: Option<AccountId>,
    ) -> Result<MintedInvitation, PortError> {
        let now = self.0.now();
        let secret = PlainSecret::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer));
        let invitation = Invitation {
            id: InvitationId::from_uuid(self.0.ports.ids.uuid(now)),
            hash: secret.hash(),
            is_admin,
            created_by,
            created_at: now,
            expires_at: now.plus_seconds(self.0.limits.invitation_seconds),
        };
        tx.invitations().add(&invitation)?;
        Ok(MintedInvitation { invitation, secret })
    }
}

fn must_administer(user: &User) -> Result<(), SignUpError> {
    if user.is_admin { Ok(()) } else { Err(SignUpError::NotYours) }
}
