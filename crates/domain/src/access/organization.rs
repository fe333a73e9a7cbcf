//! Proofs of permissions in an organization.
//!
//! Organizations are visible to every caller. A standing decides who can see the members and change the organization.
//! [`crate::usecases::Organizations::access`] is the only way to obtain an [`OrganizationAccess`].

use std::marker::PhantomData;
use std::sync::Arc;

use super::Caller;
use crate::entities::{MemberRole, Organization, User};

/// A level of permission in an organization.
pub trait Standing: Send + Sync + 'static {
    /// The minimum role in the organization. `None` if no role is needed.
    const NEEDS: Option<MemberRole>;
    /// What a holder is called in error messages.
    const NAME: &'static str;
    /// The holder of the access: [`Caller`] if anonymous access is possible, else a user.
    type Who: Clone + Send + Sync;

    /// Returns the holder, or `None` if the standing requires a user and the caller is anonymous.
    fn who(caller: &Caller) -> Option<Self::Who>;
}

/// See the organization. Anonymous callers may hold this standing.
#[derive(Debug, Clone, Copy)]
pub enum Visit {}

impl Standing for Visit {
    const NEEDS: Option<MemberRole> = None;
    const NAME: &'static str = "anyone";
    type Who = Caller;

    fn who(caller: &Caller) -> Option<Caller> {
        Some(caller.clone())
    }
}

/// See the members of the organization, and leave it.
#[derive(Debug, Clone, Copy)]
pub enum Belong {}

impl Standing for Belong {
    const NEEDS: Option<MemberRole> = Some(MemberRole::Member);
    const NAME: &'static str = "a member";
    type Who = Arc<User>;

    fn who(caller: &Caller) -> Option<Arc<User>> {
        caller.user().cloned()
    }
}

/// Change the organization and its members, and delete it.
#[derive(Debug, Clone, Copy)]
pub enum Own {}

impl Standing for Own {
    const NEEDS: Option<MemberRole> = Some(MemberRole::Owner);
    const NAME: &'static str = "an owner";
    type Who = Arc<User>;

    fn who(caller: &Caller) -> Option<Arc<User>> {
        caller.user().cloned()
    }
}

/// Proof that a caller has the permissions of standing `S` in an organization.
#[derive(Debug)]
pub struct OrganizationAccess<S: Standing> {
    organization: Organization,
    who: S::Who,
    role: Option<MemberRole>,
    standing: PhantomData<S>,
}

impl<S: Standing> OrganizationAccess<S> {
    /// Returns `None` if the role is too low, or the standing requires a user and the caller is anonymous.
    pub(crate) fn grant(organization: Organization, caller: &Caller, role: Option<MemberRole>) -> Option<Self> {
        if role < S::NEEDS {
            return None;
        }
        let who = S::who(caller)?;
        Some(Self { organization, who, role, standing: PhantomData })
    }

    /// Returns the organization as it was when access was decided.
    pub fn organization(&self) -> &Organization {
        &self.organization
    }

    /// Returns the holder of the access.
    pub fn who(&self) -> &S::Who {
        &self.who
    }

    /// Returns the role of the caller in the organization.
    pub fn role(&self) -> Option<MemberRole> {
        self.role
    }
}
