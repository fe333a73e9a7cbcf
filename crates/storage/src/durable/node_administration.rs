//! Listing, draining and removing nodes, for administrators.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::{Node, NodeCopies, StoredObjects};
use branchyard_domain::ports::{Cluster, ClusterError, MetadataError, OperationState, WriteKeys};
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Holder, RecordsError};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::{End, EngineSql, clock, column, incarnation, text};
use crate::connection::AnyConnection;
use crate::convert::{StoredWord as _, all, count, read, time};
use crate::error::StoreResult;
use crate::operations::holders_of;
use crate::prepared::{Parameter, PreparedSql};
use crate::schema::{collections, operations};
use crate::store::Store;

macro_rules! list {
    ($clock:expr, $lock:literal) => {
        concat!(
            "SELECT n.id, n.version, n.address, n.started_at, n.alive_until, n.drained_at, n.alive_until - ",
            $clock,
            ", (SELECT count(*) FROM files AS f WHERE f.owner_node = n.id AND f.owner_incarnation = n.incarnation), \
             n.measured_at, n.copies, n.copy_bytes, n.copy_limit_bytes, n.copies_behind, n.bytes_behind \
             FROM nodes AS n ORDER BY n.id",
            $lock
        )
    };
}

const LIST: EngineSql = EngineSql { postgres: list!(clock!(postgres), ""), sqlite: list!(clock!(sqlite), "") };

/// Also keeps all leases from being renewed, and all nodes from being drained, until the transaction ends.
const LIST_AND_LOCK: EngineSql =
    EngineSql { postgres: list!(clock!(postgres), " FOR NO KEY UPDATE OF n"), sqlite: list!(clock!(sqlite), "") };

macro_rules! drain {
    ($clock:expr) => {
        concat!("UPDATE nodes SET drained_at = coalesce(drained_at, ", $clock, ") WHERE id = ? RETURNING drained_at")
    };
}

const DRAIN: EngineSql = EngineSql { postgres: drain!(clock!(postgres)), sqlite: drain!(clock!(sqlite)) };

const END_DRAIN: EngineSql =
    EngineSql::same("UPDATE nodes SET drained_at = NULL WHERE id = ? RETURNING CAST(1 AS BIGINT)");

macro_rules! remove {
    ($clock:expr) => {
        concat!("DELETE FROM nodes WHERE id = ? AND alive_until <= ", $clock, " RETURNING CAST(1 AS BIGINT)")
    };
}

const REMOVE: EngineSql = EngineSql { postgres: remove!(clock!(postgres)), sqlite: remove!(clock!(sqlite)) };

const IS_DRAINED: EngineSql =
    EngineSql::same("SELECT CAST(1 AS BIGINT) FROM nodes WHERE id = ? AND drained_at IS NOT NULL");

/// Saves the copies of a run of a node. The parameters are the figures, in the order of the columns, the node and the incarnation.
macro_rules! save_copies {
    ($clock:expr) => {
        concat!(
            "UPDATE nodes SET measured_at = ",
            $clock,
            ", copies = ?, copy_bytes = ?, copy_limit_bytes = ?, copies_behind = ?, bytes_behind = ? \
             WHERE id = ? AND incarnation = ? RETURNING CAST(1 AS BIGINT)"
        )
    };
}

const SAVE_COPIES: EngineSql =
    EngineSql { postgres: save_copies!(clock!(postgres)), sqlite: save_copies!(clock!(sqlite)) };

fn list(conn: &mut AnyConnection, sql: EngineSql) -> StoreResult<Vec<Node>> {
    type Measured = (Nullable<BigInt>, BigInt, BigInt, BigInt, BigInt, BigInt);
    type Columns = (Text, Text, Nullable<Text>, BigInt, BigInt, Nullable<BigInt>, BigInt, BigInt, Measured);
    type MeasuredValues = (Option<i64>, i64, i64, i64, i64, i64);
    type Values = (String, String, Option<String>, i64, i64, Option<i64>, i64, i64, MeasuredValues);
    let rows: Vec<Values> = PreparedSql::<Columns>::new(sql.of(conn), Vec::new()).load(conn)?;
    let node = |(id, version, address, started_at, lease_until, drained_at, rest, databases, measured): Values| {
        let (measured_at, copies, bytes, limit, behind, bytes_behind) = measured;
        let copies = NodeCopies {
            count: count(copies),
            bytes: count(bytes),
            limit_bytes: count(limit),
            behind: count(behind),
            behind_bytes: count(bytes_behind),
        };
        Node {
            id,
            version,
            address,
            started_at: time(started_at),
            lease_until: time(lease_until),
            is_live: rest > 0,
            drained_at: drained_at.map(time),
            databases: count(databases),
            // What an earlier run has measured is no longer so.
            copies: measured_at.filter(|&at| at >= started_at).map(|_| copies),
        }
    };
    Ok(rows.into_iter().map(node).collect())
}

/// The rows of nodes and objects, as administrators see and change them. Its methods block.
#[derive(Clone)]
pub struct SqlCluster {
    store: Arc<Store>,
    grace: Duration,
}

impl SqlCluster {
    /// Creates it. `grace` is the time for which collections keep an object that nothing refers to.
    pub fn new(store: Arc<Store>, grace: Duration) -> Self {
        Self { store, grace }
    }

    fn find(&self, id: &str) -> Result<Node, ClusterError> {
        let nodes = self.nodes()?;
        nodes.iter().find(|node| node.id == id).cloned().ok_or_else(|| no_such_node(id, &nodes))
    }
}

impl Cluster for SqlCluster {
    fn own_node(&self) -> Option<String> {
        Some(self.store.readers.node().id()).filter(|id| !id.is_empty()).map(str::to_owned)
    }

    fn nodes(&self) -> Result<Vec<Node>, MetadataError> {
        self.store.look_up("list nodes", |conn| list(conn, LIST)).map_err(failed)
    }

    fn stored_objects(&self) -> Result<StoredObjects, MetadataError> {
        self.store.objects().totals(self.grace).map_err(failed)
    }

    fn drain(&self, id: &str) -> Result<Node, ClusterError> {
        let drained = self.store.transact(&WriteKeys::none(), |tx| {
            let nodes = tx.run_apart_from_rights("lock all nodes", |conn| list(conn, LIST_AND_LOCK))?;
            let Some(mut node) = nodes.iter().find(|node| node.id == id).cloned() else {
                return Ok(End::RollBack(Err(no_such_node(id, &nodes))));
            };
            // What is drained already may be drained again, so that a script can be repeated.
            let is_successor = |other: &&Node| other.id != id && other.is_live && other.drained_at.is_none();
            if node.drained_at.is_none() && !nodes.iter().any(|other| is_successor(&other)) {
                return Ok(End::RollBack(Err(ClusterError::LastNode(id.to_owned()))));
            }
            let at = tx.run_apart_from_rights("drain a node", |conn| DRAIN.number(conn, vec![text(id)]))?;
            node.drained_at = at.map(time);
            Ok(End::Commit(Ok(node)))
        });
        drained.map_err(failed)?
    }

    fn end_drain(&self, id: &str) -> Result<Node, ClusterError> {
        self.store.change(END_DRAIN, vec![text(id)]).map_err(failed)?;
        self.find(id)
    }

    fn require_ended(&self, id: &str) -> Result<(), ClusterError> {
        match self.find(id)?.is_live {
            true => Err(ClusterError::StillLive(id.to_owned())),
            false => Ok(()),
        }
    }

    fn remove(&self, id: &str) -> Result<(), ClusterError> {
        if self.store.change(REMOVE, vec![text(id)]).map_err(failed)?.is_some() {
            return Ok(());
        }
        self.require_ended(id)?;
        // Its lease held at that moment, and has ended since.
        Err(ClusterError::StillLive(id.to_owned()))
    }
}

impl Store {
    /// Saves what a run of a node has measured of its copies. Has no effect once another run has the node's id.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn save_copies(&self, holder: &Holder, copies: &NodeCopies) -> Result<(), RecordsError> {
        let NodeCopies { count, bytes, limit_bytes, behind, behind_bytes } = *copies;
        let numbers = [count, bytes, limit_bytes, behind, behind_bytes].map(|number| Parameter::Number(column(number)));
        let run = [text(&holder.node), text(incarnation(holder.incarnation))];
        self.change(SAVE_COPIES, numbers.into_iter().chain(run).collect()).map(drop)
    }

    /// Reads whether the node that this process is was drained, and returns it. While it is, this store has no operation, collection or
    /// fetch for the process to run.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`]; the store then goes on as it did.
    pub fn follow_drain(&self) -> Result<bool, RecordsError> {
        let node = self.readers.node();
        let is_drained = self.look_up("look whether this node is drained", |conn| {
            Ok(IS_DRAINED.number(conn, vec![text(node.id())])?.is_some())
        })?;
        node.set_drained(is_drained);
        Ok(is_drained)
    }

    /// Returns the databases in which operations or collections run that this process has leased.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn busy_databases(&self) -> Result<HashSet<DatabaseId>, RecordsError> {
        let holders = holders_of(self.readers.node().id());
        self.look_up("list databases in use by operations", |conn| {
            let running = operations::table
                .filter(operations::finished_at.is_null())
                .filter(operations::state.eq(OperationState::Running.word()))
                .filter(operations::lease_holder.like(holders.clone()).escape('\\'))
                .select(operations::database_id)
                .load::<String>(conn)?;
            let collected = collections::table
                .filter(collections::lease_holder.like(holders.clone()).escape('\\'))
                .select(collections::database_id)
                .load::<String>(conn)?;
            let databases =
                all(running.into_iter().chain(collected).collect(), |id| read("operations.database_id", id))?;
            Ok(databases.into_iter().collect())
        })
    }
}

/// Returns an error of the protocol as one of the metadata store.
fn failed(error: RecordsError) -> MetadataError {
    MetadataError::Unavailable(Box::new(error))
}

fn no_such_node(id: &str, nodes: &[Node]) -> ClusterError {
    ClusterError::NoSuchNode { id: id.to_owned(), known: nodes.iter().map(|node| node.id.clone()).collect() }
}
