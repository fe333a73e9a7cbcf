//! JSON mirrors of deployments, instances, backups and samples, for the values that are not looked up.

use std::collections::BTreeMap;

use branchyard_deployments::entities::{Attempts, Deployment, DeploymentOrigin, Instance, InstanceSize, Shutdown};
use branchyard_deployments::ports::{BackupFile, CopiedDatabase, DatabaseSeed, InstanceHandle, Sample, Series};
use branchyard_deployments::values::{Setting, Settings, Usd};
use branchyard_domain::entities::{DatabaseLocator, Signature};
use serde::{Deserialize, Serialize};

use super::{LocatorV1, decode, encode};
use crate::convert::{Read, read, read_if, time};
use crate::error::Unreadable;

#[derive(Serialize, Deserialize)]
struct DeploymentV1 {
    databases: Vec<String>,
    origin: Option<OriginV1>,
    settings: BTreeMap<String, String>,
    expose_stats: bool,
    public_tls: bool,
    keeps_version: bool,
    database_version: Option<String>,
    disabled: Option<(i64, String)>,
    last_error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OriginV1 {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    database_id: Option<String>,
    database: LocatorV1,
    reference: String,
    commit: String,
}

const DEPLOYMENT: &str = "deployments.details";

fn from_settings(settings: &Settings) -> BTreeMap<String, String> {
    settings.overrides().map(|(setting, value)| (setting.key().to_owned(), value.to_owned())).collect()
}

fn to_settings(column: &'static str, overrides: BTreeMap<String, String>) -> Read<Settings> {
    let mut settings = Settings::default();
    for (key, value) in overrides {
        // The setting may come from a newer program. Its default applies.
        if let Some(setting) = Setting::by_key(&key) {
            let set = settings.set(setting, Some(value));
            set.map_err(|why| Unreadable { column, why: format!("{key}: {why}") })?;
        }
    }
    Ok(settings)
}

pub(crate) fn from_deployment(deployment: &Deployment) -> Read<String> {
    let origin = deployment.origin.as_ref().map(|origin| OriginV1 {
        database_id: origin.database_id.map(|id| id.to_string()),
        database: (&origin.database).into(),
        reference: origin.reference.clone(),
        commit: origin.commit.to_string(),
    });
    let mirror = DeploymentV1 {
        databases: deployment.databases.iter().map(ToString::to_string).collect(),
        origin,
        settings: from_settings(&deployment.settings),
        expose_stats: deployment.expose_stats,
        public_tls: deployment.public_tls,
        keeps_version: deployment.keeps_version,
        database_version: deployment.database_version.clone(),
        disabled: deployment.disabled.as_ref().map(|(at, by)| (at.as_micros(), by.to_string())),
        last_error: deployment.last_error.clone(),
    };
    encode(DEPLOYMENT, mirror)
}

/// Fills in the values stored in `details`.
pub(crate) fn to_deployment(details: &str, deployment: Deployment) -> Read<Deployment> {
    let mirror: DeploymentV1 = decode(DEPLOYMENT, details)?;
    let databases = mirror.databases.into_iter().map(|name| read(DEPLOYMENT, name)).collect::<Read<_>>()?;
    let origin = match mirror.origin {
        Some(origin) => Some(DeploymentOrigin {
            database_id: read_if(DEPLOYMENT, origin.database_id)?,
            database: DatabaseLocator {
                owner: read(DEPLOYMENT, origin.database.owner)?,
                name: read(DEPLOYMENT, origin.database.name)?,
            },
            reference: origin.reference,
            commit: read(DEPLOYMENT, origin.commit)?,
        }),
        None => None,
    };
    let disabled = match mirror.disabled {
        Some((at, by)) => Some((time(at), read(DEPLOYMENT, by)?)),
        None => None,
    };
    Ok(Deployment {
        databases,
        origin,
        settings: to_settings(DEPLOYMENT, mirror.settings)?,
        expose_stats: mirror.expose_stats,
        public_tls: mirror.public_tls,
        keeps_version: mirror.keeps_version,
        database_version: mirror.database_version,
        disabled,
        last_error: mirror.last_error,
        ..deployment
    })
}

#[derive(Serialize, Deserialize)]
struct InstanceV1 {
    size: SizeV1,
    accepted_at: i64,
    started_at: Option<i64>,
    host: Option<String>,
    restarts: u32,
    seeds: Vec<SeedV1>,
    prepared: bool,
    was_ready: bool,
    handle: Option<(u32, String)>,
    started_with: BTreeMap<String, String>,
    draining: bool,
    failed_starts: u32,
    ends: Vec<i64>,
    not_before: Option<i64>,
    crash_loop: bool,
    volume_full: bool,
    shutdown: Option<(bool, Option<i64>)>,
}

#[derive(Serialize, Deserialize)]
struct SizeV1 {
    type_id: String,
    type_name: String,
    cpus: u32,
    memory_gb: u32,
    volume_type_id: String,
    volume_type_name: String,
    volume_gb: u32,
    compute_rate: i64,
    storage_rate: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum SeedV1 {
    Empty { name: String, email: String, at: i64 },
    Hub { database: String, commit: String, branch: String },
    Backup { deployment: String, backup: String, content: CopiedV1 },
}

#[derive(Serialize, Deserialize)]
struct CopiedV1 {
    name: String,
    size_bytes: u64,
    sha256: String,
    heads: Vec<(String, String)>,
}

const INSTANCE: &str = "instances.details";

fn from_size(size: &InstanceSize) -> SizeV1 {
    SizeV1 {
        type_id: size.type_id.clone(),
        type_name: size.type_name.clone(),
        cpus: size.cpus,
        memory_gb: size.memory_gb,
        volume_type_id: size.volume_type_id.clone(),
        volume_type_name: size.volume_type_name.clone(),
        volume_gb: size.volume_gb,
        compute_rate: size.compute_rate.as_nanos(),
        storage_rate: size.storage_rate.as_nanos(),
    }
}

fn to_size(size: SizeV1) -> InstanceSize {
    InstanceSize {
        type_id: size.type_id,
        type_name: size.type_name,
        cpus: size.cpus,
        memory_gb: size.memory_gb,
        volume_type_id: size.volume_type_id,
        volume_type_name: size.volume_type_name,
        volume_gb: size.volume_gb,
        compute_rate: Usd::from_nanos(size.compute_rate),
        storage_rate: Usd::from_nanos(size.storage_rate),
    }
}

fn mirror_of(copied: &CopiedDatabase) -> CopiedV1 {
    CopiedV1 {
        name: copied.name.to_string(),
        size_bytes: copied.size_bytes,
        sha256: copied.sha256.clone(),
        heads: copied.heads.iter().map(|(branch, head)| (branch.to_string(), head.to_string())).collect(),
    }
}

fn copied_of(column: &'static str, mirror: CopiedV1) -> Read<CopiedDatabase> {
    let heads = mirror.heads.into_iter();
    Ok(CopiedDatabase {
        name: read(column, mirror.name)?,
        size_bytes: mirror.size_bytes,
        sha256: mirror.sha256,
        heads: heads.map(|(branch, head)| Ok((read(column, branch)?, read(column, head)?))).collect::<Read<_>>()?,
    })
}

fn from_seed(seed: &DatabaseSeed) -> SeedV1 {
    match seed {
        DatabaseSeed::Empty { author } => {
            SeedV1::Empty { name: author.name.clone(), email: author.email.clone(), at: author.at.as_micros() }
        }
        DatabaseSeed::Hub { database, commit, branch } => {
            SeedV1::Hub { database: database.to_string(), commit: commit.to_string(), branch: branch.to_string() }
        }
        DatabaseSeed::Backup { file, content } => SeedV1::Backup {
            deployment: file.deployment.to_string(),
            backup: file.backup.to_string(),
            content: mirror_of(content),
        },
    }
}

fn to_seed(seed: SeedV1) -> Read<DatabaseSeed> {
    Ok(match seed {
        SeedV1::Empty { name, email, at } => DatabaseSeed::Empty { author: Signature { name, email, at: time(at) } },
        SeedV1::Hub { database, commit, branch } => DatabaseSeed::Hub {
            database: read(INSTANCE, database)?,
            commit: read(INSTANCE, commit)?,
            branch: read(INSTANCE, branch)?,
        },
        SeedV1::Backup { deployment, backup, content } => {
            let content = copied_of(INSTANCE, content)?;
            let file = BackupFile {
                deployment: read(INSTANCE, deployment)?,
                backup: read(INSTANCE, backup)?,
                database: content.name.clone(),
            };
            DatabaseSeed::Backup { file, content }
        }
    })
}

pub(crate) fn from_instance(instance: &Instance) -> Read<String> {
    let mirror = InstanceV1 {
        size: from_size(&instance.size),
        accepted_at: instance.accepted_at.as_micros(),
        started_at: instance.started_at.map(|at| at.as_micros()),
        host: instance.host.clone(),
        restarts: instance.restarts,
        seeds: instance.seeds.iter().map(from_seed).collect(),
        prepared: instance.prepared,
        was_ready: instance.was_ready,
        handle: instance.handle.as_ref().map(|handle| (handle.process, handle.process_started.clone())),
        started_with: from_settings(&instance.started_with),
        draining: instance.draining,
        failed_starts: instance.attempts.failed,
        ends: instance.attempts.ends.iter().map(|at| at.as_micros()).collect(),
        not_before: instance.attempts.not_before.map(|at| at.as_micros()),
        crash_loop: instance.crash_loop,
        volume_full: instance.volume_full,
        shutdown: instance.shutdown.map(|left| (left.final_backup, left.not_before.map(|at| at.as_micros()))),
    };
    encode(INSTANCE, mirror)
}

/// Fills in the values stored in `details`.
pub(crate) fn to_instance(details: &str, fill: impl FnOnce(InstanceSize) -> Instance) -> Read<Instance> {
    let mirror: InstanceV1 = decode(INSTANCE, details)?;
    let instance = fill(to_size(mirror.size));
    let id = instance.id;
    Ok(Instance {
        accepted_at: time(mirror.accepted_at),
        started_at: mirror.started_at.map(time),
        host: mirror.host,
        restarts: mirror.restarts,
        seeds: mirror.seeds.into_iter().map(to_seed).collect::<Read<_>>()?,
        prepared: mirror.prepared,
        was_ready: mirror.was_ready,
        handle: mirror.handle.map(|(process, process_started)| InstanceHandle {
            instance: id,
            process,
            process_started,
        }),
        started_with: to_settings(INSTANCE, mirror.started_with)?,
        draining: mirror.draining,
        attempts: Attempts {
            failed: mirror.failed_starts,
            ends: mirror.ends.into_iter().map(time).collect(),
            not_before: mirror.not_before.map(time),
        },
        crash_loop: mirror.crash_loop,
        volume_full: mirror.volume_full,
        shutdown: mirror.shutdown.map(|(final_backup, at)| Shutdown { final_backup, not_before: at.map(time) }),
        ..instance
    })
}

const COPIED: &str = "backups.databases";

pub(crate) fn from_copied(databases: &[CopiedDatabase]) -> Read<String> {
    encode(COPIED, CopiesV1 { databases: databases.iter().map(mirror_of).collect() })
}

#[derive(Serialize, Deserialize)]
struct CopiesV1 {
    databases: Vec<CopiedV1>,
}

pub(crate) fn to_copied(text: &str) -> Read<Vec<CopiedDatabase>> {
    let mirror: CopiesV1 = decode(COPIED, text)?;
    mirror.databases.into_iter().map(|copied| copied_of(COPIED, copied)).collect()
}

const SAMPLE: &str = "samples.measured";

#[derive(Serialize, Deserialize)]
struct SampleV1 {
    /// In the order of [`Series::ALL`], to which new series are only appended.
    values: Vec<Option<f64>>,
}

pub(crate) fn from_sample(sample: &Sample) -> Read<String> {
    encode(SAMPLE, SampleV1 { values: Series::ALL.iter().map(|series| sample.get(*series)).collect() })
}

pub(crate) fn to_sample(text: &str) -> Read<Sample> {
    let mirror: SampleV1 = decode(SAMPLE, text)?;
    let mut sample = Sample::default();
    for (series, value) in Series::ALL.iter().zip(mirror.values) {
        if let Some(value) = value {
            sample.set(*series, value);
        }
    }
    Ok(sample)
}
