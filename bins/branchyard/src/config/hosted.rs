//! Configuration of deployments.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use anyhow::{Context as _, bail};
use branchyard_deployments::entities::{Capacity, Catalogue, Cloud, InstanceType, StorageOption};
use branchyard_deployments::values::Usd;
use serde::{Deserialize, Serialize};

use super::Span;

/// Deployments: listeners, ports, backups, spending limits, and catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosted {
    /// Whether new instances may start. Existing instances are served in any case.
    pub enabled: bool,
    /// IP address that instances listen on.
    pub bind: String,
    /// Host name announced to clients. If absent, the address that instances listen on.
    pub advertise_host: Option<String>,
    /// First and last port of instances, as `17400-17999`.
    pub port_range: String,
    /// Whether deployments can also be reached through the API's listener.
    pub gateway: bool,
    /// Template of the URL announced to clients, with the placeholders `{owner}`, `{deployment}`, and `{port}`.
    pub url_template: Option<String>,
    /// Whether a proxy in front of the server terminates TLS with a publicly trusted certificate.
    pub public_tls: bool,
    /// Handling of instances when the server stops: `stop` or `leave`.
    pub on_shutdown: String,
    /// How long instances keep serving while the server is down.
    pub orphan_grace: Span,
    /// Deadline for a new instance to become ready.
    pub start_deadline: Span,
    /// Whether instances start on a system that cannot confine their processes.
    pub allow_unconfined: bool,
    /// Hour of the nightly backups, in UTC.
    pub backup_hour_utc: u8,
    /// Retention of backups, in days.
    pub backup_retention_days: u32,
    /// Maximum number of deployments of an owner that are not stopped; 0 means no limit.
    pub max_deployments_per_owner: u64,
    /// Spending limits of owners.
    pub spending: SpendingLimit,
    /// The offered clouds, instance types, and storage options.
    pub catalogue: Listings,
}

/// Monthly spending limits: an amount in US dollars, or `none`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpendingLimit {
    /// Limit of owners without an entry in `owners`.
    pub default_monthly_limit_usd: String,
    /// Limits by owner name.
    pub owners: BTreeMap<String, String>,
}

/// The offered clouds, instance types, and storage options. Each list that is set replaces the built-in list completely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listings {
    /// Clouds that instances run on.
    pub clouds: Vec<CloudItem>,
    /// Sizes of instances.
    pub instance_types: Vec<InstanceTypeItem>,
    /// Kinds of volumes.
    pub storage_options: Vec<StorageItem>,
}

/// A cloud of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudItem {
    /// Id of the cloud.
    pub id: String,
    /// Provisioner that runs the cloud's instances. The only one is `local_process`.
    pub provisioner: String,
    /// Zones of the cloud.
    pub zones: Vec<String>,
    /// Capacity of each zone.
    #[serde(default)]
    pub capacity: CapacityItem,
}

/// Capacity of a zone. For memory and disk, 0 means a value derived from the machine; for deployments, 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityItem {
    /// Maximum number of deployments that are not stopped.
    pub deployments: u64,
    /// Memory in gigabytes.
    pub memory_gb: u64,
    /// Disk space for volumes in gigabytes.
    pub disk_gb: u64,
}

/// A size of instances in the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceTypeItem {
    /// Id of the instance type.
    pub id: String,
    /// Id of its cloud.
    pub cloud: String,
    /// Zones that offer the instance type.
    pub zones: Vec<String>,
    /// Display name.
    pub name: String,
    /// Description for display.
    #[serde(default)]
    pub description: String,
    /// Number of processors.
    pub cpus: u32,
    /// Memory in gigabytes.
    pub memory_gb: u32,
    /// Price per hour in US dollars, as decimal text.
    pub hourly_cost_usd: String,
    /// Maximum number of read replicas.
    #[serde(default)]
    pub max_replicas: u32,
    /// Ids of the compatible storage options.
    pub storage: Vec<String>,
}

/// A kind of volumes in the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageItem {
    /// Id of the storage option.
    pub id: String,
    /// Id of its cloud.
    pub cloud: String,
    /// Display name.
    pub name: String,
    /// Description for display.
    #[serde(default)]
    pub description: String,
    /// Minimum size in gigabytes.
    pub min_size_gb: u32,
    /// Maximum size in gigabytes.
    pub max_size_gb: u32,
    /// Price per gigabyte and month in US dollars, as decimal text.
    pub monthly_cost_usd_per_gb: String,
}

impl Default for Hosted {
    fn default() -> Self {
        Self {
            enabled: true,
            bind: "127.0.0.1".to_owned(),
            advertise_host: None,
            port_range: "17400-17999".to_owned(),
            gateway: true,
            url_template: None,
            public_tls: false,
            on_shutdown: "stop".to_owned(),
            orphan_grace: Span::seconds(60),
            start_deadline: Span::seconds(600),
            allow_unconfined: false,
            backup_hour_utc: 2,
            backup_retention_days: 14,
            max_deployments_per_owner: 0,
            spending: SpendingLimit::default(),
            catalogue: Listings::default(),
        }
    }
}

impl Default for SpendingLimit {
    fn default() -> Self {
        Self { default_monthly_limit_usd: "100".to_owned(), owners: BTreeMap::new() }
    }
}

impl Default for Listings {
    fn default() -> Self {
        let Catalogue { clouds, instance_types, storage_options } = Catalogue::default();
        let cloud = |cloud: Cloud| CloudItem {
            id: cloud.id,
            provisioner: LOCAL.to_owned(),
            zones: cloud.zones,
            capacity: CapacityItem {
                deployments: cloud.capacity.deployments,
                memory_gb: cloud.capacity.memory_gb,
                disk_gb: cloud.capacity.disk_gb,
            },
        };
        let kind = |kind: InstanceType| InstanceTypeItem {
            id: kind.id,
            cloud: kind.cloud,
            zones: kind.zones,
            name: kind.name,
            description: kind.description,
            cpus: kind.cpus,
            memory_gb: kind.memory_gb,
            hourly_cost_usd: kind.hourly_cost.to_string(),
            max_replicas: kind.max_replicas,
            storage: kind.storage,
        };
        let option = |option: StorageOption| StorageItem {
            id: option.id,
            cloud: option.cloud,
            name: option.name,
            description: option.description,
            min_size_gb: option.min_size_gb,
            max_size_gb: option.max_size_gb,
            monthly_cost_usd_per_gb: option.monthly_cost_per_gb.to_string(),
        };
        Self {
            clouds: clouds.into_iter().map(cloud).collect(),
            instance_types: instance_types.into_iter().map(kind).collect(),
            storage_options: storage_options.into_iter().map(option).collect(),
        }
    }
}

/// The only supported provisioner.
const LOCAL: &str = "local_process";

fn price(key: &str, text: &str) -> anyhow::Result<Usd> {
    Usd::parse(text).with_context(|| format!("configuration: {key}"))
}

fn limit(key: &str, text: &str) -> anyhow::Result<Option<Usd>> {
    if text == "none" { Ok(None) } else { price(key, text).map(Some) }
}

impl Listings {
    fn catalogue(&self) -> anyhow::Result<Catalogue> {
        let mut catalogue = Catalogue { clouds: Vec::new(), instance_types: Vec::new(), storage_options: Vec::new() };
        for item in &self.clouds {
            if item.provisioner != LOCAL {
                let (id, other) = (&item.id, &item.provisioner);
                bail!(
                    "configuration: hosted.catalogue: clouds '{id}' has the provisioner '{other}'; it must be \"{LOCAL}\""
                );
            }
            let CapacityItem { deployments, memory_gb, disk_gb } = item.capacity;
            catalogue.clouds.push(Cloud {
                id: item.id.clone(),
                zones: item.zones.clone(),
                capacity: Capacity { deployments, memory_gb, disk_gb },
            });
        }
        for item in &self.instance_types {
            catalogue.instance_types.push(InstanceType {
                id: item.id.clone(),
                cloud: item.cloud.clone(),
                zones: item.zones.clone(),
                name: item.name.clone(),
                description: item.description.clone(),
                cpus: item.cpus,
                memory_gb: item.memory_gb,
                hourly_cost: price("hosted.catalogue.instance_types.hourly_cost_usd", &item.hourly_cost_usd)?,
                max_replicas: item.max_replicas,
                storage: item.storage.clone(),
            });
        }
        for item in &self.storage_options {
            let key = "hosted.catalogue.storage_options.monthly_cost_usd_per_gb";
            catalogue.storage_options.push(StorageOption {
                id: item.id.clone(),
                cloud: item.cloud.clone(),
                name: item.name.clone(),
                description: item.description.clone(),
                min_size_gb: item.min_size_gb,
                max_size_gb: item.max_size_gb,
                monthly_cost_per_gb: price(key, &item.monthly_cost_usd_per_gb)?,
            });
        }
        catalogue.check().context("configuration: hosted.catalogue")?;
        Ok(catalogue)
    }
}

impl Hosted {
    /// Returns the address that instances listen on.
    ///
    /// # Errors
    /// Returns an error that names the key if the address is invalid.
    pub fn address(&self) -> anyhow::Result<IpAddr> {
        self.bind.parse().with_context(|| format!("configuration: hosted.bind is '{}'; write an address", self.bind))
    }

    /// Returns `true` if instances keep running when the server stops.
    pub fn leaves(&self) -> bool {
        self.on_shutdown == "leave"
    }

    fn ports(&self) -> anyhow::Result<RangeInclusive<u16>> {
        let ends = self.port_range.split_once('-').map(|(first, last)| (first.trim().parse(), last.trim().parse()));
        match ends {
            Some((Ok(first), Ok(last))) if first >= 1_024 && first <= last => Ok(first..=last),
            _ => bail!(
                "configuration: hosted.port_range is '{}'; write the first and last port, such as 17400-17999; the lowest is 1024",
                self.port_range
            ),
        }
    }

    /// Returns the domain's settings. `node` is left empty, because the node id is stored in the data folder.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn domain(&self) -> anyhow::Result<branchyard_deployments::HostingSettings> {
        self.address()?;
        if !["stop", "leave"].contains(&self.on_shutdown.as_str()) {
            bail!("configuration: hosted.on_shutdown is '{}'; it must be \"stop\" or \"leave\"", self.on_shutdown);
        }
        let spending = &self.spending;
        let mut monthly_limits = BTreeMap::new();
        for (owner, text) in &spending.owners {
            let key = format!("hosted.spending.owners.{owner}");
            monthly_limits.insert(owner.to_ascii_lowercase(), limit(&key, text)?);
        }
        Ok(branchyard_deployments::HostingSettings {
            node: String::new(),
            enabled: self.enabled,
            catalogue: self.catalogue.catalogue()?,
            monthly_limit: limit("hosted.spending.default_monthly_limit_usd", &spending.default_monthly_limit_usd)?,
            monthly_limits,
            per_owner: self.max_deployments_per_owner,
            ports: self.ports()?,
            start_deadline_seconds: self.start_deadline.as_seconds(),
            backup_hour: self.backup_hour_utc,
            backup_retention_days: i64::from(self.backup_retention_days),
            public_tls: self.public_tls,
        })
    }

    /// Returns the settings of the hosted API's adapter for a server reached at `base_url`.
    pub fn adapter(&self, base_url: &str) -> branchyard_api_hosted_v1::Settings {
        let mut settings = branchyard_api_hosted_v1::Settings::new(base_url);
        settings.gateway = self.gateway;
        settings.url_template.clone_from(&self.url_template);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::Hosted;
    use branchyard_deployments::entities::Catalogue;

    #[test]
    fn the_defaults_are_those_of_the_domain() {
        let domain = Hosted::default().domain().unwrap();
        let own = branchyard_deployments::HostingSettings::default();
        assert_eq!(domain.catalogue, Catalogue::default());
        assert_eq!((domain.monthly_limit, domain.ports), (own.monthly_limit, own.ports));
        assert_eq!(domain.start_deadline_seconds, own.start_deadline_seconds);
        assert_eq!((domain.backup_hour, domain.backup_retention_days), (own.backup_hour, own.backup_retention_days));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |change: fn(&mut Hosted)| {
            let mut hosted = Hosted::default();
            change(&mut hosted);
            format!("{:#}", hosted.domain().unwrap_err())
        };
        assert!(error(|hosted| hosted.bind = "here".to_owned()).contains("hosted.bind"));
        assert!(error(|hosted| hosted.port_range = "9-5".to_owned()).contains("hosted.port_range"));
        assert!(error(|hosted| hosted.on_shutdown = "kill".to_owned()).contains("hosted.on_shutdown"));
        let limit = error(|hosted| hosted.spending.default_monthly_limit_usd = "much".to_owned());
        assert!(limit.contains("hosted.spending.default_monthly_limit_usd"));
        let price = error(|hosted| hosted.catalogue.instance_types[0].hourly_cost_usd = "-1".to_owned());
        assert!(price.contains("hourly_cost_usd"));
        let double = error(|hosted| hosted.catalogue.clouds.push(hosted.catalogue.clouds[0].clone()));
        assert!(double.contains("hosted.catalogue") && double.contains("'local'"), "{double}");
    }
}
