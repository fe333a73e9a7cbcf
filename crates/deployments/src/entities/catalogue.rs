//! What deployments can be made of, and what that costs.

use std::collections::BTreeSet;

use crate::values::Usd;
use branchyard_domain::values::Invalid;

/// What can be offered in a cloud. 0 stands for what the provisioner says: three quarters of the memory, four fifths of the
/// disk, any number of deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Deployments that are not stopped.
    pub deployments: u64,
    /// Gigabytes of memory of their instances.
    pub memory_gb: u64,
    /// Gigabytes of their volumes.
    pub disk_gb: u64,
}

/// Where instances run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloud {
    /// Its id.
    pub id: String,
    /// Its zones.
    pub zones: Vec<String>,
    /// What each zone holds.
    pub capacity: Capacity,
}

/// A size of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// Its id.
    pub id: String,
    /// The cloud that has it.
    pub cloud: String,
    /// The zones of it that have it.
    pub zones: Vec<String>,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Processors.
    pub cpus: u32,
    /// Gigabytes of memory.
    pub memory_gb: u32,
    /// Price of an hour.
    pub hourly_cost: Usd,
    /// Read replicas of a deployment at most.
    pub max_replicas: u32,
    /// Ids of the storage options it goes with.
    pub storage: Vec<String>,
}

/// A kind of volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageOption {
    /// Its id.
    pub id: String,
    /// The cloud that has it.
    pub cloud: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Gigabytes at least.
    pub min_size_gb: u32,
    /// Gigabytes at most.
    pub max_size_gb: u32,
    /// Price of a gigabyte and month.
    pub monthly_cost_per_gb: Usd,
}

/// What deployments can be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// Clouds, in the order they are shown.
    pub clouds: Vec<Cloud>,
    /// Sizes.
    pub instance_types: Vec<InstanceType>,
    /// Volumes.
    pub storage_options: Vec<StorageOption>,
}

impl Catalogue {
    /// The cloud of an id.
    pub fn cloud(&self, id: &str) -> Option<&Cloud> {
        self.clouds.iter().find(|cloud| cloud.id == id)
    }

    /// The size of an id.
    pub fn instance_type(&self, id: &str) -> Option<&InstanceType> {
        self.instance_types.iter().find(|kind| kind.id == id)
    }

    /// The kind of volume of an id.
    pub fn storage_option(&self, id: &str) -> Option<&StorageOption> {
        self.storage_options.iter().find(|option| option.id == id)
    }

    /// Sizes in a zone.
    pub fn types_in(&self, cloud: &str, zone: &str) -> impl Iterator<Item = &InstanceType> {
        self.instance_types.iter().filter(move |kind| kind.cloud == cloud && kind.zones.iter().any(|own| own == zone))
    }

    /// Checks that ids are unique and that everything named is there. The field says where, as a key of the configuration.
    ///
    /// # Errors
    /// [`Invalid`] naming the key.
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
    /// What is offered unless configured: three sizes in the cloud `local`.
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
