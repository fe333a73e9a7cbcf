//! Runs the contract suite of the provisioner port on the local provisioner.

use std::sync::Arc;
use std::time::Duration;

use branchyard_deployments::ports::{Authorizer, BackupFiles, InstanceHandle, Provisioner};
use branchyard_domain_testing::suites::provisioner::{Stage, run_all};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_storage::FolderBlobs;

use super::harness::{People, free_port, provisioner};

struct Machine {
    dir: tempfile::TempDir,
    engine: Arc<DoltliteEngine>,
    first: Arc<dyn Provisioner>,
}

impl Machine {
    fn server(dir: &tempfile::TempDir, engine: &Arc<DoltliteEngine>) -> Arc<dyn Provisioner> {
        let local = provisioner(dir.path(), engine, Duration::from_secs(30));
        local.connect(Arc::new(People::default()) as Arc<dyn Authorizer>);
        Arc::new(local)
    }
}

impl Stage for Machine {
    fn provisioner(&self) -> Arc<dyn Provisioner> {
        Arc::clone(&self.first)
    }

    fn successor(&self) -> Arc<dyn Provisioner> {
        Self::server(&self.dir, &self.engine)
    }

    fn port(&self) -> u16 {
        free_port()
    }

    fn kill(&self, handle: &InstanceHandle) {
        let id = handle.process.to_string();
        assert!(std::process::Command::new("kill").args(["-9", &id]).status().unwrap().success());
    }

    fn backup_files(&self) -> Arc<dyn BackupFiles> {
        Arc::new(FolderBlobs::open(self.dir.path().join("uploads"), self.dir.path().join("backups")).unwrap())
    }
}

#[test]
fn processes_keep_every_promise_of_the_port() {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { process_memory: None, ..EngineOptions::default() };
    let engine = Arc::new(DoltliteEngine::open(dir.path().join("databases"), options).unwrap());
    let first = Machine::server(&dir, &engine);
    run_all(&Machine { dir, engine, first });
}
