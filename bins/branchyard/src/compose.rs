//! Wiring: from a configuration to a [`Hub`].

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use branchyard_deployments::ports::{BackupFiles, Provisioner};
use branchyard_deployments::{DeploymentPorts, Deployments, Hosted};
use branchyard_domain::ports::{Clock, Engine as _, Ids};
use branchyard_domain::values::Timestamp;
use branchyard_domain::{Hub, Ports};
use branchyard_engine_doltlite::{DoltliteEngine, Long};
use branchyard_executor::SlowQueryScheduler;
pub use branchyard_hooks::Names;
use branchyard_hooks::{HttpSender, JsonPayloads, ServerVault, SystemNames};
use branchyard_import_formats::FileFormats;
use branchyard_provisioner_local::LocalSettings;
use branchyard_storage::{FolderBlobs, Store};
use branchyard_system::{SystemClock, SystemIds};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::deployments;
use crate::scheduler_bridge::SchedulerBridge;

/// What tests put in the place of the machine's clock and randomness.
#[derive(Clone)]
pub struct Environment {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids and secrets.
    pub ids: Arc<dyn Ids>,
    /// The program that serves deployments: this one.
    pub program: PathBuf,
    /// What resolves the names of hooks.
    pub names: Arc<dyn Names>,
    /// What runs instances, made over the files of backups; processes of this machine when absent.
    pub provisioner: Option<MakeProvisioner>,
}

/// Bytes of memory that everything in the process that uses SQLite may take beside the statements of users: the last line of defence.
const BESIDE_STATEMENTS: u64 = 1 << 30;

/// Makes what runs instances, over the files of their backups.
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

/// Has time go on from the newest record, where the machine's clock was set back behind it.
fn reach(clock: &dyn Clock, latest: Timestamp) {
    let now = clock.now();
    let ahead_seconds = latest.as_micros().saturating_sub(now.as_micros()) / 1_000_000;
    if latest > now.plus_seconds(LEAD_SECONDS) {
        tracing::warn!(ahead_seconds, "records lie more than a day ahead of this machine's clock, which is believed");
        return;
    }
    if ahead_seconds >= LEAD_NOTED_SECONDS {
        tracing::warn!(ahead_seconds, "this machine's clock is behind the records: time goes on from them");
    }
    clock.reach(latest);
}

/// How far the records may be ahead of the machine's clock and be taken for right. Beyond that, it was wrong when they were made.
const LEAD_SECONDS: i64 = 86_400;
/// From how far on that is worth a line in the log. Clocks of two machines with one store differ by less.
const LEAD_NOTED_SECONDS: i64 = 10;

/// The stores of a data folder, opened.
pub struct Stores {
    /// Where everything is.
    pub dir: DataDir,
    /// The metadata store, which also migrates.
    pub metadata: Arc<Store>,
    /// The engine.
    pub engine: Arc<DoltliteEngine>,
    /// The hub over them.
    pub hub: Hub,
    /// Its deployments.
    pub deployments: Deployments,
}

/// What to do about migrations that are pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Run them.
    Migrate,
    /// Refuse to go on.
    Refuse,
}

impl Stores {
    /// Opens everything a configuration names.
    ///
    /// # Errors
    /// Says what could not be opened, and why.
    pub fn open(config: &Config, world: &Environment, pending: Pending) -> anyhow::Result<Self> {
        let dir = DataDir::open(&config.data_dir)?;
        // Before the metadata store: the engine limits the memory of statements only if nothing has used SQLite yet.
        let lane = SlowQueryScheduler::new(config.pools.long());
        let long = Long { every: config.pools.long_look(), turns: Arc::new(SchedulerBridge(lane)) };
        let options = branchyard_engine_doltlite::EngineOptions {
            long: Some(long),
            statement_memory: config.sql.max_memory_bytes,
            total_memory: Some(config.sql.memory_total()),
            // Beside the statements there are caches of connections and the metadata store, which must not run short by them.
            process_memory: Some((config.sql.memory_total() as u64).saturating_add(BESIDE_STATEMENTS)),
            ..branchyard_engine_doltlite::EngineOptions::default()
        };
        let engine = DoltliteEngine::open(dir.databases(), options).context("cannot open the engine's folder")?;
        let engine = Arc::new(engine);
        let metadata = open_metadata(config, &dir)?;
        match pending {
            Pending::Migrate => {
                metadata.migrate(world.clock.now()).context("cannot bring the metadata store up to date")?;
            }
            Pending::Refuse => metadata.require_current()?,
        }
        let latest = metadata.latest().context("cannot tell how far time has come")?;
        if let Some(latest) = latest {
            reach(world.clock.as_ref(), latest);
        }
        let blobs = FolderBlobs::open(dir.uploads(), dir.backups())
            .context("cannot open the folders of uploads and backups")?;
        let blobs = Arc::new(blobs);
        let backup_files: Arc<dyn BackupFiles> = blobs.clone();
        let provisioner = match &world.provisioner {
            Some(make) => make(Arc::clone(&backup_files)),
            None => local_provisioner(config, &dir, &engine, &backup_files, world)?,
        };
        let limits = branchyard_imports::Limits {
            columns: config.imports.max_columns,
            value_bytes: config.imports.max_value_bytes,
            expanded_bytes: config.imports.max_expanded_bytes,
        };
        let sender = HttpSender::with_names(config.sender_options()?, Arc::clone(&world.names));
        let sender = sender.context("configuration: hooks.extra_ca_file")?;
        let ports = Ports {
            metadata: Arc::clone(&metadata) as _,
            engine: Arc::clone(&engine) as _,
            blobs,
            formats: Arc::new(FileFormats { limits, engine: Arc::clone(&engine) }),
            clock: Arc::clone(&world.clock),
            ids: Arc::clone(&world.ids),
            payloads: Arc::new(JsonPayloads),
            vault: Arc::new(ServerVault::from_secret(&dir.secret(world.ids.as_ref())?)),
            sender: Arc::new(sender),
        };
        let hub = Hub::new(ports, config.domain_limits()?);
        let ports = DeploymentPorts {
            store: Arc::clone(&metadata) as _,
            provisioner,
            backup_files,
            clock: Arc::clone(&world.clock),
            ids: Arc::clone(&world.ids),
        };
        let node = dir.node(&world.ids.uuid(world.clock.now()).to_string())?;
        let deployments = Deployments::new(hub.clone(), ports, Hosted { node, ..config.hosted.domain()? });
        Ok(Self { dir, metadata, engine, hub, deployments })
    }

    /// Refuses a metadata store that is not the data folder's.
    ///
    /// # Errors
    /// Says which of the two to change.
    pub fn bind(&self, world: &Environment) -> anyhow::Result<()> {
        self.dir.bind(&self.installation(world)?, !self.engine.list()?.is_empty())
    }

    /// Makes the metadata store the data folder's, after a restore filled both.
    ///
    /// # Errors
    /// When the folder has one already.
    pub fn adopt(&self, world: &Environment) -> anyhow::Result<()> {
        self.dir.bind(&self.installation(world)?, false)
    }

    fn installation(&self, world: &Environment) -> anyhow::Result<String> {
        let fresh = world.ids.uuid(world.clock.now());
        Ok(self.metadata.installation(&fresh.to_string())?)
    }

    /// The uploads in flight.
    ///
    /// # Errors
    /// When their folder cannot be made.
    pub fn blobs(&self) -> anyhow::Result<FolderBlobs> {
        FolderBlobs::open(self.dir.uploads(), self.dir.backups())
            .context("cannot open the folders of uploads and backups")
    }
}

/// What runs instances: this program, once for each.
fn local_provisioner(
    config: &Config,
    dir: &DataDir,
    engine: &Arc<DoltliteEngine>,
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
    };
    let provisioner = deployments::provisioner(settings, Arc::clone(engine), Arc::clone(backup_files), world)?;
    Ok(Arc::new(provisioner))
}

/// Opens the metadata store alone.
///
/// # Errors
/// Says what to do about it.
pub fn open_metadata(config: &Config, dir: &DataDir) -> anyhow::Result<Arc<Store>> {
    let url = config.metadata_url(&dir.metadata())?;
    Ok(Arc::new(Store::open(&url, &branchyard_storage::StoreOptions::default())?))
}
