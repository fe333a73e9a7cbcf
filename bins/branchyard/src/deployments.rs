//! Wiring of deployments: the process that serves an instance, and the provisioner that runs these processes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use branchyard_confinement::KernelSupport;
use branchyard_deployments::ports::BackupFiles;
use branchyard_domain::ports::{CancellationToken, EngineError, SessionEngine};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions, EngineVersions, Long, WatchedCall, YieldHook};
use branchyard_provisioner_local::{
    EngineSize, HubFiles, InProcessStaging, LocalProcess, LocalSettings, LongStatement, ProcessStaging, StagingEngine,
    StatementTurns, Tools,
};

use crate::compose::Environment;
use crate::config::{Hosted, Isolation};
use crate::sql_engine::SqlEngine;

/// Serves the instance in `run_dir` until the process is asked to stop.
///
/// # Errors
/// Fails if the instance cannot be served.
pub fn serve(run_dir: &Path) -> anyhow::Result<()> {
    let world = Environment::default();
    let open_engine = |folder: PathBuf, size: EngineSize| {
        let options = EngineOptions {
            idle_sessions: size.idle_sessions,
            session_cache_kib: size.session_cache_kib,
            // One statement may use all of the memory: the limit is that of the process.
            statement_memory: usize::try_from(size.heap_bytes).unwrap_or(usize::MAX),
            process_memory: Some(size.heap_bytes),
            // The process may write only inside its folder.
            temporary_folder: Some(folder.join("tmp")),
            long: Some(Long { every: StatementTurns::EVERY, turns: Arc::new(TurnsBridge(StatementTurns)) }),
            ..EngineOptions::default()
        };
        Ok(Arc::new(DoltliteEngine::open(folder, options)?) as Arc<dyn SessionEngine>)
    };
    let tools = Tools { open_engine: Box::new(open_engine), clock: world.clock, ids: world.ids };
    branchyard_provisioner_local::serve(run_dir, tools).context("cannot serve the deployment")
}

/// The schedule of an instance's long statements as the engine's yield hook.
struct TurnsBridge(StatementTurns);

impl YieldHook for TurnsBridge {
    fn begin(&self, _shape: u64, _canceled: &CancellationToken) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn go_on(&self, canceled: &CancellationToken) -> ControlFlow<()> {
        self.0.go_on(canceled)
    }

    fn pause(&self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        self.0.statement().map(|statement| Arc::new(BridgedStatement(statement)) as Arc<dyn WatchedCall>)
    }
}

/// A statement that the engine's watchdog can report as silent.
#[derive(Debug)]
struct BridgedStatement(LongStatement);

impl WatchedCall for BridgedStatement {
    fn is_silent(&self) {
        self.0.is_silent();
    }
}

/// Opens the engine that creates and checks files of instances. In the server there is no `process_memory`, because the limit was
/// set when the server opened its own engine. A process of its own may write only inside its folder.
fn open_staging(folder: PathBuf, process_memory: Option<u64>) -> Result<Arc<dyn SessionEngine>, EngineError> {
    let temporary_folder = process_memory.map(|_| folder.join("tmp"));
    let options = EngineOptions { process_memory, temporary_folder, ..EngineOptions::default() };
    Ok(Arc::new(DoltliteEngine::open(folder, options)?))
}

/// Creates or checks one database file of a deployment for the server, and ends.
///
/// # Errors
/// Fails if the server's request cannot be read or answered.
pub fn stage_files(folder: &Path, source: Option<&Path>) -> anyhow::Result<()> {
    branchyard_provisioner_local::stage_files(folder, source, &|folder, heap| open_staging(folder, Some(heap)))
        .context("cannot stage files")
}

/// Creates the provisioner that runs instances as local processes of `settings.program`. `isolation` decides where database
/// files of instances are created and checked.
///
/// # Errors
/// Fails if the folder of the deployments cannot be used.
pub fn provisioner(
    settings: LocalSettings,
    engine: SqlEngine,
    isolation: Isolation,
    backup_files: Arc<dyn BackupFiles>,
    world: &Environment,
) -> anyhow::Result<LocalProcess> {
    let version = EngineVersions::linked().doltlite;
    let staging: Box<dyn StagingEngine> = match isolation {
        Isolation::Process => Box::new(ProcessStaging::new(settings.program.clone(), settings.allow_unconfined)),
        Isolation::Thread => Box::new(InProcessStaging::new(Box::new(|folder| open_staging(folder, None)))),
    };
    let (clock, ids) = (Arc::clone(&world.clock), Arc::clone(&world.ids));
    LocalProcess::open(settings, staging, Arc::new(HubExports(engine)), backup_files, clock, ids, version)
        .context("cannot use the deployments folder")
}

/// Returns the warning of a server that cannot confine the processes of instances, or `None` if it can, or starts none.
pub(crate) fn confinement_warning(hosted: &Hosted, support: KernelSupport) -> Option<String> {
    if !hosted.enabled || support.is_complete() {
        return None;
    }
    let outcome = if hosted.allow_unconfined {
        "processes of deployments are not confined, because hosted.allow_unconfined is true"
    } else {
        "deployments do not start; hosted.allow_unconfined = true starts them unconfined"
    };
    Some(format!("this system does not offer both seccomp and Landlock: {outcome}"))
}

/// Access to the hub's database files for deployments that are seeded from one.
struct HubExports(SqlEngine);

impl HubFiles for HubExports {
    fn export(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        self.0.back_up(database, to)
    }

    fn place(&self, database: DatabaseId) -> PathBuf {
        DoltliteEngine::place(database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_confine_instances_names_the_setting() {
        let none = KernelSupport { seccomp: true, landlock_abi: None };
        let full = KernelSupport { seccomp: true, landlock_abi: Some(1) };
        let hosted = Hosted::default();
        assert_eq!(confinement_warning(&hosted, full), None);
        assert_eq!(confinement_warning(&Hosted { enabled: false, ..Hosted::default() }, none), None);
        let refused = confinement_warning(&hosted, none).unwrap();
        assert!(refused.contains("do not start") && refused.contains("hosted.allow_unconfined = true"), "{refused}");
        let allowed = confinement_warning(&Hosted { allow_unconfined: true, ..Hosted::default() }, none).unwrap();
        assert!(allowed.contains("are not confined"), "{allowed}");
    }
}
