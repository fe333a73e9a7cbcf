use branchyard_deployments::OfferedOptions;
use branchyard_deployments::entities::{InstanceType, StorageOption};
use branchyard_domain::entities::User;

use super::number;
use crate::wire;

fn instance_type(kind: &InstanceType) -> wire::InstanceType {
    wire::InstanceType {
        id: kind.id.clone(),
        name: kind.name.clone(),
        cpus: kind.cpus,
        memory_gb: kind.memory_gb,
        description: kind.description.clone(),
        hourly_cost_usd: number(kind.hourly_cost),
        max_replicas: kind.max_replicas,
    }
}

fn storage_option(option: &StorageOption) -> wire::StorageOption {
    wire::StorageOption {
        id: option.id.clone(),
        name: option.name.clone(),
        description: option.description.clone(),
        min_size_gb: option.min_size_gb,
        max_size_gb: option.max_size_gb,
        monthly_cost_usd_per_gb: number(option.monthly_cost_per_gb),
    }
}

pub(crate) fn options(offered: &OfferedOptions) -> wire::DeploymentOptions {
    let types = offered.instance_types.as_ref().map(|types| types.iter().map(instance_type).collect());
    let storage = offered.storage_options.as_ref().map(|options| options.iter().map(storage_option).collect());
    wire::DeploymentOptions {
        cloud: offered.cloud.clone(),
        zones: offered.zones.clone(),
        instance_types: types,
        storage_options: storage,
    }
}

pub(crate) fn user(user: &User) -> wire::User {
    let emails = user.emails.iter().map(|email| wire::EmailAddress {
        address: email.address.clone(),
        is_verified: email.is_verified,
        is_primary: email.is_primary,
    });
    wire::User {
        username: user.name.to_string(),
        display_name: user.display_name.clone().unwrap_or_default(),
        company: "",
        email_addresses: emails.collect(),
    }
}
