//! The leases of nodes.
//!
//! A lease that another node has seen ended must stay ended, since that node may have taken databases over. Each statement here
//! therefore reads the clock while it holds the lock of the row, and [`SqlRecords`](super::SqlRecords) holds a shared lock from the
//! moment at which it looks at the clock until the database has its new owner. Otherwise a renewal could look at the clock just before
//! the end of the lease, wait, and take effect after the end was seen.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Holder, Nodes, RecordsError, Renewal};
use diesel::prelude::*;
use diesel::sql_types::{Nullable, Text};

use super::{EngineSql, clock, files_with_leaders, incarnation, micros, text};
use crate::connection::AnyConnection;
use crate::error::StoreResult;
use crate::prepared::{Parameter, PreparedSql};
use crate::store::Store;

/// Inserts the row of a node, or changes it if [`NodeRecord::start`](branchyard_segments::NodeRecord::start) does: this run goes on
/// while its lease holds, and follows on another run when that one's lease has ended. The condition is evaluated under the lock of the
/// row. The new end is computed before, which makes the lease no longer.
macro_rules! start {
    ($clock:expr, $greatest:literal) => {
        concat!(
            "INSERT INTO nodes (id, incarnation, alive_until, version, address, started_at) VALUES (?, ?, ",
            $clock,
            " + ?, ?, nullif(?, ''), ",
            $clock,
            ") ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, version = excluded.version, \
             alive_until = CASE WHEN nodes.incarnation = excluded.incarnation THEN ",
            $greatest,
            "(nodes.alive_until, excluded.alive_until) ELSE excluded.alive_until END, \
             started_at = CASE WHEN nodes.incarnation = excluded.incarnation THEN nodes.started_at ELSE excluded.started_at END, \
             address = excluded.address \
             WHERE (nodes.incarnation = excluded.incarnation) = (nodes.alive_until > ",
            $clock,
            ") RETURNING CAST(1 AS BIGINT)"
        )
    };
}

const START: EngineSql =
    EngineSql { postgres: start!(clock!(postgres), "greatest"), sqlite: start!(clock!(sqlite), "max") };

/// The parameters are the node, the length of the lease, the node and the incarnation.
const RENEW: EngineSql = EngineSql {
    postgres: concat!(
        "WITH locked AS MATERIALIZED (SELECT incarnation, alive_until FROM nodes WHERE id = ? FOR NO KEY UPDATE), \
         timed AS MATERIALIZED (SELECT incarnation, alive_until, ",
        clock!(postgres),
        " AS now FROM locked) \
         UPDATE nodes SET alive_until = greatest(timed.alive_until, timed.now + ?) FROM timed \
         WHERE nodes.id = ? AND timed.incarnation = ? AND timed.alive_until > timed.now RETURNING CAST(1 AS BIGINT)"
    ),
    sqlite: concat!(
        "WITH timed AS (SELECT incarnation, alive_until, ",
        clock!(sqlite),
        " AS now FROM nodes WHERE id = ?) \
         UPDATE nodes SET alive_until = max(timed.alive_until, timed.now + ?) FROM timed \
         WHERE nodes.id = ? AND timed.incarnation = ? AND timed.alive_until > timed.now RETURNING CAST(1 AS BIGINT)"
    ),
};

macro_rules! stop {
    ($clock:expr, $least:literal) => {
        concat!(
            "UPDATE nodes SET alive_until = ",
            $least,
            "(alive_until, ",
            $clock,
            ") WHERE id = ? AND incarnation = ? RETURNING CAST(1 AS BIGINT)"
        )
    };
}

const STOP: EngineSql = EngineSql { postgres: stop!(clock!(postgres), "least"), sqlite: stop!(clock!(sqlite), "min") };

macro_rules! ended {
    ($clock:expr) => {
        concat!("SELECT id, incarnation FROM nodes WHERE id <> ? AND alive_until <= ", $clock, " ORDER BY id")
    };
}

/// The parameter is the node that asks.
const ENDED: EngineSql = EngineSql { postgres: ended!(clock!(postgres)), sqlite: ended!(clock!(sqlite)) };

macro_rules! live {
    ($clock:expr) => {
        concat!("SELECT id FROM nodes WHERE alive_until > ", $clock, " ORDER BY id")
    };
}

const LIVE: EngineSql = EngineSql { postgres: live!(clock!(postgres)), sqlite: live!(clock!(sqlite)) };

const SET_ADDRESS: EngineSql =
    EngineSql::same("UPDATE nodes SET address = ? WHERE id = ? AND incarnation = ? RETURNING CAST(1 AS BIGINT)");

macro_rules! leader {
    ($clock:expr) => {
        concat!(
            "SELECT n.id, n.address FROM ",
            files_with_leaders!(),
            " WHERE f.database_id = ? AND n.alive_until > ",
            $clock
        )
    };
}

/// The parameter is the database.
const LEADER: EngineSql = EngineSql { postgres: leader!(clock!(postgres)), sqlite: leader!(clock!(sqlite)) };

macro_rules! successors {
    ($clock:expr) => {
        concat!(
            "SELECT id, address FROM nodes WHERE id <> ? AND drained_at IS NULL AND alive_until > ",
            $clock,
            " ORDER BY id"
        )
    };
}

/// The parameter is the node that asks.
const SUCCESSORS: EngineSql =
    EngineSql { postgres: successors!(clock!(postgres)), sqlite: successors!(clock!(sqlite)) };

/// A live node, and the address at which other nodes reach it, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNode {
    /// The node's id.
    pub id: String,
    /// Its address.
    pub address: Option<String>,
}

fn live_nodes(conn: &mut AnyConnection, sql: EngineSql, parameter: &str) -> StoreResult<Vec<LiveNode>> {
    let parameters = vec![text(parameter)];
    let rows: Vec<(String, Option<String>)> =
        PreparedSql::<(Text, Nullable<Text>)>::new(sql.of(conn), parameters).load(conn)?;
    Ok(rows.into_iter().map(|(id, address)| LiveNode { id, address }).collect())
}

/// A run of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeRun {
    /// The node's id.
    pub node: String,
    /// What distinguishes the run from others.
    pub incarnation: String,
}

impl Store {
    /// Returns the ids of the nodes whose leases hold.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn live_nodes(&self) -> Result<Vec<String>, RecordsError> {
        self.look_up("look for live nodes", |conn| Ok(PreparedSql::<Text>::new(LIVE.of(conn), Vec::new()).load(conn)?))
    }

    /// Returns the live node that leads a database, if one does.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn leader(&self, database: DatabaseId) -> Result<Option<LiveNode>, RecordsError> {
        let found =
            self.look_up("look for the leader of a database", |conn| live_nodes(conn, LEADER, &database.to_string()));
        Ok(found?.pop())
    }

    /// Returns the other nodes that can take over the databases of this one: those that are live and not drained, by id.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn successors(&self) -> Result<Vec<LiveNode>, RecordsError> {
        self.look_up("look for other nodes", |conn| live_nodes(conn, SUCCESSORS, self.readers.node().id()))
    }

    /// Saves the address at which other nodes reach this one, which stays the same from then on.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn set_node_address(&self, holder: &Holder, address: &str) -> Result<(), RecordsError> {
        // First: a run that begins meanwhile saves it too.
        self.readers.node().set_address(address);
        let parameters = vec![text(address), text(&holder.node), text(incarnation(holder.incarnation))];
        self.change(SET_ADDRESS, parameters).map(drop)
    }

    /// Returns the last runs of other nodes whose leases have ended.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn ended_nodes(&self) -> Result<Vec<NodeRun>, RecordsError> {
        self.look_up("look for nodes that have ended", |conn| {
            let own = vec![text(self.readers.node().id())];
            let rows: Vec<(String, String)> = PreparedSql::<(Text, Text)>::new(ENDED.of(conn), own).load(conn)?;
            Ok(rows.into_iter().map(|(node, incarnation)| NodeRun { node, incarnation }).collect())
        })
    }
}

/// The rows of nodes in the metadata store. Its methods block, and return futures that are ready.
#[derive(Clone)]
pub struct SqlNodes {
    store: Arc<Store>,
}

impl SqlNodes {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }
}

/// A statement returns a row if it changed the lease.
fn renewal(changed: Option<i64>) -> Renewal {
    changed.map_or(Renewal::Ended, |_| Renewal::Held)
}

impl Nodes for SqlNodes {
    async fn start(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
        let parameters = vec![
            text(&holder.node),
            text(incarnation(holder.incarnation)),
            Parameter::Number(micros(lease)),
            text(env!("CARGO_PKG_VERSION")),
            text(self.store.readers.node().address()),
        ];
        let renewal = self.store.change(START, parameters).map(renewal)?;
        if renewal == Renewal::Held {
            self.store.readers.node().become_node(&holder.node);
        }
        Ok(renewal)
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
        let parameters = vec![
            text(&holder.node),
            Parameter::Number(micros(lease)),
            text(&holder.node),
            text(incarnation(holder.incarnation)),
        ];
        self.store.change(RENEW, parameters).map(renewal)
    }

    async fn stop(&self, holder: &Holder) -> Result<(), RecordsError> {
        let parameters = vec![text(&holder.node), text(incarnation(holder.incarnation))];
        self.store.change(STOP, parameters).map(drop)
    }
}
