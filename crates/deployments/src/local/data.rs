//! Databases of an instance before and while it runs: seeded, measured, copied.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use branchyard_domain::ports::{
    BackupFile, CopiedDatabase, DatabaseSeed, EngineError, InstanceSpec, ProvisionError, SessionEngine,
};
use branchyard_domain::values::{BackupId, CommitHash, DatabaseId, RefName, ServedName};
use sha2::{Digest as _, Sha256};

use super::{LocalProcess, unavailable};
use crate::child::databases::{self, Named};
use crate::folder;
use crate::spec::hex;

const GIB: u64 = 1 << 30;

fn engine_error(context: &str) -> impl Fn(EngineError) -> ProvisionError {
    move |error| match error {
        EngineError::NoSuchCommit(_) | EngineError::Damaged(_) => ProvisionError::Refused(error.to_string()),
        error => unavailable(context, error),
    }
}

fn io_error(context: &'static str) -> impl Fn(io::Error) -> ProvisionError {
    move |error| unavailable(context, error)
}

pub(super) fn prepare(on: &LocalProcess, spec: &InstanceSpec, seeds: &[DatabaseSeed]) -> Result<(), ProvisionError> {
    let home = on.folder(spec);
    if home.db().exists() {
        return Ok(());
    }
    let fault = io_error("prepare the folder of an instance");
    for part in [home.run(), home.log()] {
        folder::make(&part).map_err(&fault)?;
    }
    let new = home.path().join("db.new");
    folder::remove(&new).map_err(&fault)?;
    folder::make(&new).map_err(&fault)?;
    let made = fill(on, spec, seeds, &new).and_then(|()| {
        fs::rename(&new, home.db()).map_err(&fault)?;
        File::open(home.path()).and_then(|parent| parent.sync_all()).map_err(&fault)
    });
    if made.is_err() {
        folder::remove(&new).map_err(&fault)?;
    }
    made
}

fn fill(on: &LocalProcess, spec: &InstanceSpec, seeds: &[DatabaseSeed], new: &Path) -> Result<(), ProvisionError> {
    let engine = (on.open_engine)(new.to_owned()).map_err(engine_error("open the engine"))?;
    let mut named = Vec::new();
    let mut size = 0;
    for (name, seed) in spec.databases.iter().zip(seeds) {
        let id = DatabaseId::from_uuid(on.ids.uuid(on.clock.now()));
        plant(on, &*engine, &new.join("seed"), id, seed)?;
        size += engine.served_size_bytes(id).map_err(engine_error("measure a database"))?;
        named.push(Named { name: name.clone(), id });
    }
    if size > u64::from(spec.volume_gb) * GIB {
        return Err(ProvisionError::Refused(format!("{size} bytes do not fit the volume of {} GB", spec.volume_gb)));
    }
    databases::write(new, &named).map_err(io_error("write the list of databases"))
}

/// Makes one database from its seed. `spare` is a path nobody uses; nothing is left there.
fn plant(
    on: &LocalProcess,
    engine: &dyn SessionEngine,
    spare: &Path,
    id: DatabaseId,
    seed: &DatabaseSeed,
) -> Result<(), ProvisionError> {
    let fault = engine_error("seed a database");
    match seed {
        DatabaseSeed::Empty { author } => engine.create_served(id, author, "Create database").map_err(fault),
        DatabaseSeed::Hub { database, commit, branch } => {
            let planted = on
                .hub
                .export(*database, spare)
                .and_then(|_| engine.seed(id, spare, branch.as_str(), commit))
                .map_err(fault);
            tidy(spare, planted)
        }
        DatabaseSeed::Backup { file, content } => {
            let planted = fetch(on, file, content, spare).and_then(|()| {
                engine.put_back(id, spare).map_err(&fault)?;
                prove(engine, id, &content.heads)
            });
            tidy(spare, planted)
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

/// Copies a file of a backup, and compares its hash.
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
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

fn heads(engine: &dyn SessionEngine, id: DatabaseId) -> Result<Vec<(RefName, CommitHash)>, ProvisionError> {
    let heads = engine.heads(id).map_err(engine_error("list the branches"))?;
    let mut named = Vec::new();
    for head in heads {
        // The engine's rules for names are stricter than ours.
        let name = RefName::parse(&head.branch).map_err(|error| ProvisionError::Refused(error.to_string()))?;
        named.push((name, head.commit));
    }
    named.sort();
    Ok(named)
}

/// Looks through a database and compares its heads.
fn prove(engine: &dyn SessionEngine, id: DatabaseId, expected: &[(RefName, CommitHash)]) -> Result<(), ProvisionError> {
    let problems = engine.check(id).map_err(engine_error("check a database"))?;
    if let Some(problem) = problems.first() {
        return Err(ProvisionError::Refused(format!("the copy is damaged: {problem}")));
    }
    let mut expected = expected.to_vec();
    expected.sort();
    if heads(engine, id)? == expected {
        Ok(())
    } else {
        Err(ProvisionError::Refused("the heads of the copy differ from those of the backup".into()))
    }
}

/// Makes a database on the side, as a file of that name in the folder.
pub(super) fn stage(
    on: &LocalProcess,
    folder: &Path,
    id: DatabaseId,
    seed: &DatabaseSeed,
) -> Result<(), ProvisionError> {
    let fault = io_error("prepare a database");
    folder::remove(folder).map_err(&fault)?;
    folder::make(folder).map_err(&fault)?;
    let engine = (on.open_engine)(folder.join("engine")).map_err(engine_error("open the engine"))?;
    plant(on, &*engine, &folder.join("seed"), id, seed)?;
    engine.copy_out(id, &folder.join(id.to_string())).map(drop).map_err(engine_error("copy a database"))
}

/// The databases of an instance and the engine on them, for what opens no database.
fn live(on: &LocalProcess, spec: &InstanceSpec) -> Result<(Vec<Named>, Arc<dyn SessionEngine>), ProvisionError> {
    let db = on.folder(spec).db();
    let named = databases::read(&db).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ProvisionError::Refused("the instance has no data".into()),
        _ => unavailable("read the list of databases", error),
    })?;
    let engine = (on.open_engine)(db).map_err(engine_error("open the engine"))?;
    Ok((named, engine))
}

pub(super) fn sizes(on: &LocalProcess, spec: &InstanceSpec) -> Result<Vec<u64>, ProvisionError> {
    let (named, engine) = live(on, spec)?;
    let size = |name: &ServedName| match named.iter().find(|database| database.name.key() == name.key()) {
        Some(database) => engine.served_size_bytes(database.id).map_err(engine_error("measure a database")),
        None => Ok(0),
    };
    spec.databases.iter().map(size).collect()
}

pub(super) fn snapshot(
    on: &LocalProcess,
    spec: &InstanceSpec,
    backup: BackupId,
) -> Result<Vec<CopiedDatabase>, ProvisionError> {
    let staging = on.folder(spec).path().join("staging");
    let fault = io_error("copy the databases of an instance");
    folder::remove(&staging).map_err(&fault)?;
    folder::make(&staging).map_err(&fault)?;
    let copied = copy_all(on, spec, backup, &staging);
    if copied.is_err() {
        on.blobs
            .remove_backup(spec.deployment, backup)
            .map_err(|error| unavailable("remove an unfinished backup", error))?;
    }
    folder::remove(&staging).map_err(&fault)?;
    copied
}

fn copy_all(
    on: &LocalProcess,
    spec: &InstanceSpec,
    backup: BackupId,
    staging: &Path,
) -> Result<Vec<CopiedDatabase>, ProvisionError> {
    let (named, live) = live(on, spec)?;
    let checking = (on.open_engine)(staging.join("engine")).map_err(engine_error("open the engine"))?;
    let mut copied = Vec::new();
    for Named { name, id } in named {
        let path = staging.join("copy");
        let size_bytes = live.copy_out(id, &path).map_err(engine_error("copy a database"))?;
        checking.put_back(id, &path).map_err(engine_error("open the copy"))?;
        let heads = heads(&*checking, id)?;
        prove(&*checking, id, &heads)?;
        let sha256 = hash(&path).map_err(io_error("read the copy"))?;
        let file = BackupFile { deployment: spec.deployment, backup, database: name.clone() };
        let mut bytes = File::open(&path).map_err(io_error("read the copy"))?;
        on.blobs.put_backup(&file, &mut bytes).map_err(|error| unavailable("keep a backup", error))?;
        checking.drop_served(id).map_err(engine_error("remove the copy"))?;
        tidy(&path, Ok(()))?;
        copied.push(CopiedDatabase { name, size_bytes, sha256, heads });
    }
    Ok(copied)
}
