//! The part of `backup` and `restore` that handles deployments: the stored backups of each deployment are copied. Live volumes
//! are left out because other processes write to them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, bail};
use branchyard_deployments::ports::DeploymentStore as _;
use branchyard_deployments::values::{BackupId, DeploymentId};

use crate::compose::Stores;
use crate::manifest::BACKUPS;
use crate::sealed_files::Recipients;

/// Copies the files of all backups that the metadata lists and returns their paths relative to `to`. Files that are deleted in
/// the meantime are skipped.
pub(super) fn save(stores: &Stores, to: &Path, recipients: &Recipients) -> anyhow::Result<Vec<String>> {
    let mut saved = Vec::new();
    for deployment in names(&stores.dir.backups())? {
        let Ok(id) = DeploymentId::parse(&deployment) else { continue };
        let folder = stores.dir.backups().join(&deployment);
        for backup in names(&folder)? {
            let Ok(backup_id) = BackupId::parse(&backup) else { continue };
            if stores.metadata.read_deployments()?.backups().get(id, backup_id)?.is_none() {
                continue;
            }
            for file in names(&folder.join(&backup))? {
                let path = recipients.path(&format!("{BACKUPS}/{deployment}/{backup}/{file}"));
                if file.starts_with('.') {
                    continue;
                }
                let mut source = match File::open(folder.join(&backup).join(&file)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    opened => opened?,
                };
                recipients.create(&to.join(&path), |mut copy| io::copy(&mut source, &mut copy).map(drop))?;
                saved.push(path);
            }
        }
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
    let parts: Vec<&str> = path.split('/').collect();
    let &[BACKUPS, deployment, backup, file] = parts.as_slice() else { bail!("{path} is not a file of a backup") };
    let is_plain = !file.is_empty() && file.bytes().all(|byte| byte.is_ascii_hexdigit());
    if DeploymentId::parse(deployment).is_err() || BackupId::parse(backup).is_err() || !is_plain {
        bail!("{path} is not a file of a backup");
    }
    let folder = stores.dir.backups().join(deployment).join(backup);
    let copied = fs::create_dir_all(&folder).and_then(|()| {
        let mut to = File::create(folder.join(file))?;
        io::copy(from, &mut to)?;
        to.sync_all()
    });
    copied.with_context(|| format!("cannot restore {path}"))
}

/// Returns the UTF-8 names in a folder, sorted. The list is empty if the folder does not exist.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().into_string().ok()))
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    names.sort();
    Ok(names)
}
