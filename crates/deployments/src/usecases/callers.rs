//! The check of callers that instances use through the provisioner.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use branchyard_auth::{BearerHash, HashedToken};

use super::{DeploymentsInner, role_of};
use crate::entities::{Deployment, DeploymentRole, Instance};
use crate::ports::{Authorized, Authorizer, DatabaseSeed, DeploymentTransaction, ProvisionError, SqlCaller};
use crate::values::InstanceId;
use branchyard_domain::entities::LastUse;
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::SqlPower;
use branchyard_domain::usecases::ValidToken;
use branchyard_domain::values::Scope;

/// Minimum seconds between two records of the use of a token.
const NOTED_EVERY: i64 = 30;

/// The hub as instances see it. The reference is weak because the hub owns the provisioner, which owns this value.
pub(crate) struct Callers(Weak<DeploymentsInner>);

impl Callers {
    pub(crate) fn of(inner: &Arc<DeploymentsInner>) -> Self {
        Self(Arc::downgrade(inner))
    }
}

impl Authorizer for Callers {
    fn authorize(
        &self,
        token: &HashedToken,
        instance: InstanceId,
        address: Option<IpAddr>,
    ) -> Result<Authorized, ProvisionError> {
        let away = |source: Box<dyn std::error::Error + Send + Sync>| ProvisionError::Unavailable {
            context: "check a caller".to_owned(),
            source,
        };
        let inner = self.0.upgrade().ok_or_else(|| away("the server stopped".into()))?;
        check(&inner, token, instance, address).map_err(|fault| away(Box::new(fault)))
    }
}

fn check(
    inner: &DeploymentsInner,
    token: &HashedToken,
    instance: InstanceId,
    address: Option<IpAddr>,
) -> Result<Authorized, PortError> {
    let Some(found) = find(inner, token)? else { return Ok(Authorized::BadToken) };
    let user = Arc::clone(found.user());
    let now = inner.now();
    let mut tx = inner.ports.store.read_deployments()?;
    let Some(instance) = tx.instances().get(instance)? else { return Ok(Authorized::NoRole) };
    let deployment = tx.deployments().get(instance.deployment_id)?.filter(|deployment| deployment.removed_at.is_none());
    let Some(deployment) = deployment else { return Ok(Authorized::NoRole) };
    let role = role_of(tx.as_mut(), user.id, deployment.owner_id, deployment.id)?;
    let is_withheld = is_withheld(tx.as_mut(), &deployment, &instance)?;
    drop(tx);
    let noted = found.last_use().map(|last| last.at);
    if noted.is_none_or(|at| at.plus_seconds(NOTED_EVERY) <= now) {
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        inner.hub.touch_token(&found, &LastUse { at: now, address, user_agent: "deployment".to_owned() })?;
    }
    let Some(role) = role else { return Ok(Authorized::NoRole) };
    if is_withheld {
        return Ok(Authorized::Withheld);
    }
    let power = match role {
        DeploymentRole::Reader | DeploymentRole::ReaderAndPulls => SqlPower::Read,
        DeploymentRole::Writer => SqlPower::Write,
        DeploymentRole::Admin => SqlPower::Admin,
    };
    let power = if found.scope() == Scope::Read { SqlPower::Read } else { power };
    let signature = user.signature(now);
    Ok(Authorized::Caller(SqlCaller {
        user: user.id,
        name: signature.name,
        email: signature.email,
        power,
        expires_at: Some(found.expires_at()),
    }))
}

/// Returns the valid token with this hash. The hash covers the prefix of the token, so a token of one kind only has it.
fn find(inner: &DeploymentsInner, hash: &HashedToken) -> Result<Option<ValidToken>, PortError> {
    if let Some(found) = inner.hub.check_token(&BearerHash::Api(*hash), None)? {
        return Ok(Some(found));
    }
    inner.hub.check_token(&BearerHash::Access(*hash), None)
}

/// Returns `true` if a hub database that the deployment was cloned from is quarantined.
fn is_withheld(
    tx: &mut dyn DeploymentTransaction,
    deployment: &Deployment,
    instance: &Instance,
) -> Result<bool, PortError> {
    if let Some(origin) = &deployment.origin {
        let found = match origin.database_id {
            Some(id) => tx.databases().get(id)?,
            None => tx.databases().by_name(&origin.database.owner, &origin.database.name)?,
        };
        // A younger database of the same name is another one.
        if found.is_some_and(|found| found.quarantined_at.is_some() && found.created_at <= deployment.created_at) {
            return Ok(true);
        }
    }
    for seed in &instance.seeds {
        if let DatabaseSeed::Hub { database, .. } = seed
            && tx.databases().get(*database)?.is_some_and(|found| found.quarantined_at.is_some())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
