//! Whether the metadata are older than the store of databases, as after a restore.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use branchyard_domain::Hub;
use branchyard_domain::ports::{DatabaseStore, EngineError};
use branchyard_engine_durable::RecordAge;
use branchyard_segments::{Evidence, Mark};
use branchyard_storage::{MarkError, Store, older_records, store_mark};

use super::HomePorts;

/// Whether the metadata are as new as the store. Once they were found to be older, they stay so until the process ends.
pub(super) struct MetadataAge {
    metadata: Arc<Store>,
    store: Arc<dyn DatabaseStore>,
    is_older: AtomicBool,
    /// The highest number of a write that the metadata had.
    highest: AtomicU64,
    /// What is to change nothing any more once they are older.
    hub: OnceLock<Hub>,
}

impl MetadataAge {
    pub(super) fn new(ports: &HomePorts<'_>) -> Self {
        let (metadata, store) = (Arc::clone(ports.metadata), Arc::clone(ports.store));
        Self { metadata, store, is_older: AtomicBool::new(false), highest: AtomicU64::new(0), hub: OnceLock::new() }
    }

    pub(super) fn is_older(&self) -> bool {
        self.is_older.load(Ordering::Relaxed)
    }

    pub(super) fn found_older(&self, evidence: &dyn std::fmt::Display) {
        self.hub.get().into_iter().for_each(Hub::set_read_only);
        if !self.is_older.swap(true, Ordering::Relaxed) {
            tracing::error!(
                %evidence,
                "the metadata are older than the store of databases: only reads are served; bring back the newest metadata, or accept the loss \
                 with `branchyard cluster accept`"
            );
        }
    }

    /// Has a hub change nothing any more once the metadata are older.
    pub(super) fn guard(&self, hub: &Hub) {
        if self.hub.set(hub.clone()).is_ok() && self.is_older() {
            hub.set_read_only();
        }
    }

    /// Looks at the marks of all nodes.
    pub(super) fn compare_marks(&self) -> Result<(), MarkError> {
        if let Some(evidence) = older_records(self.store.as_ref(), &self.metadata.objects())? {
            self.found_older(&evidence);
        }
        Ok(())
    }

    /// Compares the metadata with what they were, and stores the mark of this node if it saved something since `marked`.
    pub(super) fn mark(&self, node: &str, marked: &mut u64) -> Result<(), MarkError> {
        // Read first: what is saved in between would look like a loss.
        let own = self.metadata.own_write_counter();
        let counter = self.metadata.objects().write_counter()?;
        let highest = self.highest.fetch_max(counter, Ordering::Relaxed).max(own);
        if counter < highest {
            let mark = Mark { node: node.to_owned(), counter: highest };
            self.found_older(&Evidence::Mark { mark, counter });
        }
        if own > *marked && !self.is_older() {
            store_mark(self.store.as_ref(), node, own)?;
            *marked = own;
        }
        Ok(())
    }
}

impl RecordAge for MetadataAge {
    fn require_newest(&self) -> Result<(), EngineError> {
        self.compare_marks().map_err(|error| {
            EngineError::Unavailable(format!("cannot compare the age of the metadata with that of the store: {error}"))
        })?;
        match self.is_older() {
            true => Err(EngineError::Unavailable("the metadata are older than the store of databases".to_owned())),
            false => Ok(()),
        }
    }
}
