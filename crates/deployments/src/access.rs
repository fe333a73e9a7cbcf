//! Proof that a caller may act on a deployment.
//!
//! [`crate::usecases::Deployments::access`] is the only way to get a [`DeploymentAccess`].

use std::marker::PhantomData;
use std::sync::Arc;

use crate::entities::{Deployment, DeploymentRole};
use branchyard_domain::entities::User;

/// A level of access to a deployment.
pub trait DeploymentLevel: Send + Sync + 'static {
    /// The lowest role that has this level.
    const NEEDS: DeploymentRole;
    /// The name of that role, for messages.
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
    /// Read the deployment, and run SQL that reads.
    Observe: Reader, "reader";
    /// Also open pull requests.
    Propose: ReaderAndPulls, "reader_and_pulls";
    /// Also run SQL that writes.
    Operate: Writer, "writer";
    /// Also change the deployment itself.
    Manage: Admin, "admin";
}

/// Proof that a caller has the access level `L` on a deployment.
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
    /// Returns `None` if the role is lower than `L` needs.
    pub(crate) fn grant(deployment: Deployment, who: Arc<User>, role: DeploymentRole) -> Option<Self> {
        (role >= L::NEEDS).then_some(Self { deployment, who, role, level: PhantomData })
    }

    /// Returns the deployment as it was when access was decided.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Returns the user that holds the access.
    pub fn who(&self) -> &Arc<User> {
        &self.who
    }

    /// Returns the highest role of the caller on the deployment.
    pub fn role(&self) -> DeploymentRole {
        self.role
    }
}
