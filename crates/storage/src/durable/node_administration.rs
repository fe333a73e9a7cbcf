//! Listing, draining and removing nodes, for administrators.

use std::collections::HashSet;

use branchyard_domain::ports::{OperationState, WriteKeys};
use branchyard_domain::values::{DatabaseId, Timestamp};
use branchyard_segments::RecordsError;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::{End, EngineSql, clock, text};
use crate::connection::AnyConnection;
use crate::convert::{StoredWord as _, all, count, read, time};
use crate::error::StoreResult;
use crate::operations::holders_of;
use crate::prepared::PreparedSql;
use crate::schema::{collections, operations};
use crate::store::Store;

macro_rules! list {
    ($clock:expr, $lock:literal) => {
        concat!(
            "SELECT n.id, n.version, n.address, n.started_at, n.alive_until, n.drained_at, n.alive_until - ",
            $clock,
            ", (SELECT count(*) FROM files AS f WHERE f.owner_node = n.id AND f.owner_incarnation = n.incarnation) \
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

/// A node as administrators see it. Times are those of the metadata store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node's id.
    pub id: String,
    /// The version of the program that it runs, or ran last.
    pub version: String,
    /// The address at which other nodes reach it, if it is known.
    pub address: Option<String>,
    /// When its last run began.
    pub started_at: Timestamp,
    /// When the lease of that run ends, or ended.
    pub lease_until: Timestamp,
    /// Whether that lease holds.
    pub is_live: bool,
    /// When the node was drained. `None` if it is not.
    pub drained_at: Option<Timestamp>,
    /// Number of databases whose leases it has.
    pub databases: u64,
}

/// Why a change of a node was refused.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// There is no such node.
    #[error("there is no node '{id}'; {}", known_nodes(.known))]
    NoSuchNode {
        /// The id.
        id: String,
        /// The ids of all nodes.
        known: Vec<String>,
    },
    /// All other nodes have ended or are drained.
    #[error("no node but '{0}' is live and not drained, and all writes would wait: start another one first")]
    LastNode(String),
    /// The lease of the node holds.
    #[error("the node '{0}' is live: stop its server first. If it was killed, its lease ends within cluster.lease")]
    StillLive(String),
    /// The metadata store failed.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

fn known_nodes(known: &[String]) -> String {
    if known.is_empty() { "there are none".to_owned() } else { format!("there are: {}", known.join(", ")) }
}

fn list(conn: &mut AnyConnection, sql: EngineSql) -> StoreResult<Vec<NodeStatus>> {
    type Columns = (Text, Text, Nullable<Text>, BigInt, BigInt, Nullable<BigInt>, BigInt, BigInt);
    type Values = (String, String, Option<String>, i64, i64, Option<i64>, i64, i64);
    let rows: Vec<Values> = PreparedSql::<Columns>::new(sql.of(conn), Vec::new()).load(conn)?;
    let node = |(id, version, address, started_at, lease_until, drained_at, rest, databases): Values| NodeStatus {
        id,
        version,
        address,
        started_at: time(started_at),
        lease_until: time(lease_until),
        is_live: rest > 0,
        drained_at: drained_at.map(time),
        databases: count(databases),
    };
    Ok(rows.into_iter().map(node).collect())
}

impl Store {
    /// Returns all nodes, by id.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn node_statuses(&self) -> Result<Vec<NodeStatus>, RecordsError> {
        self.look_up("list nodes", |conn| list(conn, LIST))
    }

    /// Drains a node: what it leads and runs goes to other nodes, also after it was started again. Returns the node. Has no effect on
    /// one that is drained.
    ///
    /// # Errors
    /// [`NodeError::NoSuchNode`]; [`NodeError::LastNode`]; [`NodeError::Records`].
    pub fn drain_node(&self, id: &str) -> Result<NodeStatus, NodeError> {
        self.transact(&WriteKeys::none(), |tx| {
            let nodes = tx.run_apart_from_rights("lock all nodes", |conn| list(conn, LIST_AND_LOCK))?;
            let Some(mut node) = nodes.iter().find(|node| node.id == id).cloned() else {
                return Ok(End::RollBack(Err(no_such_node(id, &nodes))));
            };
            // What is drained already may be drained again, so that a script can be repeated.
            let is_successor = |other: &&NodeStatus| other.id != id && other.is_live && other.drained_at.is_none();
            if node.drained_at.is_none() && !nodes.iter().any(|other| is_successor(&other)) {
                return Ok(End::RollBack(Err(NodeError::LastNode(id.to_owned()))));
            }
            let at = tx.run_apart_from_rights("drain a node", |conn| DRAIN.number(conn, vec![text(id)]))?;
            node.drained_at = at.map(time);
            Ok(End::Commit(Ok(node)))
        })?
    }

    /// Ends the drain of a node, if it is drained. Returns the node.
    ///
    /// # Errors
    /// [`NodeError::NoSuchNode`]; [`NodeError::Records`].
    pub fn end_drain(&self, id: &str) -> Result<NodeStatus, NodeError> {
        self.change(END_DRAIN, vec![text(id)])?;
        let nodes = self.node_statuses()?;
        nodes.iter().find(|node| node.id == id).cloned().ok_or_else(|| no_such_node(id, &nodes))
    }

    /// Removes a node whose lease has ended. If a server runs under this id later, it is a new node, which is not drained.
    ///
    /// What the node ran has to run elsewhere, which is to be seen to before.
    ///
    /// # Errors
    /// [`NodeError::NoSuchNode`]; [`NodeError::StillLive`]; [`NodeError::Records`].
    pub fn remove_node(&self, id: &str) -> Result<(), NodeError> {
        if self.change(REMOVE, vec![text(id)])?.is_some() {
            return Ok(());
        }
        self.require_ended(id)?;
        // Its lease held at that moment, and has ended since.
        Err(NodeError::StillLive(id.to_owned()))
    }

    /// Checks that there is a node of this id, and that its lease has ended.
    ///
    /// # Errors
    /// [`NodeError::NoSuchNode`]; [`NodeError::StillLive`]; [`NodeError::Records`].
    pub fn require_ended(&self, id: &str) -> Result<(), NodeError> {
        let nodes = self.node_statuses()?;
        match nodes.iter().find(|node| node.id == id) {
            None => Err(no_such_node(id, &nodes)),
            Some(node) if node.is_live => Err(NodeError::StillLive(id.to_owned())),
            Some(_) => Ok(()),
        }
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

fn no_such_node(id: &str, nodes: &[NodeStatus]) -> NodeError {
    NodeError::NoSuchNode { id: id.to_owned(), known: nodes.iter().map(|node| node.id.clone()).collect() }
}
