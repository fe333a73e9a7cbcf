//! Nodes over one store in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use branchyard_domain::entities::{Cell, Signature};
use branchyard_domain::ports::{
    Collected, CollectedRows, Engine as _, EngineError, KeptHeads, MergeOutcome, ReadQuery, WriteJob,
};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use branchyard_domain_testing::fakes::{MemoryDatabaseStore, SeededIds};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_engine_durable::{DurableEngine, DurablePorts, NodeKeeper, RecordAge};
use uuid::Uuid;

use crate::rows::MemoryRows;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A store and rows, which nodes share.
pub(crate) struct Yard {
    pub(crate) rows: MemoryRows,
    pub(crate) store: Arc<MemoryDatabaseStore>,
    pub(crate) age: Arc<Age>,
    /// Whether nodes copy files for a while.
    pub(crate) copies: bool,
}

/// Whether the rows are older than the store, as a test says.
#[derive(Default)]
pub(crate) struct Age {
    pub(crate) is_older: AtomicBool,
    pub(crate) asked: AtomicU64,
}

impl RecordAge for Age {
    fn require_newest(&self) -> Result<(), EngineError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.is_older.load(Ordering::Relaxed) {
            true => Err(EngineError::Unavailable("the rows are older".to_owned())),
            false => Ok(()),
        }
    }
}

/// A node with a folder of its own.
pub(crate) struct Node<L = Arc<NodeKeeper>> {
    pub(crate) engine: Arc<DurableEngine<MemoryRows>>,
    pub(crate) lease: L,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn id(n: u128) -> DatabaseId {
    DatabaseId::from_uuid(Uuid::from_u128(n))
}

pub(crate) fn author() -> Signature {
    Signature {
        name: "ada".to_owned(),
        email: "ada@example.org".to_owned(),
        at: Timestamp::from_seconds(1_700_000_000),
    }
}

pub(crate) fn insert(value: i64) -> String {
    format!("INSERT INTO t VALUES ({value}, 'x')")
}

impl Yard {
    pub(crate) fn new() -> Self {
        Self { rows: MemoryRows::new(), store: Arc::default(), age: Arc::default(), copies: true }
    }

    /// Starts a node on an empty folder.
    pub(crate) fn node(&self, name: &str, lease: Duration) -> Node {
        self.node_on(name, lease, tempfile::tempdir().unwrap())
    }

    /// Starts a node on a folder.
    pub(crate) fn node_on(&self, name: &str, lease: Duration, folder: tempfile::TempDir) -> Node {
        let ids = seeded();
        let lease = Arc::new(NodeKeeper::start(name, lease, self.rows.clone(), ids.clone()).unwrap());
        Node { engine: self.engine(&folder, Some(Arc::clone(&lease)), ids), lease, folder }
    }

    /// Opens an engine that is no node, on an empty folder.
    pub(crate) fn reader(&self) -> Node<()> {
        let folder = tempfile::tempdir().unwrap();
        Node { engine: self.engine(&folder, None, seeded()), lease: (), folder }
    }

    fn engine(
        &self,
        folder: &tempfile::TempDir,
        node: Option<Arc<NodeKeeper>>,
        ids: Arc<SeededIds>,
    ) -> Arc<DurableEngine<MemoryRows>> {
        let mut options = EngineOptions::default();
        if !self.copies {
            (options.trial_copy_bytes, options.share_blocks) = (0, false);
        }
        let engine = Arc::new(DoltliteEngine::open(folder.path().join("databases"), options).unwrap());
        Arc::new(DurableEngine::new(DurablePorts {
            engine: engine.clone(),
            files: engine,
            records: self.rows.clone(),
            store: self.store.clone(),
            node,
            age: self.age.clone(),
            ids,
        }))
    }
}

/// Returns random numbers that no other run of a node has.
fn seeded() -> Arc<SeededIds> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    Arc::new(SeededIds::new(RUNS.fetch_add(1, Ordering::Relaxed)))
}

impl<L> Node<L> {
    /// Returns the path of the file of a database.
    pub(crate) fn file(&self, database: DatabaseId) -> PathBuf {
        let name = database.to_string();
        self.folder.path().join("databases").join(&name[name.len() - 2..]).join(format!("{name}.db"))
    }

    pub(crate) fn create(&self, database: DatabaseId) -> CommitHash {
        let first = self.engine.create(database, &author(), "Initialize database").unwrap();
        self.write(database, &first, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").unwrap()
    }

    /// Creates a database with this many rows, each by a write of its own.
    pub(crate) fn create_with(&self, database: DatabaseId, rows: i64) -> CommitHash {
        (0..rows).fold(self.create(database), |head, value| self.write(database, &head, &insert(value)).unwrap())
    }

    pub(crate) fn write(&self, database: DatabaseId, base: &CommitHash, sql: &str) -> Result<CommitHash, EngineError> {
        let author = author();
        let job = WriteJob { base, statements: sql, message: sql, then_merge: None, author: &author, timeout: LONG };
        match branchyard_domain::ports::Engine::write(&*self.engine, database, &job)?.outcome {
            MergeOutcome::Head(head) => Ok(head),
            MergeOutcome::Conflicts(_) => panic!("nothing is merged"),
        }
    }

    pub(crate) fn rows(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<i64>, EngineError> {
        let mut rows = CollectedRows::default();
        let query = ReadQuery::new("SELECT a FROM t ORDER BY a", LONG);
        branchyard_domain::ports::Engine::read(&*self.engine, database, at, &query, &mut rows)?;
        let value = |row: &Vec<Cell>| match row.as_slice() {
            [Cell::Integer(value)] => *value,
            other => panic!("{other:?}"),
        };
        Ok(rows.rows.iter().map(value).collect())
    }

    pub(crate) fn collect(&self, database: DatabaseId, heads: &[&CommitHash]) -> Result<Collected, EngineError> {
        self.engine.collect(database, &mut Keep(heads.iter().map(|head| (*head).clone()).collect()))
    }
}

struct Keep(Vec<CommitHash>);

impl KeptHeads for Keep {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        Ok(self.0.clone())
    }

    fn approve(&mut self, covered: &std::collections::BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        Ok(self.0.iter().filter(|head| !covered.contains(head)).cloned().collect())
    }
}
