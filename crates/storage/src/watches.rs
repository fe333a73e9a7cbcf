//! Marks of what open pages follow, in one statement for any number of pages.
//!
//! The parameter of a statement is a JSON array of keys: the place in the array, the kind, and up to two ids, all as texts. The rows
//! are parts of marks. A mark is the text of all its parts in ascending order, so the statements need no aggregates that the engines
//! name differently.

use std::collections::BTreeMap;

use branchyard_deployments::ports::{DeploymentWatchKey, DeploymentWatchMarks};
use branchyard_domain::ports::{MetadataError, WatchKey, WatchMarks};
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::connection::AnyConnection;
use crate::prepared::{Parameter, PreparedSql};
use crate::store::Store;
use crate::transaction::SqlTransaction;

/// Returns a statement in the words of both engines: Postgres, then SQLite. `k` is the table of the keys.
macro_rules! over_keys {
    ($statement:expr) => {
        (
            concat!(
                "WITH k AS MATERIALIZED (SELECT e.value ->> 0 AS n, e.value ->> 1 AS kind, e.value ->> 2 AS one, e.value ->> 3 AS two \
                 FROM jsonb_array_elements(CAST(? AS JSONB)) AS e (value)) ",
                $statement
            ),
            concat!(
                "WITH k AS MATERIALIZED (SELECT e.value ->> 0 AS n, e.value ->> 1 AS kind, e.value ->> 2 AS one, e.value ->> 3 AS two \
                 FROM json_each(?) AS e) ",
                $statement
            ),
        )
    };
}

/// The statement of [`WatchKey`]s.
const MARKS: (&str, &str) = over_keys!(
    "SELECT k.n, coalesce(CAST(u.suspended_at AS TEXT), '') || ' ' || CAST(u.is_admin AS TEXT) \
        FROM k JOIN sessions AS s ON s.id = k.one JOIN users AS u ON u.id = s.user_id WHERE k.kind = 'session' \
     UNION ALL SELECT k.n, coalesce(CAST(d.deleted_at AS TEXT), '') || ' ' || coalesce(CAST(d.quarantined_at AS TEXT), '') \
        || ' ' || d.visibility || ' ' || d.owner_id || ' ' || coalesce(m.role, '') || ' ' || coalesce(o.base_role, '') \
        || ' ' || coalesce(c.role, '') \
        FROM k JOIN databases AS d ON d.id = k.one \
        LEFT JOIN members AS m ON m.organization_id = d.owner_id AND m.user_id = k.two \
        LEFT JOIN organizations AS o ON o.id = m.organization_id \
        LEFT JOIN collaborators AS c ON c.database_id = d.id AND c.user_id = k.two WHERE k.kind = 'rights' \
     UNION ALL SELECT k.n, o.state || ' ' || CAST(o.attempts AS TEXT) \
        FROM k JOIN operations AS o ON o.id = k.one WHERE k.kind = 'operation' \
     UNION ALL SELECT k.n, (SELECT coalesce(max(o.id), '') FROM operations AS o WHERE o.database_id = k.one) || ' ' \
        || (SELECT CAST(count(*) AS TEXT) || ' ' || CAST(count(o.started_at) AS TEXT) || ' ' \
            || CAST(coalesce(sum(o.attempts), 0) AS TEXT) \
            FROM operations AS o WHERE o.database_id = k.one AND o.finished_at IS NULL) \
        FROM k WHERE k.kind = 'operations' \
     UNION ALL SELECT k.n, p.state || ' ' || CAST(p.version AS TEXT) || ' ' || CAST(p.updated_at AS TEXT) || ' ' \
        || coalesce(p.from_head, '') || ' ' || coalesce(p.to_head, '') || ' ' || coalesce(p.hidden, '') \
        FROM k JOIN pulls AS p ON p.database_id = k.one \
            AND p.number = CASE WHEN k.kind = 'pull' THEN CAST(k.two AS BIGINT) END \
        WHERE k.kind = 'pull' \
     UNION ALL SELECT k.n, (SELECT coalesce(max(t.id), '') || ' ' \
            || CAST(coalesce(sum(CASE WHEN t.state = 'pending' THEN 1 ELSE 0 END), 0) AS TEXT) || ' ' \
            || CAST(coalesce(sum(t.attempt_count), 0) AS TEXT) \
            FROM (SELECT d.id, d.state, d.attempt_count FROM deliveries AS d WHERE d.hook_id = k.one \
                ORDER BY d.id DESC LIMIT 100) AS t) \
        FROM k WHERE k.kind = 'deliveries'"
);

/// The statement of [`DeploymentWatchKey`]s.
const DEPLOYMENT_MARKS: (&str, &str) = over_keys!(
    "SELECT k.n, coalesce(CAST(d.removed_at AS TEXT), '') || ' ' || d.owner_id || ' ' || coalesce(m.role, '') || ' ' \
        || coalesce(c.role, '') \
        FROM k JOIN deployments AS d ON d.id = k.one \
        LEFT JOIN members AS m ON m.organization_id = d.owner_id AND m.user_id = k.two \
        LEFT JOIN deployment_collaborators AS c ON c.deployment_id = d.id AND c.user_id = k.two WHERE k.kind = 'rights' \
     UNION ALL SELECT k.n, 'd ' || CAST(d.version AS TEXT) || ' ' || d.state \
        || ' ' || coalesce((SELECT max(o.id) FROM deployment_operations AS o WHERE o.deployment_id = d.id), '') \
        || ' ' || (SELECT coalesce(max(b.id), '') || ' ' || CAST(count(*) AS TEXT) FROM backups AS b \
            WHERE b.deployment_id = d.id) \
        FROM k JOIN deployments AS d ON d.id = k.one WHERE k.kind = 'state' \
     UNION ALL SELECT k.n, 'i ' || i.id || ' ' || i.state || ' ' || CAST(i.port AS TEXT) || ' ' || i.details \
        FROM k JOIN instances AS i ON i.deployment_id = k.one WHERE k.kind = 'state' \
     UNION ALL SELECT k.n, 'o ' || o.id || ' ' || o.state \
        FROM k JOIN deployment_operations AS o ON o.deployment_id = k.one AND o.state IN ('queued', 'running') \
        WHERE k.kind = 'state'"
);

/// A key as the statements take it: kind and ids.
type KeyTexts = (&'static str, String, String);

fn key_texts(key: &WatchKey) -> KeyTexts {
    match key {
        WatchKey::Session(id) => ("session", id.to_string(), String::new()),
        WatchKey::DatabaseRights(id, user) => {
            ("rights", id.to_string(), user.map(|user| user.to_string()).unwrap_or_default())
        }
        WatchKey::Operation(id) => ("operation", id.to_string(), String::new()),
        WatchKey::Operations(database) => ("operations", database.to_string(), String::new()),
        WatchKey::Pull(database, number) => ("pull", database.to_string(), number.to_string()),
        WatchKey::Deliveries(hook) => ("deliveries", hook.to_string(), String::new()),
    }
}

fn deployment_key_texts(key: &DeploymentWatchKey) -> KeyTexts {
    match key {
        DeploymentWatchKey::Rights(id, user) => ("rights", id.to_string(), user.to_string()),
        DeploymentWatchKey::State(id) => ("state", id.to_string(), String::new()),
    }
}

impl Store {
    /// Implements `Metadata::watch_marks`.
    pub(crate) fn marks_of(&self, keys: &[WatchKey]) -> Result<WatchMarks, MetadataError> {
        self.marks(keys, key_texts, MARKS)
    }

    /// Implements `DeploymentStore::deployment_marks`.
    pub(crate) fn marks_of_deployments(
        &self,
        keys: &[DeploymentWatchKey],
    ) -> Result<DeploymentWatchMarks, MetadataError> {
        self.marks(keys, deployment_key_texts, DEPLOYMENT_MARKS)
    }

    fn marks<K: Copy + Ord>(
        &self,
        keys: &[K],
        texts: fn(&K) -> KeyTexts,
        (postgres, sqlite): (&'static str, &'static str),
    ) -> Result<BTreeMap<K, String>, MetadataError> {
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = keys.iter().enumerate().map(|(place, key)| {
            let (kind, one, two) = texts(key);
            serde_json::json!([place.to_string(), kind, one, two])
        });
        let array = serde_json::Value::from_iter(rows).to_string();
        let mut tx = SqlTransaction::look(&self.readers, self.log.as_ref())?;
        let mut parts: Vec<(String, String)> = tx.run_apart_from_rights("read what open pages follow", |conn| {
            let text = match conn {
                AnyConnection::Pg(_) => postgres,
                AnyConnection::Sqlite(_) => sqlite,
            };
            Ok(PreparedSql::<(Text, Text)>::new(text, vec![Parameter::Text(array)]).load(conn)?)
        })?;
        parts.sort_unstable();
        let mut marks: BTreeMap<K, String> = BTreeMap::new();
        for (place, part) in parts {
            let Some(key) = place.parse().ok().and_then(|place: usize| keys.get(place)) else { continue };
            let mark = marks.entry(*key).or_default();
            mark.push_str(&part);
            mark.push('\n');
        }
        Ok(marks)
    }
}
