//! The `restore` command. The whole backup is verified before anything is written. After the restore, the stores are checked as
//! by `doctor`.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use branchyard_domain::ports::Metadata as _;
use branchyard_domain::values::DatabaseId;

use super::{deployment_backups, doctor, print};
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;
use crate::data_dir::{DataDir, write_durably};
use crate::key_ring::KeyRing;
use crate::manifest::{DATABASES, METADATA, Manifest, NODE, SEALED_RING, SECRET};
use crate::master_key::{self, MasterKey};
use crate::ring_store::RingStore;
use crate::sealed_files::Identities;

pub(super) fn run(config: &Config, from: &Path, identity: Option<&Path>) -> anyhow::Result<()> {
    let identities = identity.map(Identities::read).transpose()?;
    let identities = identities.as_ref();
    let manifest = Manifest::verified(from, identities)?;
    let small = |plain: &str| -> anyhow::Result<Option<Vec<u8>>> {
        let Some(mut file) = manifest.open(from, plain, identities)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {plain} of the backup"))?;
        Ok(Some(bytes))
    };
    let ring = match (small(SECRET)?, small(SEALED_RING)?) {
        (Some(plain), _) => {
            let ring = KeyRing::parse(&plain).with_context(|| format!("{SECRET} of the backup is not a key ring"))?;
            Ok((plain, ring))
        }
        (None, Some(sealed)) => open_sealed(&sealed, config.master_key()?.as_ref())?,
        (None, None) => Err("the backup leaves out the key ring".to_owned()),
    };
    let node = small(NODE)?;
    if let (Some(id), Some(node)) = (&config.node_id, &node)
        && id.as_bytes() != node.trim_ascii()
    {
        let node = String::from_utf8_lossy(node.trim_ascii());
        bail!(
            "the deployments of the backup belong to the server with node_id \"{node}\"; set node_id to that, or remove it"
        );
    }
    let dir = DataDir::open(&config.data_dir)?;
    let _lock = dir.lock()?;
    let had_file = dir.key_ring_file().exists();
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Migrate, Role::Node)?;
    if !stores.engine.port().is_empty()? {
        bail!("the data folder {} contains databases; restore into a new data folder", config.data_dir.display());
    }
    // The metadata is loaded last. Until then, files of databases in use, which the metadata store has, would be replaced.
    if !stores.metadata.read()?.databases().ids(None, 1)?.is_empty() {
        bail!("the metadata store contains databases; restore into an empty one");
    }
    let mut count = 0;
    for id in manifest.databases() {
        let id = DatabaseId::parse(id).with_context(|| format!("{id} is not the id of a database"))?;
        let path = format!("{DATABASES}/{id}.db");
        let restored = match manifest.open(from, &path, identities)? {
            // The engine copies files.
            Some(mut file) if manifest.is_encrypted() => {
                let copy = PlainCopy(config.data_dir.join("restored.tmp"));
                io::copy(&mut file, &mut File::create(&copy.0)?)?;
                stores.restore_file(id, &copy.0)
            }
            _ => stores.restore_file(id, &from.join(&path)),
        };
        restored.with_context(|| format!("cannot restore database {id}"))?;
        count += 1;
    }
    if let (Ok((plain, _)), RingStore::Folder(dir)) = (&ring, stores.keys.ring()) {
        write_durably(&dir.key_ring_file(), plain)?;
    }
    if let Some(node) = node {
        write_durably(&stores.dir.node_file(), &node)?;
    }
    for path in manifest.deployment_backups() {
        if let Some(mut file) = manifest.open(from, path, identities)? {
            deployment_backups::load(path, &mut file, &stores)?;
        }
    }
    // The metadata is loaded last: until then the metadata store is empty, and a failed restore can be started again in another
    // folder.
    let mut dump = manifest.open(from, METADATA, identities)?.context("the backup holds no metadata")?;
    let loaded = match (&ring, stores.keys.ring().shared()) {
        // Not before: the metadata store may turn out to be that of servers in use.
        (Ok((_, ring)), Some(shared)) => {
            let ring = shared.master().seal(ring, world.ids.as_ref());
            stores.metadata.load_with_key_ring(&mut dump, &ring, world.clock.now())
        }
        _ => stores.metadata.load(&mut dump),
    };
    loaded.context("cannot load the metadata")?;
    stores.adopt(&world)?;
    let stopped = stores.deployments.supervisor().restored().context("cannot record that deployments are stopped")?;
    if stopped > 0 {
        print(format!("stopped {stopped} deployments that were running; start them again from their own backups"))?;
    }
    if let Err(reason) = ring {
        print_what_ended(&stores, &reason, had_file)?;
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

/// Opens the sealed key ring of a backup, and returns it with the contents of its file. Returns the reason if it stays closed: the
/// server to restore may have a master key of its own.
fn open_sealed(text: &[u8], master: Option<&MasterKey>) -> anyhow::Result<Result<(Vec<u8>, KeyRing), String>> {
    let sealed = master_key::parse(text).with_context(|| format!("{SEALED_RING} of the backup is not a key ring"))?;
    let Some(master) = master.filter(|master| master.id() == sealed.master_id) else {
        return Ok(Err(format!(
            "the key ring in the backup is sealed under the master key {}, which server_key_file does not hold",
            sealed.master_id
        )));
    };
    let ring = master.open(&sealed).with_context(|| format!("cannot open {SEALED_RING} of the backup"))?;
    Ok(Ok((ring.to_text().into_bytes(), ring)))
}

/// Prints what does not work any more because the key ring was not restored.
fn print_what_ended(stores: &Stores, reason: &str, had_file: bool) -> anyhow::Result<()> {
    let unreadable = doctor::unreadable_secrets(stores)?;
    match (stores.keys.ring(), had_file) {
        (RingStore::Folder(_), true) => print(format!("{reason}; the one that is in the data folder stays"))?,
        (RingStore::Metadata(_), _) => print(format!("{reason}; the one that is in the metadata store stays"))?,
        (RingStore::Folder(_), false) => {
            print(format!("{reason}; the data folder has a new one"))?;
            print(
                "passwords, API tokens and sessions stay valid; page tokens, forms and part URLs that were made before have \
                 ended, so reload open pages",
            )?;
        }
    }
    unreadable.into_iter().try_for_each(print)
}

/// The decrypted copy of a database file, on its way into the data folder.
struct PlainCopy(std::path::PathBuf);

impl Drop for PlainCopy {
    fn drop(&mut self) {
        // Fails if the file was not created, which leaves nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}
