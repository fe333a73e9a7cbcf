//! Creation of deployments.

use super::DeploymentsInner;
use super::capacity::{CapacityOwner, CapacityRequest, admit, choose};
use super::{DeploymentView, Deployments, may_create_for, metering, view};
use crate::entities::{
    Attempts, Deployment, DeploymentLocator, DeploymentOrigin, DeploymentRole, Instance, InstanceSize, Metered,
    RunState,
};
use crate::errors::{DeploymentError, DeploymentField};
use crate::ports::{DatabaseSeed, ZoneFeatures};
use crate::values::{DeploymentId, DeploymentName, InstanceId, ServedName, Settings};
use branchyard_domain::access::{Caller, Read};
use branchyard_domain::entities::{Database, User};
use branchyard_domain::errors::{AccessError, PortError, ReadError};
use branchyard_domain::ports::{Durability, MetadataError, WriteKeys};
use branchyard_domain::usecases::IdempotencyRecord;
use branchyard_domain::values::{CommitHash, RefName, Timestamp};
use std::sync::Arc;

/// A hub database to clone.
#[derive(Debug, Clone)]
pub struct DeploymentSource {
    /// Owner of the database, as written in the request.
    pub owner: String,
    /// Name of the database, as written in the request.
    pub name: String,
    /// A branch, tag or commit. `None` is the default branch.
    pub reference: Option<String>,
}

/// A request to create a deployment.
#[derive(Debug, Clone)]
pub struct NewDeployment {
    /// Name of the owner, as written in the request.
    pub owner: String,
    /// Name of the deployment.
    pub name: DeploymentName,
    /// Id of the cloud.
    pub cloud: String,
    /// Zone of that cloud.
    pub zone: String,
    /// Id of the instance type.
    pub instance_type: String,
    /// Id of the storage option.
    pub volume_type: String,
    /// Size of the volume in gigabytes.
    pub volume_gb: u32,
    /// A requested kind of cluster that is recognized but not offered.
    pub other_cluster: Option<String>,
    /// Number of read replicas.
    pub replicas: u32,
    /// Whether TLS with a public certificate is requested.
    pub public_tls: bool,
    /// Whether the `remotesapi` service is requested.
    pub remotesapi: bool,
    /// Whether the MCP service is requested.
    pub mcp: bool,
    /// Whether the instances serve `GET metrics`.
    pub stats: bool,
    /// The hub database to clone. `None` starts with an empty database.
    pub source: Option<DeploymentSource>,
    /// Name of the first database.
    pub database: Option<ServedName>,
}

/// A hub database to clone, with its ref resolved.
pub(super) struct Resolved {
    pub(super) database: Database,
    pub(super) reference: String,
    pub(super) commit: CommitHash,
    pub(super) branch: RefName,
}

impl Resolved {
    pub(super) fn seed(&self) -> DatabaseSeed {
        DatabaseSeed::Hub { database: self.database.id, commit: self.commit.clone(), branch: self.branch.clone() }
    }

    fn origin(&self) -> DeploymentOrigin {
        DeploymentOrigin {
            database_id: Some(self.database.id),
            database: self.database.locator.clone(),
            reference: self.reference.clone(),
            commit: self.commit.clone(),
        }
    }

    /// Returns `true` if the database fits a volume of this size. The database is measured in bytes, the volume in
    /// units of 2^30 bytes.
    pub(super) fn fits(&self, volume_gb: u32) -> bool {
        u64::try_from(self.database.size_bytes).unwrap_or(0) <= u64::from(volume_gb) << 30
    }
}

/// Finds the database to clone and resolves its ref.
pub(super) fn resolve(
    inner: &DeploymentsInner,
    user: &Arc<User>,
    source: &DeploymentSource,
) -> Result<Resolved, DeploymentError> {
    let missing = || DeploymentError::NoSuchSource(format!("{}/{}", source.owner, source.name));
    let caller = Caller::User(Arc::clone(user));
    let access = match inner.hub.databases().access::<Read>(&caller, &source.owner, &source.name) {
        Ok(access) => access,
        Err(AccessError::Port(fault)) => return Err(fault.into()),
        Err(_) => return Err(missing()),
    };
    let commit = match inner.hub.history().resolve(&access, source.reference.as_deref()) {
        Ok(commit) => commit,
        Err(ReadError::Port(fault)) => return Err(fault.into()),
        Err(_) => return Err(missing()),
    };
    let database = access.database().clone();
    let reference = source.reference.clone().unwrap_or_else(|| database.default_branch.to_string());
    let plain = reference.strip_prefix("refs/heads/").unwrap_or(&reference);
    let named = match RefName::parse(plain) {
        Ok(name) => inner.ports.store.read_deployments()?.branches().get(database.id, &name)?,
        Err(_) => None,
    };
    let branch = match named {
        Some(branch) => branch.name,
        None => main()?,
    };
    Ok(Resolved { database, reference, commit, branch })
}

fn main() -> Result<RefName, PortError> {
    RefName::parse("main").map_err(|_| PortError::Unsettled("main is a branch name"))
}

impl Deployments {
    /// Accepts a deployment. The checks run in the order of section 6.1 of the contract.
    ///
    /// # Errors
    /// [`DeploymentError::MayNotCreateFor`], [`DeploymentError::NoSuchSource`], [`DeploymentError::NameTaken`],
    /// [`DeploymentError::Field`], [`DeploymentError::Unsupported`], [`DeploymentError::Spending`],
    /// [`DeploymentError::Capacity`], in this order.
    pub fn create(
        &self,
        user: &Arc<User>,
        wanted: NewDeployment,
        once: Option<&IdempotencyRecord<'_, DeploymentView>>,
    ) -> Result<DeploymentView, DeploymentError> {
        let refuse = || DeploymentError::MayNotCreateFor(wanted.owner.clone());
        {
            let mut tx = self.0.ports.store.read_deployments()?;
            may_create_for(tx.as_mut(), user, &wanted.owner)?.ok_or_else(refuse)?;
        }
        let source = wanted.source.as_ref().map(|source| resolve(&self.0, user, source)).transpose()?;
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let (owner_id, owner) = may_create_for(tx.as_mut(), user, &wanted.owner)?.ok_or_else(refuse)?;
        let locator = DeploymentLocator { owner: owner.clone(), name: wanted.name.clone() };
        if tx.deployments().by_name(&owner, &wanted.name)?.is_some() {
            return Err(DeploymentError::NameTaken(locator.to_string()));
        }
        let chosen = CapacityRequest {
            cloud: &wanted.cloud,
            zone: &wanted.zone,
            instance_type: &wanted.instance_type,
            volume_type: &wanted.volume_type,
            volume_gb: wanted.volume_gb,
        };
        let size = choose(&self.0, &chosen)?;
        if source.as_ref().is_some_and(|source| !source.fits(wanted.volume_gb)) {
            return Err(too_small());
        }
        if !self.0.settings.enabled {
            return Err(switched_off());
        }
        offered(&self.features(&wanted.zone)?, self.0.settings.public_tls, &wanted)?;
        let port = admit(&self.0, tx.as_mut(), &CapacityOwner { id: owner_id, name: &owner }, &chosen, &size)?;

        let database = first_database(&wanted)?;
        let deployment = Deployment {
            id: DeploymentId::from_uuid(self.0.ports.ids.uuid(now)),
            owner_id,
            locator,
            state: RunState::Starting,
            cloud: wanted.cloud,
            zone: wanted.zone,
            node: self.0.settings.node.clone(),
            created_by: user.name.clone(),
            created_at: now,
            databases: vec![database],
            origin: source.as_ref().map(Resolved::origin),
            settings: Settings::default(),
            expose_stats: wanted.stats,
            public_tls: wanted.public_tls,
            keeps_version: false,
            database_version: None,
            disabled: None,
            last_error: None,
            version: 1,
            removed_at: None,
            deleted_at: None,
        };
        let seed = match &source {
            Some(source) => source.seed(),
            None => DatabaseSeed::Empty { author: user.signature(now) },
        };
        let instance = new_instance(&self.0, &deployment, size, port, vec![seed], now);
        match tx.deployments().add(&deployment) {
            Err(MetadataError::Taken) => return Err(DeploymentError::NameTaken(deployment.locator.to_string())),
            other => other?,
        }
        tx.instances().add(&instance)?;
        metering::open(tx.as_mut(), &deployment, &instance, Metered::Storage, now)?;
        let view = view(tx.as_mut(), deployment, DeploymentRole::Admin)?;
        self.0.hub.keep_answer(tx.as_mut(), once, &view, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(view)
    }
}

pub(super) fn too_small() -> DeploymentError {
    DeploymentError::Field {
        field: DeploymentField::VolumeSize,
        why: "the volume is smaller than the data to clone".to_owned(),
    }
}

pub(super) fn switched_off() -> DeploymentError {
    DeploymentError::Unsupported("this server starts no deployments (hosted.enabled is false)".to_owned())
}

/// Returns a primary in its initial state.
pub(super) fn new_instance(
    inner: &DeploymentsInner,
    deployment: &Deployment,
    size: InstanceSize,
    port: u16,
    seeds: Vec<DatabaseSeed>,
    now: Timestamp,
) -> Instance {
    Instance {
        id: InstanceId::from_uuid(inner.ports.ids.uuid(now)),
        deployment_id: deployment.id,
        index: 0,
        state: RunState::Starting,
        port,
        size,
        accepted_at: now,
        started_at: None,
        host: None,
        restarts: 0,
        seeds,
        prepared: false,
        was_ready: false,
        handle: None,
        started_with: deployment.settings.clone(),
        draining: false,
        attempts: Attempts::default(),
        crash_loop: false,
        volume_full: false,
        shutdown: None,
    }
}

fn first_database(wanted: &NewDeployment) -> Result<ServedName, DeploymentError> {
    if let Some(name) = &wanted.database {
        return Ok(name.clone());
    }
    let name = wanted.source.as_ref().map_or(wanted.name.as_str(), |source| source.name.as_str());
    ServedName::parse(name).map_err(|wrong| DeploymentError::Field { field: DeploymentField::Database, why: wrong.0 })
}

fn offered(features: &ZoneFeatures, public_tls: bool, wanted: &NewDeployment) -> Result<(), DeploymentError> {
    let missing = [
        (wanted.other_cluster.is_some(), "cluster types other than dolt"),
        (wanted.replicas > 0, "read replicas"),
        (wanted.public_tls && !(public_tls || features.public_tls), "TLS with a public certificate (webpki_cert)"),
        (wanted.remotesapi && !features.remotesapi, "the remotesapi service"),
        (wanted.mcp && !features.mcp, "the MCP service"),
    ];
    match missing.iter().find(|(absent, _)| *absent) {
        Some((_, what)) => Err(DeploymentError::Unsupported(format!("this zone does not offer {what}"))),
        None => Ok(()),
    }
}
