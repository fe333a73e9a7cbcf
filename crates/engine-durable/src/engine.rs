//! The engine: what all calls share, and what it works with.

mod calls;
mod copies;
mod entry;
mod fetch;
mod figures;
mod leases;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use branchyard_domain::ports::{DatabaseFiles, DatabaseStore, Engine, EngineError, Ids};
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{
    DatabaseFile, Epoch, Error, FileError, Holder, Limits, ObjectsError, Ports, Records, RecordsError,
};
use parking_lot::Mutex;

use crate::lease::NodeKeeper;
use crate::local_file::NodeFile;
use crate::objects::{RandomNonces, StoredObjects, Traffic};

pub(crate) use entry::{Entry, File};
pub use fetch::Leaders;
pub use figures::{Figures, Lag};
pub use leases::HandedOver;

/// The rows of databases in the metadata store.
pub trait RecordSource: Send + Sync + 'static {
    /// The row of one database.
    type Records: Records<Unit = (), Refusal = Infallible> + Send + Sync;

    /// Returns the row of a database, which is made with its first use.
    fn records(&self, database: DatabaseId) -> Self::Records;

    /// Returns `true` if a database names the objects of another one until its file is made ([`Engine::copy_later`]).
    ///
    /// # Errors
    /// [`RecordsError`].
    fn is_put_off(&self, database: DatabaseId) -> Result<bool, RecordsError>;

    /// Takes the lease of a database from its holder ([`Record::withdraw`](branchyard_segments::Record::withdraw)).
    ///
    /// # Errors
    /// [`RecordsError`].
    fn withdraw(&self, database: DatabaseId, epoch: Epoch) -> Result<(), RecordsError>;

    /// Clears the row of a database ([`Record::clear`](branchyard_segments::Record::clear)), if there is one. The row itself stays, so
    /// that no epoch recurs.
    ///
    /// # Errors
    /// [`RecordsError`].
    fn clear(&self, database: DatabaseId) -> Result<(), RecordsError>;
}

/// Whether the rows are as new as the objects in the store.
///
/// A metadata store that was restored to an earlier time ends the leases of all nodes, because the rows of nodes are older too. So this
/// is asked by each run of a node before it writes.
pub trait RecordAge: Send + Sync {
    /// Returns `Ok` if nothing shows that the rows are older than the store.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if they are, or if that cannot be found out.
    fn require_newest(&self) -> Result<(), EngineError>;
}

/// What a [`DurableEngine`] works with.
pub struct DurablePorts<S> {
    /// The engine whose files become a cache.
    pub engine: Arc<dyn Engine>,
    /// Its files.
    pub files: Arc<dyn DatabaseFiles>,
    /// The rows of databases.
    pub records: S,
    /// The object store.
    pub store: Arc<dyn DatabaseStore>,
    /// The lease of this node. Without it, calls that write fail.
    pub node: Option<Arc<NodeKeeper>>,
    /// Compares the age of the rows with that of the store. It is asked before the first acquisition of each run of the node.
    pub age: Arc<dyn RecordAge>,
    /// Source of randomness.
    pub ids: Arc<dyn Ids>,
}

/// An engine whose databases are durable in an object store.
pub struct DurableEngine<S: RecordSource> {
    pub(crate) ports: DurablePorts<S>,
    databases: Mutex<HashMap<DatabaseId, Arc<Entry<S::Records>>>>,
    traffic: Arc<Traffic>,
    /// The run of the node that has asked for the age of the rows.
    compared: Mutex<Option<Holder>>,
    /// Whether other nodes are to write the databases.
    is_drained: AtomicBool,
    /// Those that lead databases. Absent if there is no way to ask them.
    leaders: OnceLock<Arc<dyn Leaders>>,
}

impl<S: RecordSource> DurableEngine<S> {
    /// Creates the engine.
    pub fn new(ports: DurablePorts<S>) -> Self {
        Self {
            ports,
            databases: Mutex::default(),
            traffic: Arc::default(),
            compared: Mutex::default(),
            is_drained: AtomicBool::new(false),
            leaders: OnceLock::new(),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<dyn Engine> {
        &self.ports.engine
    }

    pub(crate) fn entry(&self, database: DatabaseId) -> Arc<Entry<S::Records>> {
        let mut databases = self.databases.lock();
        let entry = databases.entry(database).or_insert_with(|| {
            let DurablePorts { files, records, store, ids, .. } = &self.ports;
            let file = DatabaseFile::new(Ports {
                database: database.to_string(),
                records: records.records(database),
                objects: StoredObjects { database, store: Arc::clone(store), traffic: Arc::clone(&self.traffic) },
                file: NodeFile { files: Arc::clone(files), database, collected: Mutex::default() },
                nonces: RandomNonces(Arc::clone(ids)),
                limits: Limits::default(),
            });
            Arc::new(Entry::new(file, self.ports.node.clone()))
        });
        Arc::clone(entry)
    }

    /// Removes a database. Its objects stay until nothing names them any more.
    pub(crate) fn remove_database(&self, database: DatabaseId) -> Result<(), EngineError> {
        let entry = self.entry(database);
        let mut file = entry.turn.lock();
        self.inner().remove(database)?;
        file.distrust();
        self.ports.records.clear(database).map_err(|error| of_protocol(error.into()))?;
        self.databases.lock().remove(&database);
        Ok(())
    }
}

/// Returns an error of the protocol as one of the engine.
pub(crate) fn of_protocol(error: Error) -> EngineError {
    match error {
        Error::Records(_)
        | Error::NotLeading
        | Error::Objects(ObjectsError::Unavailable(_))
        | Error::File(FileError::Failed(_)) => EngineError::Unavailable(error.to_string()),
        Error::Objects(ObjectsError::Absent(_))
        | Error::File(FileError::Damaged(_))
        | Error::Corrupt(_)
        | Error::Incomplete { .. }
        | Error::RecordsOlder { .. } => EngineError::Damaged(error.to_string()),
    }
}
