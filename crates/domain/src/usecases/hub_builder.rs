//! Building a hub from the ports that a service has.

use std::sync::Arc;

use super::absent::{NoUploads, NoWebhooks};
use super::{Hub, Limits, Ports};
use crate::ports::{
    Blobs, Clock, Cluster, Engine, Formats, Ids, Metadata, Payloads, PushedChunks, RemoteSources, Sender, Vault,
};

/// The ports of webhooks. A hub has all of them or none.
#[derive(Clone)]
pub struct WebhookPorts {
    /// Renders the bodies of events.
    pub payloads: Arc<dyn Payloads>,
    /// Seals and opens the secrets of hooks.
    pub vault: Arc<dyn Vault>,
    /// Sends requests to hooks.
    pub sender: Arc<dyn Sender>,
}

/// The ports and limits of a [`Hub`] that is not built yet. [`Hub::builder`] creates it.
///
/// A metadata store and an engine are enough for databases, branches, pull requests, releases and SQL. Uploads,
/// pushes and webhooks are capabilities that a service adds; without them, requests to upload a file, to push or to register a
/// webhook are refused with an error that says so.
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct HubBuilder {
    metadata: Arc<dyn Metadata>,
    engine: Arc<dyn Engine>,
    cluster: Option<Arc<dyn Cluster>>,
    uploads: Option<(Arc<dyn Blobs>, Arc<dyn Formats>)>,
    pushed_chunks: Option<Arc<dyn PushedChunks>>,
    sources: Option<Arc<dyn RemoteSources>>,
    webhooks: Option<WebhookPorts>,
    limits: Limits,
}

impl HubBuilder {
    pub(super) fn new(metadata: Arc<dyn Metadata>, engine: Arc<dyn Engine>) -> Self {
        Self {
            metadata,
            engine,
            cluster: None,
            uploads: None,
            pushed_chunks: None,
            sources: None,
            webhooks: None,
            limits: Limits::default(),
        }
    }

    /// Replaces the default limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds the nodes that share the metadata store and the files of databases, for their administration.
    pub fn cluster(mut self, cluster: Arc<dyn Cluster>) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Adds uploads: a store for the parts of files, and readers of their formats.
    pub fn uploads(mut self, blobs: Arc<dyn Blobs>, formats: Arc<dyn Formats>) -> Self {
        self.uploads = Some((blobs, formats));
        self
    }

    /// Adds pushes by clients of the engine: a store for the chunks that they upload.
    pub fn pushes(mut self, pushed_chunks: Arc<dyn PushedChunks>) -> Self {
        self.pushed_chunks = Some(pushed_chunks);
        self
    }

    /// Adds mirrors: access to their sources. They need pushes, too, and webhooks, with whose vault their keys are sealed.
    pub fn mirrors(mut self, sources: Arc<dyn RemoteSources>) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Adds webhooks. Without them the hub records no events. Hubs that share a metadata store need the same choice.
    pub fn webhooks(mut self, webhooks: WebhookPorts) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// Builds the hub over this source of time, and of ids and randomness. The crate `branchyard-runtime` has those of
    /// the machine, and threads that run what the hub queues.
    pub fn build(self, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Hub {
        let Self { metadata, engine, cluster, uploads, pushed_chunks, sources, webhooks, limits } = self;
        let (takes_uploads, sends_webhooks) = (uploads.is_some(), webhooks.is_some());
        let (blobs, formats) = uploads.unwrap_or_else(|| (Arc::new(NoUploads), Arc::new(NoUploads)));
        let WebhookPorts { payloads, vault, sender } = webhooks.unwrap_or_else(|| WebhookPorts {
            payloads: Arc::new(NoWebhooks),
            vault: Arc::new(NoWebhooks),
            sender: Arc::new(NoWebhooks),
        });
        let ports = Ports {
            metadata,
            engine,
            cluster,
            blobs,
            pushed_chunks,
            sources,
            formats,
            clock,
            ids,
            payloads,
            vault,
            sender,
            takes_uploads,
            sends_webhooks,
        };
        Hub::new(ports, limits)
    }
}
