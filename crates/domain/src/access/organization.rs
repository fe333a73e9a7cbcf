//! Proof that a caller may act on an organization.
//!
//! An organization itself is visible to anyone; what a standing decides is who sees its members and who changes it. There is
//! one way to get an [`OrganizationAccess`]: [`crate::usecases::Organizations::access`].

use std::marker::PhantomData;
use std::sync::Arc;

use super::Caller;
use crate::entities::{MemberRole, Organization, User};

/// What an access to an organization allows.
pub trait Standing: Send + Sync + 'static {
    /// The least role in the organization; `None` where none is needed.
    const NEEDS: Option<MemberRole>;
    /// How whoever has it is called.
    const NAME: &'static str;
    /// Who holds it: possibly nobody in particular, or always a person.
    type Who: Clone + Send + Sync;

    /// The holder, if this caller can be one.
    fn who(caller: &Caller) -> Option<Self::Who>;
}

/// See the organization; nobody in particular may hold it.
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

/// See its members, and leave it.
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

/// Change it and its members; delete it.
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

/// Proof that a caller may do what `S` allows in an organization.
#[derive(Debug)]
pub struct OrganizationAccess<S: Standing> {
    organization: Organization,
    who: S::Who,
    role: Option<MemberRole>,
    standing: PhantomData<S>,
}

impl<S: Standing> OrganizationAccess<S> {
    /// `None` when the role is too low or the standing needs a person.
    pub(crate) fn grant(organization: Organization, caller: &Caller, role: Option<MemberRole>) -> Option<Self> {
        if role < S::NEEDS {
            return None;
        }
        let who = S::who(caller)?;
        Some(Self { organization, who, role, standing: PhantomData })
    }

    /// The organization, as it was when access was decided.
    pub fn organization(&self) -> &Organization {
        &self.organization
    }

    /// Who holds the access.
    pub fn who(&self) -> &S::Who {
        &self.who
    }

    /// The role of the caller in the organization.
    pub fn role(&self) -> Option<MemberRole> {
        self.role
    }
}
