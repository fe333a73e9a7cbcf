//! The ledger of deployments.

use branchyard_deployments::entities::{Interval, Metered};
use branchyard_deployments::ports::LedgerRepository;
use branchyard_deployments::values::{DeploymentId, InstanceId, Usd};
use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::dsl::max;
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, one, read, time};
use crate::error::StoreError;
use crate::schema::intervals;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = intervals)]
struct IntervalRow {
    instance_id: String,
    kind: String,
    number: i64,
    owner_id: String,
    deployment_id: String,
    instance_index: i64,
    type_id: String,
    rate: i64,
    opened_at: i64,
    proven_at: Option<i64>,
    closed_at: Option<i64>,
}

fn interval(row: IntervalRow) -> Read<Interval> {
    Ok(Interval {
        owner_id: read("intervals.owner_id", row.owner_id)?,
        deployment_id: read("intervals.deployment_id", row.deployment_id)?,
        instance_id: read("intervals.instance_id", row.instance_id)?,
        instance_index: read("intervals.instance_index", row.instance_index)?,
        kind: read("intervals.kind", row.kind)?,
        type_id: row.type_id,
        rate: Usd::from_nanos(row.rate),
        opened_at: time(row.opened_at),
        proven_at: row.proven_at.map(time),
        closed_at: row.closed_at.map(time),
    })
}

/// Returns the intervals of `$whose` that overlap a range. A macro, because the types of the queries differ.
macro_rules! touching {
    ($conn:expr, $whose:expr, $from:expr, $to:expr) => {{
        let rows: Vec<IntervalRow> = intervals::table
            .filter($whose)
            .filter(intervals::closed_at.is_null().or(intervals::closed_at.gt($from.as_micros())))
            .filter(intervals::opened_at.lt($to.as_micros()))
            .order((
                intervals::deployment_id,
                intervals::instance_index,
                intervals::instance_id,
                intervals::kind,
                intervals::number,
            ))
            .select(IntervalRow::as_select())
            .load($conn)?;
        all(rows, interval)
    }};
}

fn current(
    conn: &mut AnyConnection,
    instance: InstanceId,
    kind: Metered,
) -> std::result::Result<Option<IntervalRow>, StoreError> {
    let found = intervals::table
        .filter(intervals::instance_id.eq(instance.to_string()))
        .filter(intervals::kind.eq(kind.word()))
        .filter(intervals::closed_at.is_null())
        .select(IntervalRow::as_select())
        .first(conn)
        .optional()?;
    Ok(found)
}

impl LedgerRepository for SqlTransaction {
    fn open(&mut self, interval: &Interval) -> Result<()> {
        self.run_unless_taken("open an interval", |conn| {
            let instance_id = interval.instance_id.to_string();
            let last: Option<i64> = intervals::table
                .filter(intervals::instance_id.eq(&instance_id))
                .filter(intervals::kind.eq(interval.kind.word()))
                .select(max(intervals::number))
                .first(conn)?;
            let row = IntervalRow {
                instance_id,
                kind: interval.kind.word().to_owned(),
                number: last.map_or(1, |last| last + 1),
                owner_id: interval.owner_id.to_string(),
                deployment_id: interval.deployment_id.to_string(),
                instance_index: interval.instance_index.into(),
                type_id: interval.type_id.clone(),
                rate: interval.rate.as_nanos(),
                opened_at: interval.opened_at.as_micros(),
                proven_at: interval.proven_at.map(Timestamp::as_micros),
                closed_at: interval.closed_at.map(Timestamp::as_micros),
            };
            diesel::insert_into(intervals::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn current(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Interval>> {
        self.run("find an open interval", |conn| one(current(conn, instance, kind)?, interval))
    }

    fn last_end(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Timestamp>> {
        self.run("find the end of an interval", |conn| {
            let end: Option<i64> = intervals::table
                .filter(intervals::instance_id.eq(instance.to_string()))
                .filter(intervals::kind.eq(kind.word()))
                .select(max(intervals::closed_at))
                .first(conn)?;
            Ok(end.map(time))
        })
    }

    fn close(&mut self, instance: InstanceId, kind: Metered, at: Timestamp) -> Result<bool> {
        self.run("close an interval", |conn| {
            let Some(row) = current(conn, instance, kind)? else { return Ok(false) };
            let key = (row.instance_id.clone(), row.kind.clone(), row.number);
            let end = interval(row)?.end_at(at);
            diesel::update(intervals::table.find(key))
                .set(intervals::closed_at.eq(Some(end.as_micros())))
                .execute(conn)?;
            Ok(true)
        })
    }

    fn prove(&mut self, instance: InstanceId, at: Timestamp) -> Result<()> {
        self.run("prove an interval", |conn| {
            let open = intervals::table
                .filter(intervals::instance_id.eq(instance.to_string()))
                .filter(intervals::kind.eq(Metered::Compute.word()))
                .filter(intervals::closed_at.is_null());
            diesel::update(open).set(intervals::proven_at.eq(Some(at.as_micros()))).execute(conn)?;
            Ok(())
        })
    }

    fn list(&mut self, deployment: DeploymentId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>> {
        self.run("list the intervals of a deployment", |conn| {
            touching!(conn, intervals::deployment_id.eq(deployment.to_string()), from, to)
        })
    }

    fn list_of_owner(&mut self, owner: AccountId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>> {
        self.run("list the intervals of an owner", |conn| {
            touching!(conn, intervals::owner_id.eq(owner.to_string()), from, to)
        })
    }
}
