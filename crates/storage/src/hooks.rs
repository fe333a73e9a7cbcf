//! Hooks.

use std::collections::{BTreeMap, BTreeSet};

use branchyard_domain::entities::{Delivery, Hook, HookEvent, PreviousSecret, Sealed};
use branchyard_domain::ports::{HookRepository, MetadataError, WriteKey};
use branchyard_domain::values::{DatabaseId, DeliveryId, HookId, Timestamp};
use diesel::dsl::{count_star, exists, not};
use diesel::prelude::*;
use diesel::sql_types::{Nullable, Text};

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, count, limit, one, present, read, read_if, time};
use crate::deliveries;
use crate::error::StoreResult;
use crate::schema::{databases, events, hooks};
use crate::static_sql::fixed;
use crate::transaction::SqlTransaction;
use crate::update::update;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = hooks)]
struct HookRow {
    id: String,
    database_id: String,
    created_at: i64,
    #[diesel(embed)]
    settings: SettingsRow,
}

/// The columns that can change.
#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = hooks, treat_none_as_null = true)]
struct SettingsRow {
    url: String,
    on_push: bool,
    on_pull_request: bool,
    on_branch: bool,
    active: bool,
    disabled_reason: Option<String>,
    secret_key_id: String,
    secret: Vec<u8>,
    previous_key_id: Option<String>,
    previous_secret: Option<Vec<u8>>,
    previous_until: Option<i64>,
    failing_since: Option<i64>,
    exhausted: bool,
    updated_at: i64,
}

fn settings_row(hook: &Hook) -> SettingsRow {
    let previous = hook.previous_secret.as_ref();
    SettingsRow {
        url: hook.url.clone(),
        on_push: hook.events.contains(&HookEvent::Push),
        on_pull_request: hook.events.contains(&HookEvent::PullRequest),
        on_branch: hook.events.contains(&HookEvent::Branch),
        active: hook.active,
        disabled_reason: hook.disabled_reason.map(|reason| reason.word().to_owned()),
        secret_key_id: hook.secret.key_id.clone(),
        secret: hook.secret.bytes.clone(),
        previous_key_id: previous.map(|previous| previous.secret.key_id.clone()),
        previous_secret: previous.map(|previous| previous.secret.bytes.clone()),
        previous_until: previous.map(|previous| previous.until.as_micros()),
        failing_since: hook.failing_since.map(Timestamp::as_micros),
        exhausted: hook.exhausted,
        updated_at: hook.updated_at.as_micros(),
    }
}

fn hook(row: HookRow) -> Read<Hook> {
    let SettingsRow {
        url,
        on_push,
        on_pull_request,
        on_branch,
        active,
        disabled_reason,
        secret_key_id,
        secret,
        previous_key_id,
        previous_secret,
        previous_until,
        failing_since,
        exhausted,
        updated_at,
    } = row.settings;
    let wanted =
        [(on_push, HookEvent::Push), (on_pull_request, HookEvent::PullRequest), (on_branch, HookEvent::Branch)];
    let previous_secret = match previous_secret {
        None => None,
        Some(bytes) => Some(PreviousSecret {
            secret: Sealed { key_id: present("hooks.previous_key_id", previous_key_id)?, bytes },
            until: time(present("hooks.previous_until", previous_until)?),
        }),
    };
    Ok(Hook {
        id: read("hooks.id", row.id)?,
        database_id: read("hooks.database_id", row.database_id)?,
        url,
        events: wanted.into_iter().filter_map(|(is, event)| is.then_some(event)).collect::<BTreeSet<_>>(),
        active,
        disabled_reason: read_if("hooks.disabled_reason", disabled_reason)?,
        secret: Sealed { key_id: secret_key_id, bytes: secret },
        previous_secret,
        failing_since: failing_since.map(time),
        exhausted,
        created_at: time(row.created_at),
        updated_at: time(updated_at),
    })
}

fn get(conn: &mut AnyConnection, id: &str) -> StoreResult<Option<Hook>> {
    let row = hooks::table.find(id.to_owned()).select(HookRow::as_select()).first(conn).optional()?;
    one(row, hook)
}

/// A selection of hooks by the outcome of their last attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookHealth<'a> {
    /// Hooks whose last attempt succeeded, except these slow hooks.
    Well(&'a [HookId]),
    /// These slow hooks, if their last attempt succeeded.
    Slow(&'a [HookId]),
    /// Hooks whose last attempt failed.
    Failing,
}

/// Returns the hooks of databases that are not quarantined that have a due delivery and no live lease, with the time at which they became due, longest
/// overdue first.
pub(crate) fn due(
    conn: &mut AnyConnection,
    now: i64,
    standing: HookHealth<'_>,
    most: usize,
) -> StoreResult<Vec<(i64, Hook)>> {
    if most == 0 || standing == HookHealth::Slow(&[]) {
        return Ok(Vec::new());
    }
    let free = hooks::table
        .filter(hooks::due_at.le(now))
        .filter(hooks::lease_until.is_null().or(hooks::lease_until.le(now)))
        .filter(not(exists(
            databases::table
                .filter(databases::id.eq(hooks::database_id))
                .filter(databases::quarantined_at.is_not_null()),
        )))
        .into_boxed();
    let ids = |hooks: &[HookId]| hooks.iter().map(ToString::to_string).collect::<Vec<_>>();
    // Each of the two conditions on `failing_since` has a partial index.
    let wanted = match standing {
        HookHealth::Failing => free.filter(hooks::failing_since.is_not_null()),
        HookHealth::Well([]) => free.filter(hooks::failing_since.is_null()),
        HookHealth::Well(slow) => free.filter(hooks::failing_since.is_null()).filter(hooks::id.ne_all(ids(slow))),
        HookHealth::Slow(slow) => free.filter(hooks::failing_since.is_null()).filter(hooks::id.eq_any(ids(slow))),
    };
    let rows: Vec<(i64, HookRow)> = wanted
        .order((hooks::due_at, hooks::id))
        .limit(limit(most))
        .select((hooks::due_at.assume_not_null(), HookRow::as_select()))
        .load(conn)?;
    all(rows, |(due, row)| Ok((due, hook(row)?)))
}

/// Returns those of the given hooks whose lease `holder` has, with the end of the lease.
pub(crate) fn held(
    conn: &mut AnyConnection,
    holder: &str,
    ids: impl Iterator<Item = String>,
) -> StoreResult<Vec<(Hook, Timestamp)>> {
    let rows: Vec<(HookRow, Option<i64>)> = hooks::table
        .filter(hooks::id.eq_any(ids))
        .filter(hooks::lease_holder.eq(holder))
        .select((HookRow::as_select(), hooks::lease_until))
        .load(conn)?;
    all(rows, |(row, until)| Ok((hook(row)?, time(present("hooks.lease_until", until)?))))
}

/// The id of the newest delivery of a hook.
const LAST_DELIVERY: &str = "(SELECT max(d.id) FROM deliveries AS d WHERE d.hook_id = hooks.id)";

impl HookRepository for SqlTransaction {
    fn add(&mut self, hook: &Hook) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("add a hook", |conn| {
            let row = HookRow {
                id: hook.id.to_string(),
                database_id: hook.database_id.to_string(),
                created_at: hook.created_at.as_micros(),
                settings: settings_row(hook),
            };
            diesel::insert_into(hooks::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, database: DatabaseId, id: HookId) -> Result<Option<Hook>> {
        self.run_apart_from_rights("read a hook", |conn| {
            Ok(get(conn, &id.to_string())?.filter(|hook| hook.database_id == database))
        })
    }

    fn list(
        &mut self,
        database: DatabaseId,
        after: Option<HookId>,
        most: usize,
    ) -> Result<Vec<(Hook, Option<Delivery>)>> {
        self.run_apart_from_rights("list hooks", |conn| {
            let mut query = hooks::table.filter(hooks::database_id.eq(database.to_string())).into_boxed();
            if let Some(after) = after {
                query = query.filter(hooks::id.gt(after.to_string()));
            }
            let rows = query.order(hooks::id).limit(limit(most)).select(HookRow::as_select()).load(conn)?;
            let mut found = Vec::with_capacity(rows.len());
            for hook in all(rows, hook)? {
                let last = deliveries::last(conn, &hook.id.to_string())?;
                found.push((hook, last));
            }
            Ok(found)
        })
    }

    fn count(&mut self, database: DatabaseId) -> Result<u64> {
        self.run_apart_from_rights("count hooks", |conn| {
            Ok(count(hooks::table.filter(hooks::database_id.eq(database.to_string())).count().get_result(conn)?))
        })
    }

    fn update(&mut self, hook: &Hook) -> Result<bool> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("change a hook", |conn| {
            let changed = update(hooks::table.find(hook.id.to_string())).set(settings_row(hook)).execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn remove(&mut self, id: HookId) -> Result<bool> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("remove a hook", |conn| {
            Ok(diesel::delete(hooks::table.find(id.to_string())).execute(conn)? > 0)
        })
    }

    fn clear(&mut self, database: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("remove the hooks of a database", |conn| {
            let database = database.to_string();
            diesel::delete(hooks::table.filter(hooks::database_id.eq(&database))).execute(conn)?;
            diesel::delete(events::table.filter(events::database_id.eq(&database))).execute(conn)?;
            Ok(())
        })
    }

    fn list_sealed_otherwise(&mut self, key_id: &str, after: Option<HookId>, most: usize) -> Result<Vec<Hook>> {
        self.run_apart_from_rights("find hooks by their key", |conn| {
            let mut query = hooks::table
                .filter(hooks::secret_key_id.ne(key_id).or(hooks::previous_key_id.assume_not_null().ne(key_id)))
                .into_boxed();
            if let Some(after) = after {
                query = query.filter(hooks::id.gt(after.to_string()));
            }
            let rows = query.order(hooks::id).limit(limit(most)).select(HookRow::as_select()).load(conn)?;
            all(rows, hook)
        })
    }

    fn count_by_key(&mut self) -> Result<Vec<(String, u64)>> {
        self.run_apart_from_rights("count hooks by their keys", |conn| {
            let rows: Vec<(String, Option<String>, i64)> = hooks::table
                .group_by((hooks::secret_key_id, hooks::previous_key_id))
                .select((hooks::secret_key_id, hooks::previous_key_id, count_star()))
                .load(conn)?;
            let mut counts = BTreeMap::new();
            for (present, previous, hooks) in rows {
                for key in previous.into_iter().filter(|previous| *previous != present).chain([present.clone()]) {
                    *counts.entry(key).or_insert(0) += count(hooks);
                }
            }
            Ok(counts.into_iter().collect())
        })
    }

    fn list_subscribed(&mut self, database: DatabaseId, event: HookEvent) -> Result<Vec<(HookId, Option<DeliveryId>)>> {
        self.run_apart_from_rights("find the hooks of an event", |conn| {
            let active = hooks::table
                .filter(hooks::database_id.eq(database.to_string()))
                .filter(hooks::active.eq(true))
                .into_boxed();
            let wanting = match event {
                HookEvent::Push => active.filter(hooks::on_push.eq(true)),
                HookEvent::PullRequest => active.filter(hooks::on_pull_request.eq(true)),
                HookEvent::Branch => active.filter(hooks::on_branch.eq(true)),
            };
            let rows: Vec<(String, Option<String>)> =
                wanting.order(hooks::id).select((hooks::id, fixed::<Nullable<Text>>(LAST_DELIVERY))).load(conn)?;
            all(rows, |(id, last)| Ok((read("hooks.id", id)?, read_if("deliveries.id", last)?)))
        })
    }
}
