//! Admission of new instances: spending limits, capacity and ports.

use super::DeploymentsInner;
use crate::entities::{Capacity, Instance, InstanceSize, InstanceType, StorageOption};
use crate::errors::{DeploymentError, DeploymentField};
use crate::ports::DeploymentTransaction;
use crate::values::Usd;
use branchyard_domain::values::{AccountId, OwnerName};

/// The catalog entries that a new instance needs.
#[derive(Debug, Clone, Copy)]
pub struct CapacityRequest<'a> {
    /// Id of the cloud.
    pub cloud: &'a str,
    /// Zone of that cloud.
    pub zone: &'a str,
    /// Id of the instance type.
    pub instance_type: &'a str,
    /// Id of the storage option.
    pub volume_type: &'a str,
    /// Size of the volume in gigabytes.
    pub volume_gb: u32,
}

fn refused(field: DeploymentField, why: String) -> DeploymentError {
    DeploymentError::Field { field, why }
}

/// Looks up the requested entries in the catalog.
pub(super) fn choose(inner: &DeploymentsInner, wanted: &CapacityRequest<'_>) -> Result<InstanceSize, DeploymentError> {
    let catalogue = &inner.settings.catalogue;
    let cloud = catalogue.cloud(wanted.cloud);
    let cloud =
        cloud.ok_or_else(|| refused(DeploymentField::Cloud, format!("there is no cloud '{}'", wanted.cloud)))?;
    if !cloud.zones.iter().any(|zone| zone == wanted.zone) {
        return Err(refused(DeploymentField::Zone, format!("{} has no zone '{}'", cloud.id, wanted.zone)));
    }
    let mut kinds = catalogue.types_in(wanted.cloud, wanted.zone);
    let kind = kinds.find(|kind| kind.id == wanted.instance_type).ok_or_else(|| {
        refused(
            DeploymentField::InstanceType,
            format!("{} has no instance type '{}'", wanted.zone, wanted.instance_type),
        )
    })?;
    let option = kind.storage.iter().find(|id| *id == wanted.volume_type).and_then(|id| catalogue.storage_option(id));
    let option = option.ok_or_else(|| {
        refused(DeploymentField::VolumeType, format!("{} cannot use the volume type '{}'", kind.id, wanted.volume_type))
    })?;
    if !(option.min_size_gb..=option.max_size_gb).contains(&wanted.volume_gb) {
        let (least, most) = (option.min_size_gb, option.max_size_gb);
        return Err(refused(DeploymentField::VolumeSize, format!("{} comes with {least} to {most} GB", option.id)));
    }
    Ok(size(kind, option, wanted.volume_gb))
}

fn size(kind: &InstanceType, option: &StorageOption, volume_gb: u32) -> InstanceSize {
    InstanceSize {
        type_id: kind.id.clone(),
        type_name: kind.name.clone(),
        cpus: kind.cpus,
        memory_gb: kind.memory_gb,
        volume_type_id: option.id.clone(),
        volume_type_name: option.name.clone(),
        volume_gb,
        compute_rate: kind.hourly_cost,
        storage_rate: option.monthly_cost_per_gb.storage_per_hour(volume_gb),
    }
}

/// The owner of the new instance.
pub(super) struct CapacityOwner<'a> {
    pub(super) id: AccountId,
    pub(super) name: &'a OwnerName,
}

/// Checks the spending limit and quota of the owner, then the capacity of the zone, and returns a free port. The check
/// runs in the transaction that adds the instance, so that concurrent requests cannot exceed a limit together.
pub(super) fn admit(
    inner: &DeploymentsInner,
    tx: &mut dyn DeploymentTransaction,
    owner: &CapacityOwner<'_>,
    wanted: &CapacityRequest<'_>,
    size: &InstanceSize,
) -> Result<u16, DeploymentError> {
    let active = tx.instances().active()?;
    let committed: Usd = active.iter().filter(|(_, id, _)| *id == owner.id).map(|(i, ..)| i.size.rate()).sum();
    if let Some(limit) = spending_limit(inner, owner.name) {
        let (committed, requested) = (committed.per_month(), size.rate().per_month());
        if committed + requested > limit {
            return Err(DeploymentError::Spending { limit, committed, requested });
        }
    }
    let most = inner.settings.per_owner;
    if most > 0 && tx.deployments().count_active(owner.id)? >= most {
        return Err(DeploymentError::Capacity(format!(
            "the owner has reached the limit of {most} running deployments"
        )));
    }
    let in_zone: Vec<&Instance> =
        active.iter().filter(|(_, _, zone)| zone == wanted.zone).map(|(instance, ..)| instance).collect();
    zone_has_room(inner, wanted, size, &in_zone)?;
    let held: Vec<u16> = active.iter().map(|(instance, ..)| instance.port).collect();
    free_port(inner, &held)
        .ok_or_else(|| DeploymentError::Capacity("the server has no free port for another instance".to_owned()))
}

/// Returns the monthly spending limit of an owner. `None` means unlimited.
pub(super) fn spending_limit(inner: &DeploymentsInner, owner: &OwnerName) -> Option<Usd> {
    let hosted = &inner.settings;
    hosted.monthly_limits.get(&owner.key()).copied().unwrap_or(hosted.monthly_limit)
}

/// Returns the lowest port that no instance holds and that can be bound.
pub(super) fn free_port(inner: &DeploymentsInner, held: &[u16]) -> Option<u16> {
    let mut ports = inner.settings.ports.clone();
    ports.find(|port| !held.contains(port) && inner.ports.provisioner.port_is_free(*port))
}

fn zone_has_room(
    inner: &DeploymentsInner,
    wanted: &CapacityRequest<'_>,
    size: &InstanceSize,
    in_zone: &[&Instance],
) -> Result<(), DeploymentError> {
    let capacity = inner.settings.catalogue.cloud(wanted.cloud).map_or_else(Capacity::default, |c| c.capacity);
    let features = inner.ports.provisioner.features(wanted.zone)?;
    // Unset limits are three quarters of the memory and four fifths of the disk. An unknown size means no limit.
    let derived = |set: u64, bytes: Option<u64>, parts: u64, of: u64| match (set, bytes) {
        (0, bytes) => bytes.map(|bytes| (bytes / of * parts) >> 30),
        (set, _) => Some(set),
    };
    let sum = |of: fn(&Instance) -> u32| in_zone.iter().map(|instance| u64::from(of(instance))).sum::<u64>();
    let count = u64::try_from(in_zone.len()).unwrap_or(u64::MAX);
    let dimensions = [
        ("deployments", (capacity.deployments > 0).then_some(capacity.deployments), count, 1),
        (
            "memory_gb",
            derived(capacity.memory_gb, features.memory_bytes, 3, 4),
            sum(|instance| instance.size.memory_gb),
            u64::from(size.memory_gb),
        ),
        (
            "disk_gb",
            derived(capacity.disk_gb, features.disk_bytes, 4, 5),
            sum(|instance| instance.size.volume_gb),
            u64::from(size.volume_gb),
        ),
    ];
    for (name, most, used, more) in dimensions {
        if let Some(most) = most
            && used + more > most
        {
            let zone = wanted.zone;
            let text = format!("the zone {zone} has no room: {name} is {used} of {most}, and this would add {more}");
            return Err(DeploymentError::Capacity(text));
        }
    }
    Ok(())
}
