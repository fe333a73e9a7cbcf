//! Wiring: builds a [`Hub`] and its stores from a configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use branchyard_deployments::ports::{BackupFiles, Provisioner};
use branchyard_deployments::{DeploymentPorts, Deployments, HostingSettings};
use branchyard_domain::ports::{Blobs, Clock, DatabaseStore, Engine, EngineError, Ids};
use branchyard_domain::values::{DatabaseId, Timestamp};
use branchyard_domain::{Hub, WebhookPorts};
use branchyard_engine_doltlite::{EngineOptions, Long, limit_process_memory};
use branchyard_executor::{SlowQueryLimits, SlowQueryScheduler};
pub use branchyard_hooks::Names;
use branchyard_hooks::{HttpSender, JsonPayloads, SystemNames};
use branchyard_import_formats::FileFormats;
use branchyard_provisioner_local::LocalSettings;
use branchyard_remote_client::HttpRemoteSources;
use branchyard_runtime::{SystemClock, SystemIds};
use branchyard_sealed_store::DataKeyRing;
use branchyard_storage::{FolderBlobs, FolderPushedChunks, ObjectBlobs, Store};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::durable_home::{DurableHome, HomePorts, PrivateCopies};
use crate::live_keys::LiveKeys;
use crate::ring_store::RingStore;
use crate::scheduler_bridge::SchedulerBridge;
use crate::sql_engine::SqlEngine;
use crate::{database_store, deployments};

/// The external dependencies of a server, which tests replace: clock, randomness, name resolution, and provisioner.
#[derive(Clone)]
pub struct Environment {
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of ids and random bytes.
    pub ids: Arc<dyn Ids>,
    /// Path of the executable that serves deployments and runs users' SQL. By default, this executable.
    pub program: PathBuf,
    /// Resolver for the host names of webhooks.
    pub names: Arc<dyn Names>,
    /// Factory of the provisioner. If `None`, instances run as local processes.
    pub provisioner: Option<MakeProvisioner>,
}

/// Factory of a provisioner. The argument is the store of backup files.
pub type MakeProvisioner = Arc<dyn Fn(Arc<dyn BackupFiles>) -> Arc<dyn Provisioner> + Send + Sync>;

impl Default for Environment {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(SystemIds),
            program: std::env::current_exe().unwrap_or_default(),
            names: Arc::new(SystemNames),
            provisioner: None,
        }
    }
}

/// Advances the clock to the newest record if the machine's clock is behind, for example because the clock was set back. A record
/// that is more than [`LEAD_SECONDS`] ahead is not followed.
fn reach(clock: &dyn Clock, latest: Timestamp) {
    let now = clock.now();
    let ahead_seconds = latest.as_micros().saturating_sub(now.as_micros()) / 1_000_000;
    if latest > now.plus_seconds(LEAD_SECONDS) {
        tracing::warn!(
            ahead_seconds,
            "stored times are more than a day ahead of this machine's clock; using the clock"
        );
        return;
    }
    if ahead_seconds >= LEAD_NOTED_SECONDS {
        tracing::warn!(
            ahead_seconds,
            "this machine's clock is behind the stored times; continuing from the newest stored time"
        );
    }
    clock.reach(latest);
}

/// Maximum lead, in seconds, of the newest record over the machine's clock at which the record is trusted. Beyond this, the clock
/// was wrong when the record was written.
const LEAD_SECONDS: i64 = 86_400;
/// Lead in seconds from which a warning is logged. The clocks of two machines that share a metadata store differ by less.
const LEAD_NOTED_SECONDS: i64 = 10;

/// The opened stores of a data folder, and the hub and deployments built on them.
pub struct Stores {
    /// Layout of the data folder.
    pub dir: DataDir,
    /// The keys that seal secrets and sign tokens.
    pub keys: Arc<LiveKeys>,
    /// The metadata store, which also runs migrations.
    pub metadata: Arc<Store>,
    /// The store of databases. If `None`, databases are kept in the data folder.
    pub store: Option<Arc<dyn DatabaseStore>>,
    /// The keys under which its objects are sealed. If `None`, they are stored as they are.
    pub data_keys: Option<Arc<DataKeyRing>>,
    /// The parts of uploads.
    pub blobs: Arc<dyn Blobs>,
    /// The files of backups of deployments.
    pub backup_files: Arc<dyn BackupFiles>,
    /// The chunks of pushes.
    pub pushed_chunks: Arc<FolderPushedChunks>,
    /// The SQL engine and its files.
    pub engine: SqlEngine,
    /// The engine over the store of databases. If `None`, the files of [`Self::engine`] are the databases.
    pub home: Option<DurableHome>,
    /// The databases: the engine over the store, or the SQL engine.
    pub databases: Arc<dyn Engine>,
    #[expect(dead_code, reason = "held until the engine is no longer used")]
    copies: Option<PrivateCopies>,
    /// The use cases over these stores.
    pub hub: Hub,
    /// The deployment use cases.
    pub deployments: Deployments,
}

/// What a process does with databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It writes them, as the only process that uses the data folder.
    Node,
    /// It looks at them, perhaps beside a server.
    Command,
    /// It writes some of them for a moment, perhaps beside a server, as a node with this id. Only if they are in a store.
    ShortNode(&'static str),
}

/// Policy for pending migrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Apply them.
    Migrate,
    /// Fail if there are any.
    Refuse,
}

impl Stores {
    /// Opens all stores that the configuration names.
    ///
    /// # Errors
    /// Returns an error that names the store or setting that failed, and the cause.
    pub fn open(config: &Config, world: &Environment, pending: Pending, role: Role) -> anyhow::Result<Self> {
        let master = config.master_key()?;
        let dir = DataDir::open(&config.data_dir)?;
        database_store::check_metadata_url(config, &dir)?;
        refuse_newer(config, &dir)?;
        // The engine is opened before the metadata store, because the memory of statements can be limited only before SQLite is
        // first used.
        let lane = SlowQueryScheduler::new(SlowQueryLimits {
            places: config.sql.slow_places(config.operations.writers()),
            ..config.pools.long()
        });
        let long = Long { every: config.pools.long_look(), turns: Arc::new(SchedulerBridge(lane)) };
        let options = EngineOptions { long: Some(long), ..EngineOptions::default() };
        // The copies of a server belong to its process.
        let copies = (config.store_url.is_some() && role != Role::Node).then(|| PrivateCopies::below(&dir.copies()));
        let copies = copies.transpose().context("cannot make a folder for copies of databases")?;
        if role == Role::Node {
            PrivateCopies::remove_abandoned(&dir.copies()).context("cannot remove copies of a former command")?;
        }
        let folder = copies.as_ref().map_or_else(|| dir.databases(), |copies| copies.path().to_owned());
        let engine = SqlEngine::open(folder, config, &world.program, options)?;
        let metadata = open_metadata(config, &dir)?;
        match pending {
            Pending::Migrate => {
                metadata.migrate(world.clock.now()).context("cannot migrate the metadata store")?;
            }
            Pending::Refuse => metadata.require_current()?,
        }
        metadata.check_locks()?;
        match metadata.server_clock().context("cannot read the clock of the metadata store")? {
            // Servers on one Postgres share its clock.
            Some((micros, at)) => world.clock.follow(Timestamp::from_micros(micros), at),
            None => {
                if let Some(latest) = metadata.latest().context("cannot read the newest stored time")? {
                    reach(world.clock.as_ref(), latest);
                }
            }
        }
        // Before this process takes part in a cluster, which its keys may not belong to.
        let ring = RingStore::open(&dir, &metadata, master, world.ids.as_ref(), world.clock.now())?;
        let keys = Arc::new(LiveKeys::open(ring)?);
        let opened = database_store::open(config, &metadata, &world.ids)?;
        let (store, data_keys) = opened.map_or((None, None), |opened| (Some(opened.store), opened.data_keys));
        let node = match &config.node_id {
            Some(id) => id.clone(),
            None => dir.node(&world.ids.uuid(world.clock.now()).to_string())?,
        };
        let home = match &store {
            None => None,
            Some(store) => {
                let ports = HomePorts {
                    engine: &engine,
                    metadata: &metadata,
                    store,
                    data_keys: data_keys.as_ref(),
                    ids: &world.ids,
                };
                Some(match role {
                    Role::Node => DurableHome::of_node(&node, &config.cluster, &ports)?,
                    Role::Command => DurableHome::of_reader(&ports),
                    Role::ShortNode(id) => DurableHome::of_node(id, &config.cluster, &ports)?,
                })
            }
        };
        let databases = home.as_ref().map_or_else(|| engine.port(), DurableHome::port);
        let (blobs, backup_files) = open_blobs(config, &dir, store.as_ref(), world)
            .context("cannot open the folders of uploads and backups")?;
        let pushed_chunks =
            FolderPushedChunks::open(dir.pushed_chunks()).context("cannot open the folder of pushes")?;
        let pushed_chunks = Arc::new(pushed_chunks);
        let provisioner = match &world.provisioner {
            Some(make) => make(Arc::clone(&backup_files)),
            None => local_provisioner(config, &dir, &engine, &backup_files, world)?,
        };
        let limits = branchyard_imports::FileLimits {
            columns: config.imports.max_columns,
            value_bytes: config.imports.max_value_bytes,
            expanded_bytes: config.imports.max_expanded_bytes,
        };
        let sender = HttpSender::with_names(config.sender_options()?, Arc::clone(&world.names));
        let sender = sender.context("configuration: hooks.extra_ca_file")?;
        let sources =
            HttpRemoteSources::new(config.remotes.source_options(Arc::clone(&world.names), Arc::clone(&world.clock))?);
        let formats = Arc::new(FileFormats { limits, sqlite: engine.sqlite_files() });
        let vault = Arc::clone(&keys) as _;
        let mut hub = Hub::builder(Arc::clone(&metadata) as _, Arc::clone(&databases));
        if let Some(home) = &home {
            hub = hub.cluster(Arc::new(home.cluster(config.store.grace.duration())));
        }
        let hub = hub
            .uploads(Arc::clone(&blobs), formats)
            .pushes(Arc::clone(&pushed_chunks) as _)
            .mirrors(Arc::new(sources))
            .webhooks(WebhookPorts { payloads: Arc::new(JsonPayloads), vault, sender: Arc::new(sender) })
            .limits(config.domain_limits()?)
            .build(Arc::clone(&world.clock), Arc::clone(&world.ids));
        let ports = DeploymentPorts {
            store: Arc::clone(&metadata) as _,
            provisioner,
            backup_files: Arc::clone(&backup_files),
            clock: Arc::clone(&world.clock),
            ids: Arc::clone(&world.ids),
        };
        let deployments = Deployments::new(hub.clone(), ports, HostingSettings { node, ..config.hosted.domain()? });
        Ok(Self {
            dir,
            keys,
            metadata,
            store,
            data_keys,
            blobs,
            backup_files,
            pushed_chunks,
            engine,
            home,
            databases,
            copies,
            hub,
            deployments,
        })
    }

    /// Returns the path of the file of a database, which is brought here if it is in a store.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Damaged`] if the store has no such database.
    pub fn bring_file(&self, database: DatabaseId) -> Result<PathBuf, EngineError> {
        if let Some(home) = &self.home {
            home.bring(database)?;
        }
        self.engine.port().make_copy(database)?;
        Ok(self.engine.files().path(database))
    }

    /// Removes the files that [`Self::bring_file`] brought here.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn drop_copies(&self) -> Result<(), EngineError> {
        self.home.as_ref().map_or(Ok(()), DurableHome::drop_copies)
    }

    /// Makes a copy of a file the file of a database.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn restore_file(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError> {
        let restore = || self.engine.restore(database, from);
        match &self.home {
            Some(home) => home.restore(database, restore),
            None => restore(),
        }
    }

    /// Checks that the metadata store belongs to the data folder. Binds the folder if it is new.
    ///
    /// # Errors
    /// Fails if the folder belongs to another metadata store. The message names the setting to change.
    pub fn bind(&self, world: &Environment) -> anyhow::Result<()> {
        self.dir.bind(&self.installation(world)?, !self.engine.port().is_empty()?)
    }

    /// Binds the data folder to the metadata store after a restore has filled both.
    ///
    /// # Errors
    /// Fails if the folder is already bound to another metadata store, or if the binding cannot be written.
    pub fn adopt(&self, world: &Environment) -> anyhow::Result<()> {
        self.dir.bind(&self.installation(world)?, false)
    }

    fn installation(&self, world: &Environment) -> anyhow::Result<String> {
        let fresh = world.ids.uuid(world.clock.now());
        Ok(self.metadata.installation(&fresh.to_string())?)
    }
}

/// Opens the stores of uploads in flight and of backups of deployments: the store of databases, or folders.
fn open_blobs(
    config: &Config,
    dir: &DataDir,
    store: Option<&Arc<dyn DatabaseStore>>,
    world: &Environment,
) -> std::io::Result<(Arc<dyn Blobs>, Arc<dyn BackupFiles>)> {
    let Some(store) = store else {
        let blobs = Arc::new(FolderBlobs::open(dir.uploads(), dir.backups())?);
        return Ok((Arc::clone(&blobs) as _, blobs));
    };
    let (clock, ids) = (Arc::clone(&world.clock), Arc::clone(&world.ids));
    let grace = config.store.grace.as_seconds();
    let blobs = Arc::new(ObjectBlobs::open(Arc::clone(store), dir.uploads(), grace, clock, ids)?);
    Ok((Arc::clone(&blobs) as _, blobs))
}

/// Builds the provisioner that runs instances as processes of this machine, one per instance.
fn local_provisioner(
    config: &Config,
    dir: &DataDir,
    engine: &SqlEngine,
    backup_files: &Arc<dyn BackupFiles>,
    world: &Environment,
) -> anyhow::Result<Arc<dyn Provisioner>> {
    let bind = config.hosted.address()?;
    let settings = LocalSettings {
        root: dir.deployments(),
        program: world.program.clone(),
        bind,
        advertise_host: config.hosted.advertise_host.clone().unwrap_or_else(|| bind.to_string()),
        orphan_grace: config.hosted.orphan_grace.duration(),
        allow_unconfined: config.hosted.allow_unconfined,
    };
    let (isolation, backup_files) = (config.sql.isolation, Arc::clone(backup_files));
    let provisioner = deployments::provisioner(settings, engine.clone(), isolation, backup_files, world)?;
    Ok(Arc::new(provisioner))
}

/// Checks that no newer release has changed the metadata store, before a byte of the data folder is written.
///
/// # Errors
/// Fails if the store has migrations that this program does not know, or if its URL cannot be read.
pub fn refuse_newer(config: &Config, dir: &DataDir) -> anyhow::Result<()> {
    // The memory of statements can be limited only before SQLite is first used, which the check does.
    limit_process_memory(None);
    branchyard_storage::check_unopened(&config.metadata_url(&dir.metadata())?)?;
    Ok(())
}

/// Opens only the metadata store. Migrations are neither applied nor checked.
///
/// # Errors
/// Fails if the URL cannot be read or the store cannot be opened.
pub fn open_metadata(config: &Config, dir: &DataDir) -> anyhow::Result<Arc<Store>> {
    refuse_newer(config, dir)?;
    let url = config.metadata_url(&dir.metadata())?;
    Ok(Arc::new(Store::open(&url, &config.metadata.options())?))
}
