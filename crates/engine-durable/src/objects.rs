//! The object store, for the protocol.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use branchyard_domain::ports::{DatabaseStore, Ids, StoreError};
use branchyard_domain::values::{DataKeyScope, DatabaseId, ObjectKey};
use branchyard_segments::{Nonces, Objects, ObjectsError, SEGMENTS};

/// What went to an object store, and came from there.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) puts: AtomicU64,
    pub(crate) put_bytes: AtomicU64,
    pub(crate) gets: AtomicU64,
    pub(crate) get_bytes: AtomicU64,
}

/// Adds to a counter.
fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The segments of a database in an object store.
pub(crate) struct StoredObjects {
    pub(crate) database: DatabaseId,
    pub(crate) store: Arc<dyn DatabaseStore>,
    pub(crate) traffic: Arc<Traffic>,
}

fn key(object: &str) -> Result<ObjectKey, ObjectsError> {
    ObjectKey::parse(&format!("{SEGMENTS}/{object}")).map_err(|error| ObjectsError::Unavailable(error.to_string()))
}

fn of_store(object: &str, error: StoreError) -> ObjectsError {
    match error {
        StoreError::NotFound { .. } => ObjectsError::Absent(object.to_owned()),
        other => ObjectsError::Unavailable(other.to_string()),
    }
}

/// A read under way, on a thread of its own.
pub(crate) struct PendingGet {
    object: String,
    thread: Result<JoinHandle<Result<Vec<u8>, StoreError>>, ObjectsError>,
}

impl Objects for StoredObjects {
    type Get = PendingGet;

    async fn put(&self, object: &str, bytes: Vec<u8>) -> Result<(), ObjectsError> {
        self.store.put(&key(object)?, &bytes).map_err(|error| of_store(object, error))?;
        add(&self.traffic.puts, 1);
        add(&self.traffic.put_bytes, bytes.len());
        Ok(())
    }

    fn get(&self, object: &str, range: Range<u64>) -> PendingGet {
        let thread = key(object).and_then(|key| {
            let store = Arc::clone(&self.store);
            let read = move || store.read(&key, range);
            let started = thread::Builder::new().name("segment".to_owned()).spawn(read);
            started.map_err(|error| ObjectsError::Unavailable(error.to_string()))
        });
        PendingGet { object: object.to_owned(), thread }
    }

    async fn finish(&self, get: PendingGet) -> Result<Vec<u8>, ObjectsError> {
        let ended = get.thread?.join();
        let read = ended.map_err(|_| ObjectsError::Unavailable("a read panicked".to_owned()))?;
        let bytes = match read {
            // The protocol reads it again, because it may have been damaged on its way, and names it if that does not help.
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(object = get.object, error = &error as &dyn std::error::Error, "read a damaged object");
                Vec::new()
            }
            read => read.map_err(|error| of_store(&get.object, error))?,
        };
        add(&self.traffic.gets, 1);
        add(&self.traffic.get_bytes, bytes.len());
        Ok(bytes)
    }

    async fn data_key(&self) -> Result<Option<u128>, ObjectsError> {
        let id = self.store.data_key(DataKeyScope::Database(self.database));
        let id = id.map_err(|error| ObjectsError::Unavailable(error.to_string()))?;
        Ok(id.map(|id| u128::from_be_bytes(*id.as_bytes())))
    }
}

/// Random numbers for the names of objects.
pub(crate) struct RandomNonces(pub(crate) Arc<dyn Ids>);

impl Nonces for RandomNonces {
    fn next(&self) -> u128 {
        let mut bytes = [0; 16];
        self.0.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}
