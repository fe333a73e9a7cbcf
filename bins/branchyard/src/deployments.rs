//! Deployments, wired: the process that serves one, and the provisioner that runs such processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use branchyard_deployments::ports::BackupFiles;
use branchyard_domain::ports::{EngineError, SessionEngine};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_provisioner_local::{EngineSize, HubFiles, LocalProcess, LocalSettings, Tools};

use crate::compose::Environment;

/// Serves the instance of a folder until it is told to end.
///
/// # Errors
/// Says why it cannot begin.
pub fn serve(run_dir: &Path) -> anyhow::Result<()> {
    let world = Environment::default();
    let open_engine = |folder: PathBuf, size: EngineSize| {
        let options = EngineOptions {
            idle_sessions: size.idle_sessions,
            session_cache_kib: size.session_cache_kib,
            // One statement may take what there is: the limit is that of the process.
            statement_memory: usize::try_from(size.heap_bytes).unwrap_or(usize::MAX),
            process_memory: Some(size.heap_bytes),
            // Nothing outside its folder is the process's to write.
            temporary_folder: Some(folder.join("tmp")),
            ..EngineOptions::default()
        };
        Ok(Arc::new(DoltliteEngine::open(folder, options)?) as Arc<dyn SessionEngine>)
    };
    let tools = Tools { open_engine: Box::new(open_engine), clock: world.clock, ids: world.ids };
    branchyard_provisioner_local::serve(run_dir, tools).context("cannot serve the deployment")
}

/// The provisioner on this machine, which starts `settings.program`.
///
/// # Errors
/// When its folder cannot be used.
pub fn provisioner(
    settings: LocalSettings,
    engine: Arc<DoltliteEngine>,
    backup_files: Arc<dyn BackupFiles>,
    world: &Environment,
) -> anyhow::Result<LocalProcess> {
    let version = SessionEngine::version(&*engine);
    // The limit of memory is the server's own, set when its engine was opened.
    let open_engine = |folder| {
        let options = EngineOptions { process_memory: None, ..EngineOptions::default() };
        Ok(Arc::new(DoltliteEngine::open(folder, options)?) as Arc<dyn SessionEngine>)
    };
    let (clock, ids) = (Arc::clone(&world.clock), Arc::clone(&world.ids));
    LocalProcess::open(settings, Box::new(open_engine), Arc::new(HubExports(engine)), backup_files, clock, ids, version)
        .context("cannot use the folder of the deployments")
}

/// The hub's databases, for deployments that start from one.
struct HubExports(Arc<DoltliteEngine>);

impl HubFiles for HubExports {
    fn export(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        self.0.back_up(database, to)
    }

    fn place(&self, database: DatabaseId) -> PathBuf {
        DoltliteEngine::place(database)
    }
}
