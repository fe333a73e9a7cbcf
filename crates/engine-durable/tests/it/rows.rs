//! The rows of the protocol in memory, by the reference of the protocol itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::values::DatabaseId;
use branchyard_engine_durable::RecordSource;
use branchyard_segments::{
    Acquired, Commit, Epoch, Extension, Holder, Known, NodeRecord, Nodes, Record, Records, RecordsError, Renewal,
    Saved, Swap, Switch, Switched,
};
use parking_lot::Mutex;

#[derive(Default)]
struct Rows {
    nodes: HashMap<String, Option<NodeRecord>>,
    files: HashMap<DatabaseId, Record>,
    is_down: bool,
}

/// All rows.
#[derive(Clone)]
pub(crate) struct MemoryRows(Arc<Mutex<Rows>>, Instant);

impl MemoryRows {
    pub(crate) fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    fn now(&self) -> Duration {
        self.1.elapsed()
    }

    /// Makes all calls fail, or work again.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.0.lock().is_down = is_down;
    }

    pub(crate) fn row(&self, database: DatabaseId) -> Record {
        self.0.lock().files.get(&database).cloned().unwrap_or_default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Rows) -> T) -> Result<T, RecordsError> {
        let mut rows = self.0.lock();
        if rows.is_down {
            return Err(RecordsError::Unavailable("a test wants it".to_owned()));
        }
        Ok(work(&mut rows))
    }
}

impl RecordSource for MemoryRows {
    type Records = MemoryRecords;

    fn records(&self, database: DatabaseId) -> MemoryRecords {
        MemoryRecords { rows: self.clone(), database }
    }

    fn is_put_off(&self, _: DatabaseId) -> Result<bool, RecordsError> {
        Ok(false)
    }

    fn withdraw(&self, database: DatabaseId, epoch: Epoch) -> Result<(), RecordsError> {
        self.with(|rows| {
            if let Some(row) = rows.files.get_mut(&database) {
                row.withdraw(epoch);
            }
        })
    }

    fn clear(&self, database: DatabaseId) -> Result<(), RecordsError> {
        self.with(|rows| {
            if let Some(row) = rows.files.get_mut(&database) {
                row.clear();
            }
        })
    }
}

impl Nodes for MemoryRows {
    async fn start(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
        let now = self.now();
        self.with(|rows| {
            NodeRecord::start(rows.nodes.entry(holder.node.clone()).or_default(), holder.incarnation, lease, now)
        })
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
        let now = self.now();
        self.with(|rows| match rows.nodes.get_mut(&holder.node) {
            Some(Some(row)) => row.renew(holder.incarnation, lease, now),
            _ => Renewal::Ended,
        })
    }

    async fn stop(&self, holder: &Holder) -> Result<(), RecordsError> {
        let now = self.now();
        self.with(|rows| {
            if let Some(Some(row)) = rows.nodes.get_mut(&holder.node) {
                row.stop(holder.incarnation, now);
            }
        })
    }
}

/// The row of one database.
pub(crate) struct MemoryRecords {
    rows: MemoryRows,
    database: DatabaseId,
}

impl Records for MemoryRecords {
    type Unit = ();
    type Refusal = Infallible;

    async fn acquire(&self, holder: &Holder, known: Option<Known>) -> Result<Acquired, RecordsError> {
        let now = self.rows.now();
        self.rows.with(|rows| {
            let Rows { nodes, files, .. } = rows;
            let remaining = |run: &Holder| nodes.get(&run.node)?.as_ref()?.remaining(run.incarnation, now);
            if remaining(holder).is_none() {
                return Acquired::Ended;
            }
            let row = files.entry(self.database).or_default();
            match row.acquire(holder, remaining) {
                Ok(()) => Acquired::Leading(row.since(known)),
                Err(held) => Acquired::Held(held),
            }
        })
    }

    async fn load(&self, known: Option<Known>) -> Result<Record, RecordsError> {
        self.rows.with(|rows| rows.files.entry(self.database).or_default().since(known))
    }

    async fn extend(&self, extension: &Extension, (): &()) -> Result<Saved<Infallible>, RecordsError> {
        self.rows.with(|rows| match rows.files.entry(self.database).or_default().extend(extension) {
            Ok(()) => Saved::Saved,
            Err(_) => Saved::Fenced,
        })
    }

    async fn swap(&self, swap: &Swap) -> Result<bool, RecordsError> {
        self.rows.with(|rows| rows.files.entry(self.database).or_default().swap(swap).is_ok())
    }

    async fn heads(&self) -> Result<Vec<Commit>, RecordsError> {
        Ok(Vec::new())
    }

    async fn switch(&self, switch: &Switch, (): &()) -> Result<Switched, RecordsError> {
        self.rows.with(|rows| match rows.files.entry(self.database).or_default().switch(switch) {
            Ok(()) => Switched::Switched,
            Err(_) => Switched::Fenced,
        })
    }

    async fn release(&self, epoch: Epoch) -> Result<(), RecordsError> {
        self.rows.with(|rows| rows.files.entry(self.database).or_default().release(epoch))
    }
}
