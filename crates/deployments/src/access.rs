//! Proof that a caller may act on a deployment.
//!
//! There is one way to get a [`DeploymentAccess`]: [`crate::usecases::Deployments::access`].

use std::marker::PhantomData;
use std::sync::Arc;

use crate::entities::{Deployment, DeploymentRole};
use branchyard_domain::entities::User;

/// What an access to a deployment allows.
pub trait DeploymentLevel: Send + Sync + 'static {
    /// The least role.
    const NEEDS: DeploymentRole;
    /// How that role is called.
    const NAME: &'static str;
}

macro_rules! levels {
    ($($(#[$doc:meta])* $name:ident: $role:ident, $text:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl DeploymentLevel for $name {
            const NEEDS: DeploymentRole = DeploymentRole::$role;
            const NAME: &'static str = $text;
        }
    )+};
}

levels! {
    /// See it, and read by SQL.
    Observe: Reader, "reader";
    /// Also write by SQL.
    Operate: Writer, "writer";
    /// Change it.
    Manage: Admin, "admin";
}

/// Proof that a caller may do what `L` allows on a deployment.
#[derive(Debug)]
pub struct DeploymentAccess<L: DeploymentLevel> {
    deployment: Deployment,
    who: Arc<User>,
    role: DeploymentRole,
    level: PhantomData<L>,
}

impl<L: DeploymentLevel> Clone for DeploymentAccess<L> {
    fn clone(&self) -> Self {
        Self { deployment: self.deployment.clone(), who: Arc::clone(&self.who), role: self.role, level: PhantomData }
    }
}

impl<L: DeploymentLevel> DeploymentAccess<L> {
    /// `None` when the role is too low.
    pub(crate) fn grant(deployment: Deployment, who: Arc<User>, role: DeploymentRole) -> Option<Self> {
        (role >= L::NEEDS).then_some(Self { deployment, who, role, level: PhantomData })
    }

    /// The deployment, as it was when access was decided.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Who holds the access.
    pub fn who(&self) -> &Arc<User> {
        &self.who
    }

    /// The highest role of the caller on the deployment.
    pub fn role(&self) -> DeploymentRole {
        self.role
    }
}
