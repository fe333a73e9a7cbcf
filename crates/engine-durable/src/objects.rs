//! The object store, for the protocol.

use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use branchyard_domain::ports::{DatabaseStore, Ids, StoreError};
use branchyard_domain::values::ObjectKey;
use branchyard_segments::{Nonces, Objects, ObjectsError};

/// The folder of segments in the store.
const SEGMENTS: &str = "segments";

/// The segments in an object store.
pub(crate) struct StoredObjects(pub(crate) Arc<dyn DatabaseStore>);

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
        self.0.put(&key(object)?, &bytes).map(drop).map_err(|error| of_store(object, error))
    }

    fn get(&self, object: &str, range: Range<u64>) -> PendingGet {
        let thread = key(object).and_then(|key| {
            let store = Arc::clone(&self.0);
            let read = move || store.read(&key, range);
            let started = thread::Builder::new().name("segment".to_owned()).spawn(read);
            started.map_err(|error| ObjectsError::Unavailable(error.to_string()))
        });
        PendingGet { object: object.to_owned(), thread }
    }

    async fn finish(&self, get: PendingGet) -> Result<Vec<u8>, ObjectsError> {
        let ended = get.thread?.join();
        let read = ended.map_err(|_| ObjectsError::Unavailable("a read panicked".to_owned()))?;
        read.map_err(|error| of_store(&get.object, error))
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
