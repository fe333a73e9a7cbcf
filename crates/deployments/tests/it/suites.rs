//! The contract suites of the ports, on the fakes.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use branchyard_auth::HashedToken;
use branchyard_deployments::ports::{Authorized, Authorizer, BackupFiles, InstanceHandle, ProvisionError, Provisioner};
use branchyard_deployments::values::InstanceId;
use branchyard_domain_testing::fakes::{MemoryBlobs, MemoryMetadata, MemoryProvisioner};
use branchyard_domain_testing::suites;

#[test]
fn the_store_in_memory_keeps_every_promise() {
    suites::deployments::run_all(&|| Box::new(MemoryMetadata::default()));
}

struct NoCallers;

impl Authorizer for NoCallers {
    fn authorize(&self, _: &HashedToken, _: InstanceId, _: Option<IpAddr>) -> Result<Authorized, ProvisionError> {
        Ok(Authorized::BadToken)
    }
}

struct TestStore {
    provisioner: Arc<MemoryProvisioner>,
    blobs: Arc<MemoryBlobs>,
    port: AtomicU16,
}

impl suites::provisioner::Stage for TestStore {
    fn provisioner(&self) -> Arc<dyn Provisioner> {
        self.provisioner.clone()
    }

    fn successor(&self) -> Arc<dyn Provisioner> {
        self.provisioner.clone()
    }

    fn port(&self) -> u16 {
        self.port.fetch_add(1, Ordering::Relaxed)
    }

    fn kill(&self, handle: &InstanceHandle) {
        self.provisioner.crash(handle.instance);
    }

    fn backup_files(&self) -> Arc<dyn BackupFiles> {
        self.blobs.clone()
    }
}

#[test]
fn the_provisioner_in_memory_keeps_every_promise() {
    let blobs = Arc::new(MemoryBlobs::default());
    let provisioner = Arc::new(MemoryProvisioner::new(blobs.clone()));
    provisioner.connect(Arc::new(NoCallers));
    suites::provisioner::run_all(&TestStore { provisioner, blobs, port: AtomicU16::new(20_000) });
}
