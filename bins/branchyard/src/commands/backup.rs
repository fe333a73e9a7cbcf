//! The `backup` command.
//!
//! The metadata is copied first, then the database files. Each file in the backup therefore holds at least the commits that the
//! metadata names. Commits made later may be in a file, but no ref names them.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;

use super::{deployment_backups, print};
use crate::compose::{Environment, Pending, Stores};
use crate::config::Config;
use crate::manifest::{DATABASES, METADATA, Manifest, NODE, SECRET};

/// Attempts at a consistent backup. An attempt fails if a database is deleted while files are copied.
const ATTEMPTS: usize = 5;

pub(super) fn run(config: &Config, to: &Path) -> anyhow::Result<()> {
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Refuse)?;
    stores.bind(&world)?;
    let databases = to.join(DATABASES);
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    if fs::read_dir(to)?.next().is_some() {
        bail!("{} is not empty; name an empty or new folder", to.display());
    }
    for attempt in 1.. {
        fs::create_dir(&databases).with_context(|| format!("cannot create {}", databases.display()))?;
        match copy(&stores, to) {
            Ok(manifest) => {
                manifest.write(to)?;
                let count = manifest.databases().count();
                return print(format!("{count} databases, {} bytes in {}", manifest.size(), to.display()));
            }
            Err(BackupFailed::Deleted(id)) if attempt < ATTEMPTS => {
                tracing::info!(database = %id, "a database was deleted during the backup; starting again");
                fs::remove_dir_all(&databases)?;
                deployment_backups::discard(to)?;
            }
            Err(BackupFailed::Deleted(id)) => {
                bail!("the file of database {id} is missing; run `branchyard doctor` for details")
            }
            Err(BackupFailed::Failed(error)) => return Err(error),
        }
    }
    Ok(())
}

enum BackupFailed {
    Deleted(DatabaseId),
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for BackupFailed {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn copy(stores: &Stores, to: &Path) -> Result<Manifest, BackupFailed> {
    let mut manifest = Manifest::new();
    let mut dump = BufWriter::new(File::create(to.join(METADATA))?);
    let live = stores.metadata.dump(&mut dump)?;
    dump.flush()?;
    dump.get_ref().sync_all()?;
    manifest.add(to, METADATA)?;
    for id in live {
        let path = format!("{DATABASES}/{id}.db");
        match stores.engine.back_up(id, &to.join(&path)) {
            Err(EngineError::Damaged(_)) => return Err(BackupFailed::Deleted(id)),
            other => other?,
        };
        manifest.add(to, &path)?;
    }
    for path in deployment_backups::save(stores, to)? {
        manifest.add(to, &path)?;
    }
    // Without the node id, the restored deployments would belong to another server.
    fs::copy(stores.dir.node_file(), to.join(NODE))?;
    manifest.add(to, NODE)?;
    // Without the secret, issued page tokens and upload URLs would stop working, and the secrets of webhooks could not be
    // decrypted.
    if stores.dir.secret_file().exists() {
        fs::copy(stores.dir.secret_file(), to.join(SECRET))?;
        manifest.add(to, SECRET)?;
    }
    Ok(manifest)
}
