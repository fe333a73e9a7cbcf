//! An engine over worker processes in a folder of its own.

use branchyard_engine_process::{ProcessEngine, ProcessOptions, WorkerCommand};

#[path = "../../../engine-doltlite/tests/it/support.rs"]
mod shared;

pub(crate) use shared::{EngineHarness, LONG, ada, id, text};

pub(crate) struct Harness {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) engine: ProcessEngine,
}

pub(crate) fn command() -> WorkerCommand {
    WorkerCommand { program: env!("CARGO_BIN_EXE_branchyard-sql-worker").into(), arguments: Vec::new() }
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(set: impl FnOnce(&mut ProcessOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = ProcessOptions::new(command());
        set(&mut options);
        let engine = ProcessEngine::open(folder.path().join("databases"), options).unwrap();
        Self { folder, engine }
    }
}
