//! Webhook deliveries, their attempts, and the leases on hooks.

use std::collections::BTreeMap;

use branchyard_domain::entities::{Attempt, DatabaseLocator, Delivery, DeliveryStatus, Hook, Request};
use branchyard_domain::ports::{
    AttemptRepository, DeliveryBacklog, DeliveryRepository, DeliveryState, DueDelivery, Lease, MetadataError, Places,
    WriteKey,
};
use branchyard_domain::values::{DeliveryId, HookId, Timestamp};
use diesel::dsl::min;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable};

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, count, limit, one, present, read, read_if, signed, time};
use crate::error::StoreResult;
use crate::events::TRACEPARENT;
use crate::hooks::HookHealth;
use crate::schema::{attempts, databases, deliveries, events, hooks};
use crate::static_sql::{Fixed, fixed};
use crate::transaction::SqlTransaction;
use crate::update::update;
use crate::{hooks as hook_rows, json};

type Result<T> = std::result::Result<T, MetadataError>;

const SENT_HEADERS: &str = "deliveries.sent_headers";
const RESPONSE_HEADERS: &str = "attempts.response_headers";

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = deliveries)]
struct DeliveryRow {
    id: String,
    hook_id: String,
    event_id: String,
    event_name: String,
    created_at: i64,
    #[diesel(embed)]
    progress: ProgressRow,
}

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = deliveries, treat_none_as_null = true)]
struct ProgressRow {
    state: String,
    next_attempt_at: Option<i64>,
    finished_at: Option<i64>,
    attempt_count: i64,
    run_attempts: i64,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = attempts)]
struct AttemptRow {
    delivery_id: String,
    number: i64,
    id: String,
    started_at: i64,
    duration_ms: i64,
    response_status: Option<i64>,
    response_headers: Option<String>,
    response_body: Option<Vec<u8>>,
    error: Option<String>,
}

fn progress_row(delivery: &Delivery) -> ProgressRow {
    let (state, next_attempt_at, finished_at) = match delivery.status {
        DeliveryStatus::Pending { next_attempt_at } => (DeliveryState::Pending, Some(next_attempt_at), None),
        DeliveryStatus::Delivered { finished_at } => (DeliveryState::Delivered, None, Some(finished_at)),
        DeliveryStatus::Failed { finished_at } => (DeliveryState::Failed, None, Some(finished_at)),
    };
    ProgressRow {
        state: state.word().to_owned(),
        next_attempt_at: next_attempt_at.map(Timestamp::as_micros),
        finished_at: finished_at.map(Timestamp::as_micros),
        attempt_count: delivery.attempt_count.into(),
        run_attempts: delivery.run_attempts.into(),
    }
}

fn delivery(row: DeliveryRow) -> Read<Delivery> {
    let ProgressRow { state, next_attempt_at, finished_at, attempt_count, run_attempts } = row.progress;
    let finished = |at| present("deliveries.finished_at", at).map(time);
    let status = match read("deliveries.state", state)? {
        DeliveryState::Pending => {
            DeliveryStatus::Pending { next_attempt_at: time(present("deliveries.next_attempt_at", next_attempt_at)?) }
        }
        DeliveryState::Delivered => DeliveryStatus::Delivered { finished_at: finished(finished_at)? },
        DeliveryState::Failed => DeliveryStatus::Failed { finished_at: finished(finished_at)? },
    };
    Ok(Delivery {
        id: read("deliveries.id", row.id)?,
        hook_id: read("deliveries.hook_id", row.hook_id)?,
        event_id: read("deliveries.event_id", row.event_id)?,
        event: read("deliveries.event_name", row.event_name)?,
        status,
        created_at: time(row.created_at),
        attempt_count: read("deliveries.attempt_count", attempt_count)?,
        run_attempts: read("deliveries.run_attempts", run_attempts)?,
    })
}

fn attempt(row: AttemptRow) -> Read<Attempt> {
    Ok(Attempt {
        id: read("attempts.id", row.id)?,
        started_at: time(row.started_at),
        duration_ms: read("attempts.duration_ms", row.duration_ms)?,
        response_status: read_if("attempts.response_status", row.response_status)?,
        response_headers: row.response_headers.map(|text| json::to_headers(RESPONSE_HEADERS, &text)).transpose()?,
        response_body: row.response_body.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        error: read_if("attempts.error", row.error)?,
    })
}

/// Returns the newest delivery of a hook.
pub(crate) fn last(conn: &mut AnyConnection, hook: &str) -> StoreResult<Option<Delivery>> {
    let row = deliveries::table
        .filter(deliveries::hook_id.eq(hook))
        .order(deliveries::id.desc())
        .select(DeliveryRow::as_select())
        .first(conn)
        .optional()?;
    one(row, delivery)
}

/// The time at which a hook is due: the earliest time of its pending deliveries.
const DUE_AT: Fixed<Nullable<BigInt>> =
    fixed("(SELECT min(d.next_attempt_at) FROM deliveries AS d WHERE d.hook_id = hooks.id AND d.state = 'pending')");
/// The condition that a delivery is pending, spelled as in the partial indexes. With a parameter, SQLite would prepare
/// the statement again for each value to check whether the indexes apply.
const PENDING: Fixed<Bool> = fixed("deliveries.state = 'pending'");
/// Maximum number of hooks or deliveries that one statement names.
const AT_ONCE: usize = 500;

/// Updates the due time of a hook whose deliveries changed.
fn note_due(conn: &mut AnyConnection, hook: &str) -> StoreResult<()> {
    update(hooks::table.find(hook)).set(hooks::due_at.eq(DUE_AT)).execute(conn)?;
    Ok(())
}

/// Returns the first due deliveries of a hook in the order of their ids, with the bodies of their events.
fn first_due(conn: &mut AnyConnection, hook: HookId, now: i64, most: usize) -> StoreResult<Vec<DueDelivery>> {
    let rows: Vec<(DeliveryRow, String, Option<String>)> = deliveries::table
        .inner_join(events::table.on(events::id.eq(deliveries::event_id)))
        .filter(deliveries::hook_id.eq(hook.to_string()))
        .filter(PENDING)
        .filter(deliveries::next_attempt_at.le(now))
        .order(deliveries::id)
        .limit(limit(most))
        .select((DeliveryRow::as_select(), events::body, events::traceparent))
        .load(conn)?;
    all(rows, |(row, body, trace)| {
        Ok(DueDelivery { delivery: delivery(row)?, body, trace: read_if(TRACEPARENT, trace)? })
    })
}

/// Returns the owner and the name of a hook's database.
fn database_of(conn: &mut AnyConnection, hook: &Hook) -> StoreResult<DatabaseLocator> {
    let row: (String, String) = databases::table
        .find(hook.database_id.to_string())
        .select((databases::owner_name, databases::name))
        .first(conn)?;
    let (owner, name) = row;
    Ok(DatabaseLocator { owner: read("databases.owner_name", owner)?, name: read("databases.name", name)? })
}

impl DeliveryRepository for SqlTransaction {
    fn add(&mut self, added: &[Delivery]) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("queue deliveries", |conn| {
            // Grouped by due time, which is nearly always the same for all.
            let mut due = BTreeMap::<i64, Vec<String>>::new();
            for delivery in added {
                let row = DeliveryRow {
                    id: delivery.id.to_string(),
                    hook_id: delivery.hook_id.to_string(),
                    event_id: delivery.event_id.to_string(),
                    event_name: delivery.event.word().to_owned(),
                    created_at: delivery.created_at.as_micros(),
                    progress: progress_row(delivery),
                };
                if let Some(at) = row.progress.next_attempt_at {
                    due.entry(at).or_default().push(row.hook_id.clone());
                }
                diesel::insert_into(deliveries::table).values(row).execute(conn)?;
            }
            for (at, ids) in due {
                for ids in ids.chunks(AT_ONCE) {
                    let later = hooks::table
                        .filter(hooks::id.eq_any(ids))
                        .filter(hooks::due_at.is_null().or(hooks::due_at.gt(at)));
                    diesel::update(later).set(hooks::due_at.eq(at)).execute(conn)?;
                }
            }
            Ok(())
        })
    }

    fn get_all(&mut self, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
        self.run_apart_from_rights("read deliveries", |conn| {
            let mut found = Vec::with_capacity(ids.len());
            for chunk in ids.chunks(AT_ONCE) {
                let rows = deliveries::table
                    .filter(deliveries::id.eq_any(chunk.iter().map(ToString::to_string)))
                    .select(DeliveryRow::as_select())
                    .load(conn)?;
                found.extend(all(rows, delivery)?);
            }
            Ok(found)
        })
    }

    fn get(&mut self, hook: HookId, id: DeliveryId) -> Result<Option<Delivery>> {
        self.run_apart_from_rights("read a delivery", |conn| {
            let row = deliveries::table
                .find(id.to_string())
                .filter(deliveries::hook_id.eq(hook.to_string()))
                .select(DeliveryRow::as_select())
                .first(conn)
                .optional()?;
            one(row, delivery)
        })
    }

    fn list(
        &mut self,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        most: usize,
    ) -> Result<Vec<Delivery>> {
        self.run_apart_from_rights("list deliveries", |conn| {
            let mut query = deliveries::table.filter(deliveries::hook_id.eq(hook.to_string())).into_boxed();
            if let Some(state) = state {
                query = query.filter(deliveries::state.eq(state.word()));
            }
            if let Some(before) = before {
                query = query.filter(deliveries::id.lt(before.to_string()));
            }
            let rows =
                query.order(deliveries::id.desc()).limit(limit(most)).select(DeliveryRow::as_select()).load(conn)?;
            all(rows, delivery)
        })
    }

    fn request(&mut self, id: DeliveryId) -> Result<Option<(Option<Request>, String)>> {
        self.run_apart_from_rights("read what a delivery sent", |conn| {
            let row: Option<(Option<String>, Option<String>, String)> = deliveries::table
                .inner_join(events::table.on(events::id.eq(deliveries::event_id)))
                .filter(deliveries::id.eq(id.to_string()))
                .select((deliveries::sent_url, deliveries::sent_headers, events::body))
                .first(conn)
                .optional()?;
            one(row, |(url, headers, body)| {
                let request = match url {
                    None => None,
                    Some(url) => {
                        let headers = json::to_headers(SENT_HEADERS, &present(SENT_HEADERS, headers)?)?;
                        Some(Request { url, headers })
                    }
                };
                Ok((request, body))
            })
        })
    }

    fn update(&mut self, delivery: &Delivery) -> Result<bool> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("change a delivery", |conn| {
            let changed =
                update(deliveries::table.find(delivery.id.to_string())).set(progress_row(delivery)).execute(conn)?;
            note_due(conn, &delivery.hook_id.to_string())?;
            Ok(changed > 0)
        })
    }

    fn give_up(&mut self, hook: HookId, at: Timestamp) -> Result<u64> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("give deliveries up", |conn| {
            let hook = hook.to_string();
            let pending = deliveries::table.filter(deliveries::hook_id.eq(&hook)).filter(PENDING);
            let given_up = diesel::update(pending)
                .set((
                    deliveries::state.eq(DeliveryState::Failed.word()),
                    deliveries::next_attempt_at.eq(None::<i64>),
                    deliveries::finished_at.eq(Some(at.as_micros())),
                ))
                .execute(conn)?;
            note_due(conn, &hook)?;
            Ok(count(i64::try_from(given_up).unwrap_or(i64::MAX)))
        })
    }

    fn is_due(&mut self, now: Timestamp, places: Places<'_>) -> Result<bool> {
        self.run_apart_from_rights("look for due deliveries", |conn| {
            let now = now.as_micros();
            let held_back = places.held_back.min(1);
            for (standing, most) in [
                (HookHealth::Well(places.slow), places.hooks.min(1)),
                (HookHealth::Failing, held_back),
                (HookHealth::Slow(places.slow), held_back),
            ] {
                if !hook_rows::due(conn, now, standing, most)?.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn lease(&mut self, holder: &str, now: Timestamp, until: Timestamp, places: Places<'_>) -> Result<Vec<Lease>> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("lease hooks", |conn| {
            let now = now.as_micros();
            let is_held_back = |hook: &Hook| hook.failing_since.is_some() || places.slow.contains(&hook.id);
            let oldest_first = |due: &mut Vec<(i64, Hook)>, most| {
                due.sort_unstable_by_key(|(at, hook)| (*at, hook.id));
                due.truncate(most);
            };
            let most = places.held_back.min(places.hooks);
            let mut held_back = hook_rows::due(conn, now, HookHealth::Failing, most)?;
            held_back.extend(hook_rows::due(conn, now, HookHealth::Slow(places.slow), most)?);
            oldest_first(&mut held_back, most);
            let mut due = hook_rows::due(conn, now, HookHealth::Well(places.slow), places.hooks)?;
            due.extend(held_back);
            oldest_first(&mut due, places.hooks);
            let mut leases = Vec::with_capacity(due.len());
            for (_, hook) in due {
                let run = if is_held_back(&hook) { 1 } else { places.run };
                let deliveries = first_due(conn, hook.id, now, run)?;
                if !deliveries.is_empty() {
                    let database = database_of(conn, &hook)?;
                    leases.push(Lease { hook, database, deliveries, until });
                }
            }
            for chunk in leases.chunks(AT_ONCE) {
                let ids = chunk.iter().map(|lease| lease.hook.id.to_string());
                diesel::update(hooks::table.filter(hooks::id.eq_any(ids)))
                    .set((hooks::lease_holder.eq(holder), hooks::lease_until.eq(until.as_micros())))
                    .execute(conn)?;
            }
            Ok(leases)
        })
    }

    fn held(&mut self, holder: &str, leases: &[(HookId, Timestamp)]) -> Result<Vec<(Hook, Timestamp)>> {
        self.run_apart_from_rights("read leased hooks", |conn| {
            let mut held = Vec::with_capacity(leases.len());
            for chunk in leases.chunks(AT_ONCE) {
                let found = hook_rows::held(conn, holder, chunk.iter().map(|(hook, _)| hook.to_string()))?;
                held.extend(found.into_iter().filter(|(hook, until)| chunk.contains(&(hook.id, *until))));
            }
            Ok(held)
        })
    }

    fn release(&mut self, released: &[HookId]) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("release hooks", |conn| {
            for chunk in released.chunks(AT_ONCE) {
                diesel::update(hooks::table.filter(hooks::id.eq_any(chunk.iter().map(ToString::to_string))))
                    .set((
                        hooks::lease_holder.eq(None::<String>),
                        hooks::lease_until.eq(None::<i64>),
                        hooks::due_at.eq(DUE_AT),
                    ))
                    .execute(conn)?;
            }
            Ok(())
        })
    }

    fn recover(&mut self, holder: &str) -> Result<u64> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("release the hooks of a holder", |conn| {
            let released = diesel::update(hooks::table.filter(hooks::lease_holder.eq(holder)))
                .set((hooks::lease_holder.eq(None::<String>), hooks::lease_until.eq(None::<i64>)))
                .execute(conn)?;
            Ok(count(i64::try_from(released).unwrap_or(i64::MAX)))
        })
    }

    fn backlog(&mut self, now: Timestamp) -> Result<DeliveryBacklog> {
        self.run_apart_from_rights("count what is due", |conn| {
            let now = now.as_micros();
            let waiting = events::table.filter(events::dispatched_at.is_null()).count().get_result(conn)?;
            let pending = deliveries::table.filter(PENDING);
            let due = pending.filter(deliveries::next_attempt_at.le(now)).count().get_result(conn)?;
            let oldest: Option<i64> =
                hooks::table.filter(hooks::due_at.le(now)).select(min(hooks::due_at)).first(conn)?;
            Ok(DeliveryBacklog { events: count(waiting), due: count(due), oldest_due_at: oldest.map(time) })
        })
    }

    fn purge(&mut self, before: Timestamp, most: usize) -> Result<u64> {
        self.run_apart_from_rights("purge deliveries", |conn| {
            let old: Vec<String> = deliveries::table
                .filter(deliveries::finished_at.lt(before.as_micros()))
                .order(deliveries::finished_at)
                .limit(limit(most))
                .select(deliveries::id)
                .load(conn)?;
            let removed = diesel::delete(deliveries::table.filter(deliveries::id.eq_any(old))).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }
}

impl AttemptRepository for SqlTransaction {
    fn list(&mut self, delivery: DeliveryId) -> Result<Vec<Attempt>> {
        self.run_apart_from_rights("list attempts", |conn| {
            let rows = attempts::table
                .filter(attempts::delivery_id.eq(delivery.to_string()))
                .order(attempts::number)
                .select(AttemptRow::as_select())
                .load(conn)?;
            all(rows, attempt)
        })
    }

    fn add(&mut self, delivery: &Delivery, attempt: &Attempt, request: &Request, keep: usize) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("log an attempt", |conn| {
            let id = delivery.id.to_string();
            let number = i64::from(delivery.attempt_count);
            let headers = attempt.response_headers.as_deref();
            let row = AttemptRow {
                delivery_id: id.clone(),
                number,
                id: attempt.id.to_string(),
                started_at: attempt.started_at.as_micros(),
                duration_ms: signed("attempts.duration_ms", attempt.duration_ms)?,
                response_status: attempt.response_status.map(Into::into),
                response_headers: headers.map(|headers| json::from_headers(RESPONSE_HEADERS, headers)).transpose()?,
                response_body: attempt.response_body.as_ref().map(|body| body.clone().into_bytes()),
                error: attempt.error.map(|error| error.word().to_owned()),
            };
            diesel::insert_into(attempts::table).values(row).execute(conn)?;
            let surplus = number - limit(keep);
            if surplus > 0 {
                let of_delivery = attempts::table.filter(attempts::delivery_id.eq(&id));
                diesel::delete(of_delivery.filter(attempts::number.le(surplus))).execute(conn)?;
            }
            update(deliveries::table.find(&id))
                .set((
                    progress_row(delivery),
                    deliveries::sent_url.eq(&request.url),
                    deliveries::sent_headers.eq(json::from_headers(SENT_HEADERS, &request.headers)?),
                ))
                .execute(conn)?;
            Ok(())
        })
    }
}
