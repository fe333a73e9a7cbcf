//! The catalog: clouds, instance types and storage options, with their prices.

use std::collections::BTreeSet;

use crate::values::Usd;
use branchyard_domain::values::Invalid;

/// The capacity of each zone of a cloud.
///
/// A limit of 0 is derived from what the provisioner reports: three quarters of the memory, four fifths of the disk,
/// and no limit on the number of deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Deployments that are not stopped.
    pub deployments: u64,
    /// Memory of their instances, in gigabytes.
    pub memory_gb: u64,
    /// Volumes of their instances, in gigabytes.
    pub disk_gb: u64,
}

/// A cloud that instances run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloud {
    /// Unique id.
    pub id: String,
    /// Ids of the zones; at least one.
    pub zones: Vec<String>,
    /// Capacity of each zone.
    pub capacity: Capacity,
}

/// A size of instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// Unique id.
    pub id: String,
    /// Id of the cloud that offers the type.
    pub cloud: String,
    /// Zones of that cloud that offer the type.
    pub zones: Vec<String>,
    /// Display name.
    pub name: String,
    /// Description for users.
    pub description: String,
    /// Number of processors.
    pub cpus: u32,
    /// Memory in gigabytes.
    pub memory_gb: u32,
    /// Price per hour.
    pub hourly_cost: Usd,
    /// Maximum number of read replicas of a deployment.
    pub max_replicas: u32,
    /// Ids of the storage options that the type can be combined with.
    pub storage: Vec<String>,
}

/// A kind of volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageOption {
    /// Unique id.
    pub id: String,
    /// Id of the cloud that offers the option.
    pub cloud: String,
    /// Display name.
    pub name: String,
    /// Description for users.
    pub description: String,
    /// Minimum size in gigabytes.
    pub min_size_gb: u32,
    /// Maximum size in gigabytes.
    pub max_size_gb: u32,
    /// Price per gigabyte and month.
    pub monthly_cost_per_gb: Usd,
}

/// The clouds, sizes and volumes that deployments can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// Clouds, in display order.
    pub clouds: Vec<Cloud>,
    /// Instance types, in display order.
    pub instance_types: Vec<InstanceType>,
    /// Storage options, in display order.
    pub storage_options: Vec<StorageOption>,
}

impl Catalogue {
    /// Returns the cloud with this id.
    pub fn cloud(&self, id: &str) -> Option<&Cloud> {
        self.clouds.iter().find(|cloud| cloud.id == id)
    }

    /// Returns the instance type with this id.
    pub fn instance_type(&self, id: &str) -> Option<&InstanceType> {
        self.instance_types.iter().find(|kind| kind.id == id)
    }

    /// Returns the storage option with this id.
    pub fn storage_option(&self, id: &str) -> Option<&StorageOption> {
        self.storage_options.iter().find(|option| option.id == id)
    }

    /// Returns the instance types that a zone offers.
    pub fn types_in(&self, cloud: &str, zone: &str) -> impl Iterator<Item = &InstanceType> {
        self.instance_types.iter().filter(move |kind| kind.cloud == cloud && kind.zones.iter().any(|own| own == zone))
    }

    /// Checks that ids are unique and that every id the catalog refers to exists.
    ///
    /// # Errors
    /// [`Invalid`] if a rule is broken. The message names the configuration key.
    pub fn check(&self) -> Result<(), Invalid> {
        unique("clouds", self.clouds.iter().map(|cloud| &cloud.id))?;
        unique("instance_types", self.instance_types.iter().map(|kind| &kind.id))?;
        unique("storage_options", self.storage_options.iter().map(|option| &option.id))?;
        for cloud in &self.clouds {
            unique(&format!("clouds '{}' zones", cloud.id), cloud.zones.iter())?;
            if cloud.zones.is_empty() {
                return Err(Invalid::new(format!("clouds '{}' has no zones", cloud.id)));
            }
        }
        for option in &self.storage_options {
            if self.cloud(&option.cloud).is_none() {
                return Err(Invalid::new(format!(
                    "storage_options '{}' names the cloud '{}'",
                    option.id, option.cloud
                )));
            }
            if option.min_size_gb == 0 || option.min_size_gb > option.max_size_gb {
                return Err(Invalid::new(format!("storage_options '{}' has min_size_gb above max_size_gb", option.id)));
            }
        }
        for kind in &self.instance_types {
            self.check_type(kind)?;
        }
        Ok(())
    }

    fn check_type(&self, kind: &InstanceType) -> Result<(), Invalid> {
        let wrong = |what: String| Err(Invalid::new(format!("instance_types '{}' {what}", kind.id)));
        let Some(cloud) = self.cloud(&kind.cloud) else { return wrong(format!("names the cloud '{}'", kind.cloud)) };
        if let Some(zone) = kind.zones.iter().find(|zone| !cloud.zones.contains(zone)) {
            return wrong(format!("names the zone '{zone}'"));
        }
        let unknown = |id: &&String| self.storage_option(id).is_none_or(|option| option.cloud != kind.cloud);
        if let Some(storage) = kind.storage.iter().find(unknown) {
            return wrong(format!("names the storage '{storage}'"));
        }
        if kind.cpus == 0 || kind.memory_gb == 0 {
            return wrong("has no cpus or no memory_gb".to_owned());
        }
        Ok(())
    }
}

fn unique<'a>(place: &str, ids: impl Iterator<Item = &'a String>) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if id.is_empty() || !seen.insert(id) {
            return Err(Invalid::new(format!("{place} has the id '{id}' twice, or it is empty")));
        }
    }
    Ok(())
}

impl Default for Catalogue {
    /// Returns the catalog that applies without configuration: three instance types in the cloud `local`.
    fn default() -> Self {
        let local = || "local".to_owned();
        let size = |name: &str, description: &str, cpus, memory_gb, nanos| InstanceType {
            id: format!("local.{name}"),
            cloud: local(),
            zones: vec![local()],
            name: name.to_owned(),
            description: description.to_owned(),
            cpus,
            memory_gb,
            hourly_cost: Usd::from_nanos(nanos),
            max_replicas: 2,
            storage: vec!["local.standard".to_owned()],
        };
        Self {
            clouds: vec![Cloud {
                id: local(),
                zones: vec![local()],
                capacity: Capacity { deployments: 64, memory_gb: 0, disk_gb: 0 },
            }],
            instance_types: vec![
                size("small", "Trial and tests.", 1, 1, 6_849_320),
                size("medium", "Applications with some load.", 2, 4, 68_493_150),
                size("large", "Much data or many clients.", 4, 16, 273_972_600),
            ],
            storage_options: vec![StorageOption {
                id: "local.standard".to_owned(),
                cloud: local(),
                name: "Standard".to_owned(),
                description: "Folder on the server's disk.".to_owned(),
                min_size_gb: 1,
                max_size_gb: 1_024,
                monthly_cost_per_gb: Usd::from_nanos(100_000_000),
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalogue_is_sound() {
        assert_eq!(Catalogue::default().check(), Ok(()));
    }

    #[test]
    fn duplicates_and_dangling_references_are_named() {
        let broken = |change: fn(&mut Catalogue)| {
            let mut catalogue = Catalogue::default();
            change(&mut catalogue);
            catalogue.check().expect_err("refused").to_string()
        };
        let text = broken(|catalogue| catalogue.clouds.push(catalogue.clouds[0].clone()));
        assert_eq!(text, "clouds has the id 'local' twice, or it is empty");
        let text = broken(|catalogue| catalogue.instance_types[1].zones.push("moon".to_owned()));
        assert_eq!(text, "instance_types 'local.medium' names the zone 'moon'");
        let text = broken(|catalogue| catalogue.storage_options[0].id = "other".to_owned());
        assert_eq!(text, "instance_types 'local.small' names the storage 'local.standard'");
        let text = broken(|catalogue| catalogue.storage_options[0].min_size_gb = 2_000);
        assert_eq!(text, "storage_options 'local.standard' has min_size_gb above max_size_gb");
    }
}
