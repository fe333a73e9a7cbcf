//! The `restore` command. The whole backup is verified before anything is written. After the restore, the stores are checked as
//! by `doctor`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, bail};
use branchyard_domain::values::DatabaseId;

use super::{deployment_backups, doctor, print};
use crate::compose::{Environment, Pending, Stores};
use crate::config::Config;
use crate::data_dir::{DataDir, write_durably};
use crate::manifest::{DATABASES, METADATA, Manifest, NODE, SECRET};

pub(super) fn run(config: &Config, from: &Path) -> anyhow::Result<()> {
    let manifest = Manifest::verified(from)?;
    let _lock = DataDir::open(&config.data_dir)?.lock()?;
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Migrate)?;
    if !stores.engine.port().list()?.is_empty() {
        bail!("the data folder {} contains databases; restore into a new data folder", config.data_dir.display());
    }
    let mut count = 0;
    for id in manifest.databases() {
        let id = DatabaseId::parse(id).with_context(|| format!("{id} is not the id of a database"))?;
        let file = from.join(DATABASES).join(format!("{id}.db"));
        stores.engine.restore(id, &file).with_context(|| format!("cannot restore database {id}"))?;
        count += 1;
    }
    if from.join(SECRET).exists() {
        write_durably(&stores.dir.secret_file(), &fs::read(from.join(SECRET))?)?;
    }
    if from.join(NODE).exists() {
        write_durably(&stores.dir.node_file(), &fs::read(from.join(NODE))?)?;
    }
    for path in manifest.deployment_backups() {
        deployment_backups::load(from, path, &stores)?;
    }
    // The metadata is loaded last: until then the metadata store is empty, and a failed restore can be started again in another
    // folder.
    let mut dump = BufReader::new(File::open(from.join(METADATA))?);
    stores.metadata.load(&mut dump).context("cannot load the metadata")?;
    stores.adopt(&world)?;
    let stopped = stores.deployments.supervisor().restored().context("cannot record that deployments are stopped")?;
    if stopped > 0 {
        print(format!("stopped {stopped} deployments that were running; start them again from their own backups"))?;
    }
    let findings = doctor::examine(&stores)?;
    for finding in &findings {
        print(finding)?;
    }
    if !findings.is_empty() {
        bail!("restored {count} databases, with {} findings", findings.len());
    }
    print(format!("restored {count} databases; everything is in order"))
}
