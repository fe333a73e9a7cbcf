//! The databases of an instance: creating them from seeds, measuring and copying them.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _};
use std::path::Path;

use branchyard_deployments::ports::{BackupFile, CopiedDatabase, DatabaseSeed, InstanceSpec, ProvisionError};
use branchyard_deployments::values::{BackupId, ServedName};
use branchyard_domain::values::DatabaseId;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::staging::Staging;
use super::{LocalProcess, unavailable};
use crate::child::databases::{self, NamedDatabase};
use crate::confined_dir::ConfinedDir;
use crate::folder::{self, InstanceFolder};
use crate::staging_engine::{StagedContent, StagingTask, engine_error};

const GIB: u64 = 1 << 30;
/// Name of the folder, in a staging folder, of a database that is not to stay there.
const ENGINE: &str = "engine";

fn io_error(context: &'static str) -> impl Fn(io::Error) -> ProvisionError {
    move |error| unavailable(context, error)
}

pub(super) fn prepare(on: &LocalProcess, spec: &InstanceSpec, seeds: &[DatabaseSeed]) -> Result<(), ProvisionError> {
    let fault = io_error("prepare the folder of an instance");
    let home = on.folder(spec);
    folder::make(home.path()).map_err(&fault)?;
    let home = home.open().map_err(&fault)?;
    if home.has(folder::DB).map_err(&fault)? {
        return Ok(());
    }
    for part in [folder::RUN, folder::LOG] {
        home.make(part).map_err(&fault)?;
    }
    let staging = on.staging(spec.deployment, spec.instance, "prepare").map_err(&fault)?;
    fill(on, spec, seeds, &staging)?;
    staging.dir().give(folder::DB, &home, folder::DB).and_then(|()| home.sync()).map_err(&fault)
}

fn fill(
    on: &LocalProcess,
    spec: &InstanceSpec,
    seeds: &[DatabaseSeed],
    staging: &Staging,
) -> Result<(), ProvisionError> {
    let db = staging.dir().make(folder::DB).map_err(io_error("prepare the folder of an instance"))?;
    let mut named = Vec::new();
    let mut size = 0;
    for (name, seed) in spec.databases.iter().zip(seeds) {
        let id = DatabaseId::from_uuid(on.ids.uuid(on.clock.now()));
        plant(on, staging, folder::DB, id, seed)?;
        size +=
            staged_file(on, &db, id).and_then(|file| file.metadata()).map_err(io_error("measure a database"))?.len();
        named.push(NamedDatabase { name: name.clone(), id });
    }
    if size > u64::from(spec.volume_gb) * GIB {
        return Err(ProvisionError::Refused(format!("{size} bytes do not fit the volume of {} GB", spec.volume_gb)));
    }
    databases::write(&db, &named).map_err(io_error("write the list of databases"))
}

/// Opens the file of a staged database. The process that created it is not trusted.
fn staged_file(on: &LocalProcess, folder: &ConfinedDir, id: DatabaseId) -> io::Result<File> {
    folder.file_at(&on.hub.place(id))
}

/// Creates a database from its seed, in the folder `into` of the staging folder.
fn plant(
    on: &LocalProcess,
    staging: &Staging,
    into: &str,
    id: DatabaseId,
    seed: &DatabaseSeed,
) -> Result<(), ProvisionError> {
    let (folder, spare) = (staging.path(into), staging.path("seed"));
    let create =
        |content: StagedContent<'_>| on.staging_engine.create(&StagingTask { folder: &folder, database: id, content });
    match seed {
        DatabaseSeed::Empty { author } => create(StagedContent::Empty { author }).map(drop),
        DatabaseSeed::Hub { database, commit, branch } => {
            let exported = on.hub.export(*database, &spare).map_err(engine_error("seed a database"));
            let planted = exported.and_then(|_| create(StagedContent::Hub { file: &spare, branch, commit }));
            tidy(&spare, planted.map(drop))
        }
        DatabaseSeed::Backup { file, content } => {
            let planted = fetch(on, file, content, &spare).and_then(|()| {
                let mut expected = content.heads.clone();
                expected.sort();
                if create(StagedContent::Copy { file: &spare })? == expected {
                    Ok(())
                } else {
                    Err(ProvisionError::Refused("the heads of the copy differ from those of the backup".into()))
                }
            });
            tidy(&spare, planted)
        }
    }
}

fn tidy(spare: &Path, outcome: Result<(), ProvisionError>) -> Result<(), ProvisionError> {
    match fs::remove_file(spare) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            outcome.and(Err(unavailable("remove a temporary file", error)))
        }
        _ => outcome,
    }
}

/// Copies a file of a backup and verifies its size and hash.
fn fetch(on: &LocalProcess, file: &BackupFile, content: &CopiedDatabase, to: &Path) -> Result<(), ProvisionError> {
    let mut source = on.blobs.open_backup(file).map_err(|error| match error.source.kind() {
        io::ErrorKind::NotFound => ProvisionError::Refused(format!("the backup of {} is missing", content.name)),
        _ => unavailable("open a backup", error),
    })?;
    let mut target = File::create_new(to).map_err(io_error("copy a backup"))?;
    let copied = io::copy(&mut source, &mut target).map_err(io_error("copy a backup"))?;
    let hash = hash(to).map_err(io_error("read a backup"))?;
    if copied != content.size_bytes || hash != content.sha256 {
        return Err(ProvisionError::Refused(format!("the backup of {} is damaged: its hash differs", content.name)));
    }
    Ok(())
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(HEXLOWER.encode(&hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

/// Creates a database as a staged file whose name is `id`.
pub(super) fn stage(
    on: &LocalProcess,
    staging: &Staging,
    id: DatabaseId,
    seed: &DatabaseSeed,
) -> Result<(), ProvisionError> {
    let fault = io_error("stage a database");
    let engine = staging.dir().make(ENGINE).map_err(&fault)?;
    plant(on, staging, ENGINE, id, seed)?;
    let copy = || {
        let mut target = staging.dir().create(&id.to_string())?;
        io::copy(&mut staged_file(on, &engine, id)?, &mut target)
    };
    copy().map(drop).map_err(&fault)
}

/// Returns the error for an instance whose databases are missing.
pub(super) fn missing(folder: &InstanceFolder) -> ProvisionError {
    ProvisionError::NoData { path: folder.db().display().to_string() }
}

/// Returns the folder of an instance's databases, and their names.
fn live(on: &LocalProcess, spec: &InstanceSpec) -> Result<(ConfinedDir, Vec<NamedDatabase>), ProvisionError> {
    let read = || -> io::Result<_> {
        let db = on.folder(spec).open()?.sub(folder::DB)?;
        let named = databases::read(&db)?;
        Ok((db, named))
    };
    read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(&on.folder(spec)),
        _ => unavailable("read the list of databases", error),
    })
}

/// Opens the file of a database. The file is then read through its descriptor, so the process of the instance cannot
/// redirect the read by changing names.
fn open_live(on: &LocalProcess, db: &ConfinedDir, named: &NamedDatabase) -> Result<File, ProvisionError> {
    db.file_at(&on.hub.place(named.id)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ProvisionError::Refused(format!("the file of {} is missing", named.name)),
        io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory => {
            ProvisionError::Refused(format!("the file of {} cannot be used: {error}", named.name))
        }
        _ => unavailable("open a database", error),
    })
}

pub(super) fn sizes(on: &LocalProcess, spec: &InstanceSpec) -> Result<Vec<u64>, ProvisionError> {
    let (db, named) = live(on, spec)?;
    let size = |name: &ServedName| match named.iter().find(|database| database.name.key() == name.key()) {
        Some(database) => {
            let found = open_live(on, &db, database)?.metadata().map_err(io_error("measure a database"))?;
            Ok(found.len())
        }
        None => Ok(0),
    };
    spec.databases.iter().map(size).collect()
}

pub(super) fn snapshot(
    on: &LocalProcess,
    spec: &InstanceSpec,
    backup: BackupId,
) -> Result<Vec<CopiedDatabase>, ProvisionError> {
    let staging =
        on.staging(spec.deployment, spec.instance, "backup").map_err(io_error("copy the databases of an instance"))?;
    let copied = copy_all(on, spec, backup, &staging);
    if copied.is_err() {
        on.blobs
            .remove_backup(spec.deployment, backup)
            .map_err(|error| unavailable("remove an unfinished backup", error))?;
    }
    copied
}

/// Limit on the total size of a backup, in volumes. A process checks its volume only from time to time, so its
/// databases may exceed the volume by what it writes between two measurements.
const MOST_VOLUMES: u64 = 2;

fn copy_all(
    on: &LocalProcess,
    spec: &InstanceSpec,
    backup: BackupId,
    staging: &Staging,
) -> Result<Vec<CopiedDatabase>, ProvisionError> {
    let (db, named) = live(on, spec)?;
    let mut room = u64::from(spec.volume_gb).saturating_mul(GIB).saturating_mul(MOST_VOLUMES);
    let mut copied = Vec::new();
    for named in named {
        let source = open_live(on, &db, &named)?;
        let NamedDatabase { name, id } = named;
        let mut copy = staging.dir().create("copy").map_err(io_error("copy a database"))?;
        let size_bytes = copy_at_most(source, &mut copy, room)?;
        room -= size_bytes;
        staging.dir().make(ENGINE).map_err(io_error("check a database"))?;
        let (folder, path) = (staging.path(ENGINE), staging.path("copy"));
        let content = StagedContent::Copy { file: &path };
        let heads = on.staging_engine.create(&StagingTask { folder: &folder, database: id, content })?;
        // The hash is computed from exactly the bytes that are stored.
        copy.rewind().map_err(io_error("read the copy"))?;
        let mut bytes = Hashed { from: copy, hasher: Sha256::new() };
        let file = BackupFile { deployment: spec.deployment, backup, database: name.clone() };
        on.blobs.put_backup(&file, &mut bytes).map_err(|error| unavailable("keep a backup", error))?;
        let sha256 = HEXLOWER.encode(&bytes.hasher.finalize());
        for part in [ENGINE, "copy"] {
            staging.dir().remove(part).map_err(io_error("remove the copy"))?;
        }
        copied.push(CopiedDatabase { name, size_bytes, sha256, heads });
    }
    Ok(copied)
}

/// Copies the present content of a file. Only data appended during the copy may be missing: see `copy_file` of the
/// engine.
fn copy_at_most(source: File, to: &mut File, room: u64) -> Result<u64, ProvisionError> {
    let fault = io_error("copy a database");
    let too_large = || ProvisionError::Refused("the databases are larger than the volume of the instance".into());
    let length = source.metadata().map_err(&fault)?.len();
    if length > room {
        return Err(too_large());
    }
    let copied = io::copy(&mut source.take(room.saturating_add(1)), to).map_err(&fault)?;
    if copied > room { Err(too_large()) } else { Ok(copied) }
}

/// A reader that hashes the bytes it reads.
struct Hashed {
    from: File,
    hasher: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
