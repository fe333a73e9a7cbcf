//! The part of `backup` and `restore` that handles deployments: the stored backups of each deployment are copied. Live volumes
//! are left out because other processes write to them.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, bail};
use branchyard_deployments::ports::{BackupFile, DeploymentStore as _};
use branchyard_deployments::values::{BackupId, DeploymentId, ServedName};
use data_encoding::HEXLOWER;

use crate::compose::Stores;
use crate::manifest::BACKUPS;
use crate::sealed_files::Recipients;

/// Copies the files of all backups that the metadata lists and returns their paths relative to `to`. Files that are deleted in
/// the meantime are skipped.
pub(super) fn save(stores: &Stores, to: &Path, recipients: &Recipients) -> anyhow::Result<Vec<String>> {
    let mut saved = Vec::new();
    for file in stores.backup_files.list_backups()? {
        let BackupFile { deployment, backup, database } = &file;
        if stores.metadata.read_deployments()?.backups().get(*deployment, *backup)?.is_none() {
            continue;
        }
        let mut source = match stores.backup_files.open_backup(&file) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let name = HEXLOWER.encode(database.key().as_bytes());
        let path = recipients.path(&format!("{BACKUPS}/{deployment}/{backup}/{name}"));
        recipients.create(&to.join(&path), |mut copy| io::copy(&mut source, &mut copy).map(drop))?;
        saved.push(path);
    }
    Ok(saved)
}

/// Removes the files that a failed attempt copied.
pub(super) fn discard(to: &Path) -> io::Result<()> {
    match fs::remove_dir_all(to.join(BACKUPS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Restores one file of a backup. `path` is a plain path from a manifest; paths that do not have the form of a backup file are
/// rejected.
pub(super) fn load(path: &str, from: &mut dyn Read, stores: &Stores) -> anyhow::Result<()> {
    let Some(file) = backup_file(path) else { bail!("{path} is not a file of a backup") };
    stores.backup_files.put_backup(&file, from).with_context(|| format!("cannot restore {path}"))?;
    Ok(())
}

fn backup_file(path: &str) -> Option<BackupFile> {
    let parts: Vec<&str> = path.split('/').collect();
    let &[BACKUPS, deployment, backup, name] = parts.as_slice() else { return None };
    let database = String::from_utf8(HEXLOWER.decode(name.as_bytes()).ok()?).ok()?;
    Some(BackupFile {
        deployment: DeploymentId::parse(deployment).ok()?,
        backup: BackupId::parse(backup).ok()?,
        database: ServedName::parse(&database).ok()?,
    })
}
