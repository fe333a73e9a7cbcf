//! In-memory implementations of the ports. They serve tests, and show what a port has to do without a database around
//! it.
//!
//! [`hub()`] returns a [`Hub`] over all of them, with handles to each.

mod blobs;
mod broken;
mod clock;
mod database_store;
mod engine;
mod formats;
mod hooks;
mod ids;
mod metadata;
mod provisioner;
mod pushed_chunks;
mod remote_sources;

use std::sync::Arc;

pub use blobs::MemoryBlobs;
pub use broken::BrokenMetadata;
pub use clock::FixedClock;
pub use database_store::{MemoryDatabaseStore, StoreCall, StoreFault};
pub use engine::{MemoryEngine, SAME_DIGITS};
pub use formats::PlainFormats;
pub use hooks::{KeyedVault, OpenVault, PlainPayloads, ScriptedSender};
pub use ids::SeededIds;
pub use metadata::{MemoryMetadata, SaveFault};
pub use provisioner::MemoryProvisioner;
pub use pushed_chunks::MemoryPushedChunks;
pub use remote_sources::MemorySources;

use branchyard_deployments::ports::DeploymentStore;
use branchyard_deployments::{DeploymentPorts, Deployments, HostingSettings};
use branchyard_domain::ports::{Formats, Metadata, Vault};
use branchyard_domain::usecases::Limits;
use branchyard_domain::{Hub, HubBuilder, WebhookPorts};

/// A hub over fakes, with handles to the fakes.
#[derive(Clone)]
pub struct FakeHub {
    /// The hub.
    pub hub: Hub,
    /// The deployments of the hub.
    pub deployments: Deployments,
    /// The metadata store of both.
    pub metadata: Arc<MemoryMetadata>,
    /// The engine of the hub.
    pub engine: Arc<MemoryEngine>,
    /// The blob store, which also holds backup files.
    pub blobs: Arc<MemoryBlobs>,
    /// The chunks of pushes.
    pub pushed_chunks: Arc<MemoryPushedChunks>,
    /// The sources of mirrors.
    pub sources: Arc<MemorySources>,
    /// The clock of both.
    pub clock: Arc<FixedClock>,
    /// The id generator of both.
    pub ids: Arc<SeededIds>,
    /// The sender of webhook requests.
    pub sender: Arc<ScriptedSender>,
    /// The provisioner of the deployments.
    pub provisioner: Arc<MemoryProvisioner>,
}

impl FakeHub {
    /// Creates a hub over the same fakes with a broken metadata store.
    pub fn broken(&self, metadata: BrokenMetadata) -> (Hub, Deployments) {
        let store = Arc::new(metadata);
        let hub = self.build(self.builder(store.clone()));
        let deployments = Deployments::new(hub.clone(), self.deployment_ports(store), HostingSettings::default());
        (hub, deployments)
    }

    /// Creates the hub of another server over the same stores.
    pub fn beside(&self, limits: Limits) -> Hub {
        self.build(self.builder(self.metadata.clone()).limits(limits))
    }

    /// Creates the deployments of another server over the same stores.
    pub fn deployments_beside(&self, hosted: HostingSettings) -> Deployments {
        Deployments::new(self.beside(Limits::default()), self.deployment_ports(self.metadata.clone()), hosted)
    }

    /// Creates a hub over the same fakes with its own metadata store.
    pub fn storing(&self, metadata: Arc<dyn Metadata>) -> Hub {
        self.build(self.builder(metadata))
    }

    fn deployment_ports(&self, store: Arc<dyn DeploymentStore>) -> DeploymentPorts {
        DeploymentPorts {
            store,
            provisioner: self.provisioner.clone(),
            backup_files: self.blobs.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        }
    }

    /// Creates the hub of another server over the same stores, with its own file formats.
    pub fn reading(&self, formats: Arc<dyn Formats>) -> Hub {
        self.build(self.builder(self.metadata.clone()).uploads(self.blobs.clone(), formats))
    }

    /// Creates the hub of another server over the same stores, with its own keys.
    pub fn sealing(&self, vault: Arc<dyn Vault>, limits: Limits) -> Hub {
        let webhooks = WebhookPorts { vault, ..webhooks(&self.sender) };
        self.build(self.builder(self.metadata.clone()).webhooks(webhooks).limits(limits))
    }

    /// Returns a builder with the same fakes and every capability, over this metadata store.
    fn builder(&self, metadata: Arc<dyn Metadata>) -> HubBuilder {
        Hub::builder(metadata, self.engine.clone())
            .uploads(self.blobs.clone(), Arc::new(PlainFormats))
            .pushes(self.pushed_chunks.clone())
            .mirrors(self.sources.clone())
            .webhooks(webhooks(&self.sender))
    }

    fn build(&self, builder: HubBuilder) -> Hub {
        builder.build(self.clock.clone(), self.ids.clone())
    }
}

fn webhooks(sender: &Arc<ScriptedSender>) -> WebhookPorts {
    WebhookPorts { payloads: Arc::new(PlainPayloads), vault: Arc::new(OpenVault), sender: sender.clone() }
}

/// Creates a hub over fakes with default limits. Its behavior is deterministic.
pub fn hub() -> FakeHub {
    hub_with(Limits::default())
}

/// Creates a hub over fakes with these limits.
pub fn hub_with(limits: Limits) -> FakeHub {
    hub_hosting(limits, HostingSettings::default())
}

/// Creates a hub over fakes with these limits and this configuration of deployments.
pub fn hub_hosting(limits: Limits, hosted: HostingSettings) -> FakeHub {
    let metadata = Arc::new(MemoryMetadata::default());
    let engine = Arc::new(MemoryEngine::default());
    let blobs = Arc::new(MemoryBlobs::default());
    let pushed_chunks = Arc::new(MemoryPushedChunks::default());
    let sources = Arc::new(MemorySources::default());
    let clock = Arc::new(FixedClock::default());
    let ids = Arc::new(SeededIds::new(1));
    let sender = Arc::new(ScriptedSender::default());
    let provisioner = Arc::new(MemoryProvisioner::new(blobs.clone()));
    let hub = Hub::builder(metadata.clone(), engine.clone())
        .uploads(blobs.clone(), Arc::new(PlainFormats))
        .pushes(pushed_chunks.clone())
        .mirrors(sources.clone())
        .webhooks(webhooks(&sender))
        .limits(limits)
        .build(clock.clone(), ids.clone());
    let ports = DeploymentPorts {
        store: metadata.clone(),
        provisioner: provisioner.clone(),
        backup_files: blobs.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
    };
    let deployments = Deployments::new(hub.clone(), ports, hosted);
    deployments.serve_instances();
    FakeHub { hub, deployments, metadata, engine, blobs, pushed_chunks, sources, clock, ids, sender, provisioner }
}

/// A request that a fake does not support or was planned to refuse. The text is for the reader of the failing test.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FakeFault(&'static str);
