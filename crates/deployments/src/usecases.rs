//! The use cases of deployments: access, creation, changes and queries. The [`Supervisor`] runs the instances.

mod backups;
mod callers;
mod capacity;
mod collaborators;
mod config;
mod cost;
mod create;
mod databases;
mod instances;
mod metering;
mod observe;
mod offers;
mod operations;
mod shutdown;
mod supervise;
mod watches;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use backups::BackupFileBytes;
use callers::Callers;
pub use capacity::CapacityRequest as WantedSize;
pub use config::{SettingView, SettingsCheck};
pub use cost::{Cost, CostItem, OwnerUsage, Usage};
pub use create::{DeploymentSource, NewDeployment};
pub use databases::ServedDatabase;
pub use instances::NewInstance;
pub use observe::{InstanceLogs, LogWindow, MetricData};
pub use supervise::{Next, Recovered, Stepped, Supervisor};

use crate::access::{DeploymentAccess, DeploymentLevel, Manage};
use crate::entities::{
    Backup, Catalogue, Deployment, DeploymentRole, Health, Instance, InstanceType, RunState, StorageOption,
};
use crate::errors::DeploymentError;
use crate::ports::DeploymentTransaction;
use crate::ports::{BackupFiles, DeploymentStore, ProvisionError, Provisioner, ZoneFeatures};
use crate::values::{DeploymentId, DeploymentName, Usd};
use branchyard_domain::Hub;
use branchyard_domain::access::Caller;
use branchyard_domain::entities::{Account, AccountKind, MemberRole, Role, User};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Clock, Durability, Ids, WriteKeys};
use branchyard_domain::usecases::Wake;
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};

/// The settings with which this server hosts deployments.
#[derive(Debug, Clone)]
pub struct HostingSettings {
    /// Name of this server, unique among the servers that share the metadata store. A server runs only the deployments
    /// that it accepted.
    pub node: String,
    /// Whether new instances may start. Existing instances are served in any case.
    pub enabled: bool,
    /// The catalog of instance types and storage options.
    pub catalogue: Catalogue,
    /// Default spending limit of an owner per month. `None` means unlimited.
    pub monthly_limit: Option<Usd>,
    /// Spending limits of individual owners per month, by lower-case name. `None` means unlimited.
    pub monthly_limits: BTreeMap<String, Option<Usd>>,
    /// Maximum number of deployments per owner that are not stopped; 0 means unlimited.
    pub per_owner: u64,
    /// Ports that instances may use.
    pub ports: RangeInclusive<u16>,
    /// Maximum seconds until a new instance is ready.
    pub start_deadline_seconds: i64,
    /// Hour of the day (UTC) in which nightly backups are made.
    pub backup_hour: u8,
    /// Retention of backups in days.
    pub backup_retention_days: i64,
    /// Whether a proxy in front of the server provides TLS with a public certificate.
    pub public_tls: bool,
}

impl Default for HostingSettings {
    fn default() -> Self {
        Self {
            node: String::new(),
            enabled: true,
            catalogue: Catalogue::default(),
            monthly_limit: Some(Usd::from_nanos(100_000_000_000)),
            monthly_limits: BTreeMap::new(),
            per_owner: 0,
            ports: 17_400..=17_999,
            start_deadline_seconds: 600,
            backup_hour: 2,
            backup_retention_days: 14,
            public_tls: false,
        }
    }
}

/// A deployment as one caller sees it.
#[derive(Debug, Clone)]
pub struct DeploymentView {
    /// The deployment.
    pub deployment: Deployment,
    /// The primary. For a stopped deployment, the last primary.
    pub primary: Instance,
    /// Role of the caller.
    pub role: DeploymentRole,
    /// Current price per hour.
    pub hourly_cost: Usd,
    /// The newest backup, if any.
    pub last_backup: Option<Backup>,
}

impl DeploymentView {
    /// Returns the health of the deployment.
    pub fn health(&self) -> Health {
        match self.deployment.state {
            RunState::Stopping => Health::Stopping,
            RunState::Stopped => Health::Stopped,
            _ => self.primary.health(),
        }
    }
}

/// The options that remain in a cloud after the choices made so far.
#[derive(Debug, Clone)]
pub struct OfferedOptions {
    /// Id of the cloud.
    pub cloud: String,
    /// Zones that match.
    pub zones: Vec<String>,
    /// Instance types of the zone, limited to the replicas that the zone supports. `None` if no zone is chosen.
    pub instance_types: Option<Vec<InstanceType>>,
    /// Storage options of the instance type. `None` if no instance type is chosen.
    pub storage_options: Option<Vec<StorageOption>>,
}

/// The ports that the use cases need.
#[derive(Clone)]
pub struct DeploymentPorts {
    /// The metadata store of the hub and of deployments.
    pub store: Arc<dyn DeploymentStore>,
    /// The provisioner of instances.
    pub provisioner: Arc<dyn Provisioner>,
    /// The files of backups.
    pub backup_files: Arc<dyn BackupFiles>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids and randomness.
    pub ids: Arc<dyn Ids>,
}

struct DeploymentsInner {
    hub: Hub,
    ports: DeploymentPorts,
    settings: HostingSettings,
    wake: Wake,
}

impl DeploymentsInner {
    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }
}

/// The entry point to deployments. Cheap to clone.
#[derive(Clone)]
pub struct Deployments(Arc<DeploymentsInner>);

impl Deployments {
    /// Returns the deployments of a hub. `ports.store` has to be the store of the hub.
    pub fn new(hub: Hub, ports: DeploymentPorts, settings: HostingSettings) -> Self {
        let inner = Arc::new(DeploymentsInner { hub, ports, settings, wake: Wake::default() });
        let weak = Arc::downgrade(&inner);
        inner.hub.on_revocation(move || {
            if let Some(inner) = weak.upgrade() {
                forget_callers(&inner);
            }
        });
        Self(inner)
    }

    /// Registers with the provisioner as the authority that checks the callers of instances.
    pub fn serve_instances(&self) {
        self.0.ports.provisioner.connect(Arc::new(Callers::of(&self.0)));
    }

    /// Returns the supervisor, which runs the instances.
    pub fn supervisor(&self) -> Supervisor<'_> {
        Supervisor::new(&self.0)
    }

    /// Returns the settings with which this server hosts deployments.
    pub fn hosting(&self) -> &HostingSettings {
        &self.0.settings
    }

    /// Decides whether `caller` has the access level `L` on `owner/name`.
    ///
    /// # Errors
    /// - [`DeploymentError::SignInRequired`] for an anonymous caller, before any look-up.
    /// - [`DeploymentError::NoSuchDeployment`] if the deployment is absent or hidden.
    /// - [`DeploymentError::Denied`] if the deployment is visible and the role is too low.
    pub fn access<L: DeploymentLevel>(
        &self,
        caller: &Caller,
        owner: &str,
        name: &str,
    ) -> Result<DeploymentAccess<L>, DeploymentError> {
        let user = caller.user().ok_or(DeploymentError::SignInRequired)?;
        let missing = || DeploymentError::NoSuchDeployment(format!("{owner}/{name}"));
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DeploymentName::parse(name)) else {
            return Err(missing());
        };
        let mut tx = self.0.ports.store.read_deployments()?;
        let found = tx.deployments().identity(&owner, &name)?;
        // An absent deployment costs the same queries as a hidden one, so that timing does not reveal which one is the
        // case.
        let nil = uuid::Uuid::nil();
        let (id, owner_id) = found.unwrap_or((DeploymentId::from_uuid(nil), AccountId::from_uuid(nil)));
        let role = role_of(tx.as_mut(), user.id, owner_id, id)?.ok_or_else(missing)?;
        let deployment = tx.deployments().get(id)?.filter(|deployment| deployment.removed_at.is_none());
        let deployment = deployment.ok_or_else(missing)?;
        DeploymentAccess::grant(deployment, Arc::clone(user), role).ok_or(DeploymentError::Denied(L::NAME))
    }

    /// Returns the zones of a cloud, the instance types in a zone, and the storage options of an instance type.
    ///
    /// # Errors
    /// [`DeploymentError::Unprocessable`] if the catalog does not have an id.
    pub fn options(
        &self,
        cloud: &str,
        zone: Option<&str>,
        instance_type: Option<&str>,
    ) -> Result<OfferedOptions, DeploymentError> {
        let catalogue = &self.0.settings.catalogue;
        let unknown = |what: &str, id: &str| DeploymentError::Unprocessable(format!("there is no {what} '{id}'"));
        let found = catalogue.cloud(cloud).ok_or_else(|| unknown("cloud", cloud))?;
        let mut offered = OfferedOptions {
            cloud: found.id.clone(),
            zones: found.zones.clone(),
            instance_types: None,
            storage_options: None,
        };
        let Some(zone) = zone else { return Ok(offered) };
        offered.zones.retain(|known| known == zone);
        if offered.zones.is_empty() {
            return Err(unknown("zone", zone));
        }
        let replicas = self.features(zone)?.replicas;
        let mut types: Vec<InstanceType> = catalogue.types_in(cloud, zone).cloned().collect();
        if !replicas {
            types.iter_mut().for_each(|kind| kind.max_replicas = 0);
        }
        if let Some(id) = instance_type {
            types.retain(|kind| kind.id == id);
            let kind = types.first().ok_or_else(|| unknown("instance type", id))?;
            let options = kind.storage.iter().filter_map(|id| catalogue.storage_option(id)).cloned();
            offered.storage_options = Some(options.collect());
        }
        offered.instance_types = Some(types);
        Ok(offered)
    }

    /// Returns the deployment as the holder of the access sees it.
    ///
    /// # Errors
    /// [`DeploymentError::NoSuchDeployment`] if the deployment was removed in the meantime.
    pub fn get<L: DeploymentLevel>(&self, access: &DeploymentAccess<L>) -> Result<DeploymentView, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        Ok(view(tx.as_mut(), deployment, access.role())?)
    }

    /// Returns the deployments of an owner on which the caller has a role, newest first, starting after `before`.
    ///
    /// # Errors
    /// [`DeploymentError::NoSuchOwner`] if the owner does not exist, or if the caller has no role on any of its
    /// deployments.
    pub fn list(
        &self,
        user: &User,
        owner: &str,
        state: Option<RunState>,
        before: Option<DeploymentId>,
        limit: usize,
    ) -> Result<Vec<DeploymentView>, DeploymentError> {
        let missing = || DeploymentError::NoSuchOwner(owner.to_owned());
        let name = OwnerName::parse(owner).map_err(|_| missing())?;
        let mut tx = self.0.ports.store.read_deployments()?;
        let account = tx.accounts().by_name(&name)?;
        let id = account.map_or_else(|| AccountId::from_uuid(uuid::Uuid::nil()), |account| account.id);
        let of_all = role_through_owner(tx.as_mut(), user.id, id)?;
        if of_all.is_none() && !has_role_on_any(tx.as_mut(), user.id, id)? {
            return Err(missing());
        }
        let mut found = Vec::new();
        let mut before = before;
        while found.len() < limit {
            let page = tx.deployments().list(id, state, before, limit)?;
            let is_last = page.len() < limit;
            before = page.last().map(|deployment| deployment.id);
            for deployment in page {
                if let Some(role) = role_of(tx.as_mut(), user.id, id, deployment.id)? {
                    found.push(view(tx.as_mut(), deployment, role)?);
                }
            }
            if is_last {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Sets whether service windows leave the engine version unchanged.
    ///
    /// # Errors
    /// [`DeploymentError::Changed`] if `expected` does not accept the current deployment.
    pub fn keep_version(
        &self,
        access: &DeploymentAccess<Manage>,
        keep: bool,
        expected: Option<&dyn Fn(&DeploymentView) -> bool>,
    ) -> Result<DeploymentView, DeploymentError> {
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let deployment = live(tx.as_mut(), access)?;
        let mut seen = view(tx.as_mut(), deployment, access.role())?;
        if expected.is_some_and(|matches| !matches(&seen)) {
            return Err(DeploymentError::Changed);
        }
        seen.deployment.keeps_version = keep;
        update(tx.as_mut(), &mut seen.deployment)?;
        tx.commit(Durability::Synced)?;
        Ok(seen)
    }

    /// Returns the engine version that ran last, and the versions that the zone offers.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if a port fails.
    pub fn versions<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
    ) -> Result<(Option<String>, Vec<String>), DeploymentError> {
        let deployment = live(self.0.ports.store.read_deployments()?.as_mut(), access)?;
        Ok((deployment.database_version, self.features(&deployment.zone)?.versions))
    }

    /// Returns the address at which the server itself reaches the primary of a deployment.
    ///
    /// # Errors
    /// - [`DeploymentError::Conflict`] unless the deployment is started.
    /// - [`DeploymentError::Port`] if another server runs the deployment.
    pub fn address<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
    ) -> Result<std::net::SocketAddr, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        here(&self.0, &deployment)?;
        let instance = primary(tx.as_mut(), deployment.id)?;
        let handle = instance.handle.filter(|_| deployment.state == RunState::Started);
        let stopped = || DeploymentError::Conflict(format!("{} is not started", deployment.locator));
        Ok(self.0.ports.provisioner.address(&handle.ok_or_else(stopped)?)?)
    }

    fn features(&self, zone: &str) -> Result<ZoneFeatures, DeploymentError> {
        Ok(self.0.ports.provisioner.features(zone)?)
    }
}

/// Returns the role of a user on all deployments of an owner.
fn role_through_owner(
    tx: &mut dyn DeploymentTransaction,
    user: AccountId,
    owner: AccountId,
) -> Result<Option<DeploymentRole>, PortError> {
    if owner == user {
        return Ok(Some(DeploymentRole::Admin));
    }
    let Some(member) = tx.members().get(owner, user)? else { return Ok(None) };
    if member.role == MemberRole::Owner {
        return Ok(Some(DeploymentRole::Admin));
    }
    Ok(tx.organizations().get(owner)?.map(|organization| match organization.base_role {
        Role::Read => DeploymentRole::Reader,
        Role::Write => DeploymentRole::Writer,
        Role::Admin => DeploymentRole::Admin,
    }))
}

/// Returns the highest role of a user on a deployment. `None` hides the deployment from the user.
fn role_of(
    tx: &mut dyn DeploymentTransaction,
    user: AccountId,
    owner: AccountId,
    deployment: DeploymentId,
) -> Result<Option<DeploymentRole>, PortError> {
    let through_owner = role_through_owner(tx, user, owner)?;
    let own = tx.deployment_collaborators().get(deployment, user)?;
    Ok(through_owner.max(own.map(|collaborator| collaborator.role)))
}

fn has_role_on_any(tx: &mut dyn DeploymentTransaction, user: AccountId, owner: AccountId) -> Result<bool, PortError> {
    const PAGE: usize = 100;
    let mut before = None;
    loop {
        let page = tx.deployments().list(owner, None, before, PAGE)?;
        for deployment in &page {
            if tx.deployment_collaborators().get(deployment.id, user)?.is_some() {
                return Ok(true);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some(last.id),
            _ => return Ok(false),
        }
    }
}

/// Returns the account with the name in `text`. Returns `None` if `text` is not a valid name.
fn account_of(tx: &mut dyn DeploymentTransaction, text: &str) -> Result<Option<Account>, PortError> {
    match OwnerName::parse(text) {
        Ok(name) => Ok(tx.accounts().by_name(&name)?),
        Err(_) => Ok(None),
    }
}

/// Returns the account if the user may create deployments for it. Returns `None` if the user may not, or if the account
/// does not exist.
fn may_create_for(
    tx: &mut dyn DeploymentTransaction,
    user: &User,
    owner: &str,
) -> Result<Option<(AccountId, OwnerName)>, PortError> {
    let Ok(name) = OwnerName::parse(owner) else { return Ok(None) };
    let Some(account) = tx.accounts().by_name(&name)? else { return Ok(None) };
    let allowed = match account.kind {
        AccountKind::User => account.id == user.id,
        AccountKind::Organization => role_through_owner(tx, user.id, account.id)? == Some(DeploymentRole::Admin),
    };
    Ok(allowed.then_some((account.id, account.name)))
}

/// Returns the current state of the deployment, unless it was removed.
fn live<L: DeploymentLevel>(
    tx: &mut dyn DeploymentTransaction,
    access: &DeploymentAccess<L>,
) -> Result<Deployment, DeploymentError> {
    let found = tx.deployments().get(access.deployment().id)?.filter(|deployment| deployment.removed_at.is_none());
    found.ok_or_else(|| DeploymentError::NoSuchDeployment(access.deployment().locator.to_string()))
}

/// Fails unless this server runs the deployment.
fn here(inner: &DeploymentsInner, deployment: &Deployment) -> Result<(), PortError> {
    if deployment.node == inner.settings.node {
        return Ok(());
    }
    let context = format!("reach {}, which another server of this metadata store runs", deployment.locator);
    Err(ProvisionError::Unavailable { context, source: "only that server reaches it".into() }.into())
}

/// Drops the caller caches of the instances of this server, because rights were revoked. The caches apply while the
/// server is unreachable, so they have to be dropped before the server can fail. An instance that cannot be reached has
/// either ended or asks the server about its callers.
fn forget_callers(inner: &DeploymentsInner) {
    // Best effort: the revocation itself is already committed.
    let Ok(active) = inner.ports.store.read_deployments().and_then(|mut tx| tx.instances().active()) else {
        return;
    };
    for handle in active.iter().filter_map(|(instance, ..)| instance.handle.as_ref()) {
        let _ = inner.ports.provisioner.forget_callers(handle);
    }
}

/// Returns the primary. For a stopped deployment, returns the last primary.
fn primary(tx: &mut dyn DeploymentTransaction, deployment: DeploymentId) -> Result<Instance, PortError> {
    let instances = tx.instances().list(deployment)?;
    let newest = instances.into_iter().rfind(|instance| instance.index == 0);
    newest.ok_or(PortError::Unsettled("a deployment without an instance"))
}

fn view(
    tx: &mut dyn DeploymentTransaction,
    deployment: Deployment,
    role: DeploymentRole,
) -> Result<DeploymentView, PortError> {
    let instances = tx.instances().list(deployment.id)?;
    let live = instances.iter().filter(|instance| instance.state != RunState::Stopped);
    let hourly_cost = live.map(|instance| instance.size.rate()).sum();
    let newest = instances.into_iter().rfind(|instance| instance.index == 0);
    let primary = newest.ok_or(PortError::Unsettled("a deployment without an instance"))?;
    let last_backup = tx.backups().list(deployment.id)?.into_iter().next();
    Ok(DeploymentView { deployment, primary, role, hourly_cost, last_backup })
}

/// Updates a deployment that was read in the same transaction.
fn update(tx: &mut dyn DeploymentTransaction, deployment: &mut Deployment) -> Result<(), PortError> {
    if !tx.deployments().update(deployment)? {
        return Err(PortError::Unsettled("a deployment that was just read"));
    }
    deployment.version += 1;
    Ok(())
}
