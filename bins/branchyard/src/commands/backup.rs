//! The `backup` command.
//!
//! The metadata is copied first, then the database files. Each file in the backup therefore holds at least the commits that the
//! metadata names. Commits made later may be in a file, but no ref names them.
//!
//! Every file goes straight from its source into the backup, encrypted on its way if that is wanted: nothing plain is written.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context as _, bail};
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;

use super::{deployment_backups, print, print_note};
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;
use crate::manifest::{DATABASES, METADATA, Manifest, NODE, SEALED_RING, SECRET};
use crate::master_key;
use crate::ring_store::RingStore;
use crate::sealed_files::Recipients;

/// Attempts at a consistent backup. An attempt fails if a database is deleted while files are copied.
const ATTEMPTS: usize = 5;

/// How a backup is made.
pub(super) struct BackupOptions {
    /// Whether it holds the key ring.
    pub(super) with_keys: bool,
    /// The recipients of an encrypted backup.
    pub(super) recipients: Recipients,
}

pub(super) fn run(config: &Config, to: &Path, options: &BackupOptions) -> anyhow::Result<()> {
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Refuse, Role::Command)?;
    stores.bind(&world)?;
    let databases = to.join(DATABASES);
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    if fs::read_dir(to)?.next().is_some() {
        bail!("{} is not empty; name an empty or new folder", to.display());
    }
    for attempt in 1.. {
        fs::create_dir(&databases).with_context(|| format!("cannot create {}", databases.display()))?;
        match copy(&stores, to, options) {
            Ok(manifest) => {
                manifest.write(to)?;
                let count = manifest.databases().count();
                print_note(&keys_note(options, stores.keys.ring()))?;
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

/// Returns what the operator should know of the keys of this backup.
fn keys_note(options: &BackupOptions, ring: &RingStore) -> String {
    let text = match (options.with_keys, options.recipients.encrypt(), ring) {
        (true, false, _) => {
            "warning: the backup holds the key ring: a reader of the backup can open the secrets of webhooks"
        }
        (true, true, _) => "the backup holds the key ring: the recipients can open the secrets of webhooks",
        (false, _, RingStore::Folder(_)) => {
            "the backup leaves out the key ring (server.key); keep a copy of it elsewhere, or use --with-keys"
        }
        (false, _, RingStore::Metadata(shared)) => {
            return format!(
                "the key ring in the backup is sealed under the master key {}; keep a copy of server_key_file elsewhere, or use --with-keys",
                shared.master().id()
            );
        }
    };
    text.to_owned()
}

fn copy(stores: &Stores, to: &Path, options: &BackupOptions) -> Result<Manifest, BackupFailed> {
    let recipients = &options.recipients;
    let mut manifest = Manifest::new(recipients.encrypt());
    let path = recipients.path(METADATA);
    // An earlier attempt may have written one.
    remove_if_present(&to.join(&path))?;
    let mut live = Vec::new();
    recipients.create::<anyhow::Error>(&to.join(&path), |dump| {
        live = stores.metadata.dump(dump)?;
        Ok(())
    })?;
    manifest.add(to, &path)?;
    for id in live {
        let source = match stores.bring_file(id) {
            Err(EngineError::Damaged(_)) => return Err(BackupFailed::Deleted(id)),
            brought => brought?,
        };
        // The file only grows at its end, and an incomplete end is cut off when the copy is opened. A purge replaces the file
        // and leaves the one that is open here.
        let mut source = match File::open(source) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(BackupFailed::Deleted(id)),
            opened => opened?,
        };
        let path = recipients.path(&format!("{DATABASES}/{id}.db"));
        recipients.create(&to.join(&path), |mut copy| io::copy(&mut source, &mut copy).map(drop))?;
        manifest.add(to, &path)?;
        stores.drop_copies()?;
    }
    for path in deployment_backups::save(stores, to, recipients)? {
        manifest.add(to, &path)?;
    }
    // Without the node id, the restored deployments would belong to another server.
    let mut small = vec![(NODE, stores.deployments.hosting().node.clone().into_bytes())];
    match (options.with_keys, stores.keys.ring()) {
        (true, RingStore::Folder(dir)) => small.push((SECRET, fs::read(dir.key_ring_file())?)),
        (true, ring @ RingStore::Metadata(_)) => small.push((SECRET, ring.read()?.to_text().into_bytes())),
        (false, RingStore::Folder(_)) => {}
        // Sealed, it opens nothing by itself, and no other copy outlives the metadata store.
        (false, RingStore::Metadata(shared)) => {
            small.push((SEALED_RING, master_key::to_text(&shared.sealed()?).into_bytes()))
        }
    }
    for (plain, bytes) in small {
        let path = recipients.path(plain);
        remove_if_present(&to.join(&path))?;
        recipients.create(&to.join(&path), |copy| copy.write_all(&bytes))?;
        manifest.add(to, &path)?;
    }
    Ok(manifest)
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
