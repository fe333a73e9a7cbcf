//! Operations: the queue of accepted work.

use std::sync::Arc;

use branchyard_domain::entities::{DatabaseLocator, Operation, OperationKind, OperationStatus, Work};
use branchyard_domain::ports::{
    LeaseTurn, MetadataError, OperationBacklog, OperationFilter, OperationRepository, OperationState, WriteKey,
};
use branchyard_domain::values::{AccountId, DatabaseId, DatabaseName, OperationId, Timestamp};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, count, limit, one, present, read, read_if, time};
use crate::deferred::Deferred;
use crate::error::{StoreError, Unreadable};
use crate::json;
use crate::next_operation::NextOperation;
use crate::prepared::{Parameter, PreparedSql};
use crate::schema::{accounts, databases, operations};
use crate::transaction::SqlTransaction;
use crate::update::update;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = operations)]
struct OperationRow {
    id: String,
    database_id: String,
    kind: String,
    work: String,
    fork_owner_id: Option<String>,
    fork_name_key: Option<String>,
    #[diesel(embed)]
    status: StatusRow,
    attempts: i64,
    created_by: String,
    created_at: i64,
    started_at: Option<i64>,
    finished_at: Option<i64>,
    traceparent: Option<String>,
}

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = operations, treat_none_as_null = true)]
struct StatusRow {
    state: String,
    outcome: Option<String>,
    failure: Option<String>,
}

fn status_row(status: &OperationStatus) -> Read<StatusRow> {
    let (state, outcome, failure) = match status {
        OperationStatus::Queued => (OperationState::Queued, None, None),
        OperationStatus::Running => (OperationState::Running, None, None),
        OperationStatus::Succeeded(outcome) => (OperationState::Succeeded, Some(json::from_outcome(outcome)?), None),
        OperationStatus::Failed(failure) => (OperationState::Failed, None, Some(json::from_failure(failure)?)),
    };
    Ok(StatusRow { state: state.word().to_owned(), outcome, failure })
}

impl OperationRow {
    fn new(operation: &Operation) -> Read<Self> {
        let fork_owner_id = match &operation.work {
            Work::Fork { owner_id, .. } => Some(owner_id.to_string()),
            _ => None,
        };
        Ok(Self {
            id: operation.id.to_string(),
            database_id: operation.database_id.to_string(),
            kind: operation.work.kind().word().to_owned(),
            work: json::from_work(&operation.work)?,
            // A fork has the same name as the database it is made from.
            fork_name_key: fork_owner_id.is_some().then(|| operation.locator.name.key()),
            fork_owner_id,
            status: status_row(&operation.status)?,
            attempts: operation.attempts.into(),
            created_by: operation.created_by.to_string(),
            created_at: operation.created_at.as_micros(),
            started_at: operation.started_at.map(Timestamp::as_micros),
            finished_at: operation.finished_at.map(Timestamp::as_micros),
            traceparent: operation.trace.map(|trace| trace.to_string()),
        })
    }
}

/// An operation's row with the names of its database and its creator.
type JoinedOperation = (OperationRow, (String, String), String);

fn operation((row, (owner, name), creator): JoinedOperation) -> Read<Operation> {
    let status = match read("operations.state", row.status.state)? {
        OperationState::Queued => OperationStatus::Queued,
        OperationState::Running => OperationStatus::Running,
        OperationState::Succeeded => {
            OperationStatus::Succeeded(json::to_outcome(&present("operations.outcome", row.status.outcome)?)?)
        }
        OperationState::Failed => {
            OperationStatus::Failed(json::to_failure(&present("operations.failure", row.status.failure)?)?)
        }
    };
    Ok(Operation {
        id: read("operations.id", row.id)?,
        database_id: read("operations.database_id", row.database_id)?,
        locator: DatabaseLocator { owner: read("databases.owner_name", owner)?, name: read("databases.name", name)? },
        work: json::to_work(&row.work)?,
        status,
        created_by: read("operations.created_by", row.created_by)?,
        created_by_name: read("accounts.name", creator)?,
        created_at: time(row.created_at),
        started_at: row.started_at.map(time),
        finished_at: row.finished_at.map(time),
        attempts: read("operations.attempts", row.attempts)?,
        trace: read_if("operations.traceparent", row.traceparent)?,
    })
}

/// The query whose rows [`operation`] reads.
macro_rules! joined {
    () => {
        operations::table
            .inner_join(databases::table.on(databases::id.eq(operations::database_id)))
            .inner_join(accounts::table.on(accounts::id.eq(operations::created_by)))
            .select((OperationRow::as_select(), (databases::owner_name, databases::name), accounts::name))
    };
}

/// Lists the operations of `$whose`, newest first. A macro, because the types of the queries differ.
macro_rules! list {
    ($conn:expr, $whose:expr, $filter:expr, $before:expr, $most:expr) => {{
        let mut query = joined!().filter($whose).into_boxed();
        if let Some(state) = $filter.state {
            query = query.filter(operations::state.eq(state.word()));
        }
        if let Some(kinds) = $filter.kinds {
            query = query.filter(operations::kind.eq_any(kinds.iter().map(|kind| kind.word())));
        }
        if let Some(before) = $before {
            query = query.filter(operations::id.lt(before.to_string()));
        }
        let rows: Vec<JoinedOperation> = query.order(operations::id.desc()).limit(limit($most)).load($conn)?;
        all(rows, operation)
    }};
}

fn get(conn: &mut AnyConnection, id: &str) -> std::result::Result<Option<Operation>, StoreError> {
    let row: Option<JoinedOperation> = joined!().filter(operations::id.eq(id.to_owned())).first(conn).optional()?;
    one(row, operation)
}

define_sql_function! {
    /// Returns the first argument that is not null.
    fn coalesce(first: Nullable<BigInt>, second: Nullable<BigInt>) -> Nullable<BigInt>;
}

/// Checks the state of an operation before it is written: a new operation must not be running, and a settled one must
/// be done.
fn want(holds: bool, why: &str) -> Read<()> {
    if holds { Ok(()) } else { Err(Unreadable { column: "operations.state", why: why.to_owned() }) }
}

/// The condition that operations or a collection of a database go before direct writes. A macro, because its type has no name.
macro_rules! held_up {
    ($database:expr, $now:expr) => {{
        use crate::schema::{collections, operations};
        let unsettled =
            operations::table.filter(operations::database_id.eq($database)).filter(operations::finished_at.is_null());
        let collected = collections::table
            .filter(collections::database_id.eq($database))
            .filter(collections::lease_until.gt($now.as_micros()));
        diesel::dsl::exists(unsettled).or(diesel::dsl::exists(collected))
    }};
}
pub(crate) use held_up;

/// Returns the pattern of the holders of leases that belong to a node, with `\` as the escape.
pub(crate) fn holders_of(node: &str) -> String {
    format!("{}/%", node.replace('_', "\\_"))
}

const ADD: &str = "add an operation";

/// Number of operations that are tried when others take them at the same moment.
const LEASE_TRIES: usize = 8;
const LOCK_DATABASE_OF: &str =
    "SELECT 1 FROM databases WHERE id = (SELECT database_id FROM operations WHERE id = $1) FOR NO KEY UPDATE";
/// Leases an operation if it is still as `NextOperation` demands. Nothing else can change it now.
const LEASE: &str = "UPDATE operations
SET state = 'running', lease_holder = ?, lease_until = ?, attempts = attempts + 1, started_at = coalesce(started_at, ?)
WHERE id = ? AND finished_at IS NULL AND (state = 'queued' OR lease_until <= ?)
  AND NOT EXISTS (
      SELECT 1 FROM operations AS r
      WHERE r.database_id = operations.database_id AND r.id <> operations.id AND r.finished_at IS NULL
        AND r.state = 'running' AND r.lease_until > ?)
  AND NOT EXISTS (
      SELECT 1 FROM collections AS c WHERE c.database_id = operations.database_id AND c.lease_until > ?)";

impl OperationRepository for SqlTransaction {
    fn add(&mut self, operation: &Operation) -> Result<()> {
        self.needs(WriteKey::Database(operation.database_id));
        let row = want(!matches!(operation.status, OperationStatus::Running), "running, which only a lease makes")
            .and_then(|()| OperationRow::new(operation));
        let row = row.map_err(|error| StoreError::from(error).into_port(ADD))?;
        let statement = diesel::insert_into(operations::table).values(row);
        self.run_deferred(ADD, Deferred::Insert("operations"), statement)
    }

    fn get(&mut self, id: OperationId) -> Result<Option<Operation>> {
        self.run_apart_from_rights("read an operation", |conn| get(conn, &id.to_string()))
    }

    fn list(
        &mut self,
        database: DatabaseId,
        filter: OperationFilter,
        before: Option<OperationId>,
        most: usize,
    ) -> Result<Vec<Operation>> {
        self.run_apart_from_rights("list operations", |conn| {
            list!(conn, operations::database_id.eq(database.to_string()), filter, before, most)
        })
    }

    fn list_by(
        &mut self,
        creator: AccountId,
        filter: OperationFilter,
        before: Option<OperationId>,
        most: usize,
    ) -> Result<Vec<Operation>> {
        self.run_apart_from_rights("list the operations of a user", |conn| {
            list!(conn, operations::created_by.eq(creator.to_string()), filter, before, most)
        })
    }

    fn nth_newest_of(&mut self, owner: AccountId, after: Timestamp, n: u64) -> Result<Option<Timestamp>> {
        let owned = databases::table.filter(databases::owner_id.eq(owner.to_string())).select(databases::id);
        self.run_apart_from_rights("count the operations of an owner", |conn| {
            let at: Option<i64> = operations::table
                .filter(operations::created_at.gt(after.as_micros()))
                .filter(
                    (operations::fork_owner_id
                        .is_not_null()
                        .and(operations::fork_owner_id.assume_not_null().eq(owner.to_string())))
                    .or(operations::fork_owner_id.is_null().and(operations::database_id.eq_any(owned))),
                )
                .order(operations::created_at.desc())
                .offset(i64::try_from(n.saturating_sub(1)).unwrap_or(i64::MAX))
                .limit(1)
                .select(operations::created_at)
                .first(conn)
                .optional()?;
            Ok(at.map(time))
        })
    }

    fn count_queued(&mut self, database: DatabaseId) -> Result<u64> {
        self.run_apart_from_rights("count queued operations", |conn| {
            let rows = operations::table
                .filter(operations::database_id.eq(database.to_string()))
                .filter(operations::finished_at.is_null())
                .filter(operations::state.eq(OperationState::Queued.word()))
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn is_held_up(&mut self, database: DatabaseId, now: Timestamp) -> Result<bool> {
        self.run_apart_from_rights("look for what holds a database up", |conn| {
            Ok(diesel::select(held_up!(database.to_string(), now)).get_result(conn)?)
        })
    }

    fn pending(&mut self, database: DatabaseId) -> Result<Vec<Operation>> {
        self.run_apart_from_rights("list pending operations", |conn| {
            let rows: Vec<JoinedOperation> = joined!()
                .filter(operations::database_id.eq(database.to_string()))
                .filter(operations::finished_at.is_null())
                .order(operations::id)
                .load(conn)?;
            all(rows, operation)
        })
    }

    fn lease(
        &mut self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        turn: LeaseTurn<'_>,
    ) -> Result<Option<Operation>> {
        let node = Arc::clone(&self.node);
        if node.is_drained() {
            return Ok(None);
        }
        self.run_apart_from_rights("lease an operation", |conn| {
            for _ in 0..LEASE_TRIES {
                let Some(id) = NextOperation::new(now, node.id(), turn).get_result::<Option<String>>(conn)? else {
                    return Ok(None);
                };
                // Other servers choose at the same time, and what they chose may run in the same database. Nothing else is locked yet.
                if let AnyConnection::Pg(conn) = conn {
                    diesel::sql_query(LOCK_DATABASE_OF).bind::<Text, _>(&id).execute(conn)?;
                }
                let now = Parameter::Number(now.as_micros());
                let parameters = vec![
                    Parameter::Text(holder.to_owned()),
                    Parameter::Number(until.as_micros()),
                    now.clone(),
                    Parameter::Text(id.clone()),
                    now.clone(),
                    now.clone(),
                    now,
                ];
                let leased = PreparedSql::<()>::new(LEASE, parameters).execute(conn)?;
                if leased > 0 {
                    return get(conn, &id);
                }
            }
            Ok(None)
        })
    }

    fn extend_lease(&mut self, id: OperationId, holder: &str, until: Timestamp) -> Result<bool> {
        self.run_apart_from_rights("prolong a lease", |conn| {
            let extended = update(operations::table.find(id.to_string()).filter(operations::lease_holder.eq(holder)))
                .set(operations::lease_until.eq(until.as_micros()))
                .execute(conn)?;
            Ok(extended > 0)
        })
    }

    fn settle(&mut self, operation: &Operation, holder: Option<&str>) -> Result<bool> {
        self.needs(WriteKey::Database(operation.database_id));
        self.run_apart_from_rights("settle an operation", |conn| {
            want(operation.settled(), "unsettled, where it ends")?;
            let finished_at = present("operations.finished_at", operation.finished_at)?;
            let settled = (
                status_row(&operation.status)?,
                operations::lease_holder.eq(None::<String>),
                operations::lease_until.eq(None::<i64>),
                operations::started_at.eq(operation.started_at.map(Timestamp::as_micros)),
                operations::finished_at.eq(Some(finished_at.as_micros())),
            );
            let found = operations::table.find(operation.id.to_string());
            let settled = match holder {
                Some(holder) => {
                    let held = found.filter(operations::lease_holder.eq(holder));
                    update(held).set(settled).execute(conn)?
                }
                None => {
                    let queued = found.filter(operations::state.eq(OperationState::Queued.word()));
                    update(queued).set(settled).execute(conn)?
                }
            };
            Ok(settled > 0)
        })
    }

    fn backlog(&mut self) -> Result<OperationBacklog> {
        self.run_apart_from_rights("count operations", |conn| {
            let unsettled = operations::table.filter(operations::finished_at.is_null());
            let of = |state: OperationState| unsettled.filter(operations::state.eq(state.word())).count();
            Ok(OperationBacklog {
                queued: count(of(OperationState::Queued).get_result(conn)?),
                running: count(of(OperationState::Running).get_result(conn)?),
            })
        })
    }

    fn recover(&mut self, node: &str) -> Result<u64> {
        self.run_apart_from_rights("end the leases of a node", |conn| {
            // The operations stay in the state running, so that they come before queued ones, but have no lease holder.
            let ended = diesel::update(
                operations::table
                    .filter(operations::finished_at.is_null())
                    .filter(operations::state.eq(OperationState::Running.word()))
                    .filter(operations::lease_holder.like(holders_of(node)).escape('\\')),
            )
            .set((operations::lease_holder.eq(""), operations::lease_until.eq(i64::MIN)))
            .execute(conn)?;
            Ok(count(i64::try_from(ended).unwrap_or(i64::MAX)))
        })
    }

    fn release(&mut self, holder: &str, counts: bool) -> Result<()> {
        self.run_apart_from_rights("hand an operation back", |conn| {
            let held = operations::table.filter(operations::finished_at.is_null());
            diesel::update(held.filter(operations::lease_holder.eq(holder)))
                .set((
                    operations::attempts.eq(operations::attempts - i64::from(!counts)),
                    operations::state.eq(OperationState::Queued.word()),
                    operations::lease_holder.eq(None::<String>),
                    operations::lease_until.eq(None::<i64>),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn is_forking_to(&mut self, owner: AccountId, name: &DatabaseName) -> Result<bool> {
        self.run_apart_from_rights("find a fork in the making", |conn| {
            let making = operations::table
                .filter(operations::fork_owner_id.eq(owner.to_string()))
                .filter(operations::fork_name_key.eq(name.key()))
                .filter(operations::finished_at.is_null());
            Ok(diesel::select(exists(making)).get_result(conn)?)
        })
    }

    fn replace_work(&mut self, id: OperationId, work: &Work) -> Result<()> {
        self.run_apart_from_rights("replace the input of an operation", |conn| {
            diesel::update(operations::table.filter(operations::id.eq(id.to_string())))
                .set(operations::work.eq(json::from_work(work)?))
                .execute(conn)?;
            Ok(())
        })
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        self.run_apart_from_rights("purge operations", |conn| {
            let removed = diesel::delete(operations::table.filter(operations::finished_at.lt(before.as_micros())))
                .execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }

    fn trim(&mut self, database: DatabaseId, kind: OperationKind, keep: usize) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("remove older operations", |conn| {
            let settled = || {
                operations::table
                    .filter(operations::database_id.eq(database.to_string()))
                    .filter(operations::kind.eq(kind.word()))
                    .filter(operations::finished_at.is_not_null())
            };
            let first: Option<String> = settled()
                .order(operations::id.desc())
                .offset(limit(keep))
                .select(operations::id)
                .first(conn)
                .optional()?;
            let Some(first) = first else { return Ok(0) };
            let removed = diesel::delete(settled().filter(operations::id.le(first))).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }
}
