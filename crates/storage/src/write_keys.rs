//! The keys of transactions that write.
//!
//! **Writers with a key in common exclude each other.** SQLite admits one writer at a time, and needs nothing else. On Postgres, a
//! transaction locks a row for each of its keys as it begins, under READ COMMITTED. Each statement then sees the result of all earlier
//! transactions that had one of these keys.
//!
//! `SERIALIZABLE` would give more, but any statement may fail to serialize. The whole transaction would then have to be run again,
//! which a transaction that is handed out as a value cannot do by itself. One lock for all writers, as the store had before, limits all
//! servers together to one transaction at a time.
//!
//! Rows are locked `FOR NO KEY UPDATE`: `FOR UPDATE` would also exclude the inserts of rows that refer to them, by transactions that
//! need another key only, and would make these wait for each other in any order.
//!
//! | Key | Row | What it guards |
//! |---|---|---|
//! | server | `server` | `invitations`, `hooks`, `key_ring`, `ref_log_start`, `deliveries`, `attempts`, the dispatch of `events`, all of deployments; which user is the last administrator |
//! | account | `accounts` | `users`, `emails`, `organizations`, `members`, `tokens`, `user_keys`, `sessions`, `oauth_applications`, `oauth_grants`, `oauth_access_tokens`, `oauth_codes`, `uploads`; which databases an owner has, and how many |
//! | database | `databases` | `databases`, `collections`, `ref_log`, `collaborators`, `stars`, `branches`, `tags`, `pulls`, `comments`, `releases`, `operations`, `mirrors`, `events`, `activities` |
//!
//! Without a key: what goes with an application that is deleted, `oauth_devices`, the time of a last use, the extension of a lease by its holder, `answers`, `sign_in_attempts`, `request_counts`, and the removal of what is past its
//! retention. Each is one statement on rows that it identifies by themselves. A pull request also changes with the branches of its
//! source, another database: a transaction that changes it holds the keys of both.
//!
//! The rows of the protocol between nodes (`durable`) need no key: `segments` change under the lock of the row in `files`, which exists
//! before there is a database, and `nodes` each under that of its own row, and `data_keys` by single statements. Only a new generation takes the database's key too, because
//! it compares refs. The locks are taken in the order database, file, node.

use std::fmt::Write as _;

use branchyard_domain::ports::{WriteKey, WriteKeys};

/// Returns the statements that take keys in Postgres. Ids have no characters that would have to be escaped.
pub(crate) fn postgres_locks(keys: &WriteKeys) -> String {
    let (mut server, mut accounts, mut databases) = (false, Vec::new(), Vec::new());
    for key in keys.iter() {
        match key {
            WriteKey::Server => server = true,
            WriteKey::Account(id) => accounts.push((id.to_string(), EXCLUSIVE)),
            WriteKey::Database(id) => databases.push(id.to_string()),
        }
    }
    accounts.extend(keys.shared().map(|id| (id.to_string(), SHARED)));
    accounts.sort_unstable();
    let mut sql = String::new();
    if server {
        lock(&mut sql, "server", &[], EXCLUSIVE);
    }
    // Runs of one strength together, so that all are locked in their order.
    for run in accounts.chunk_by(|(_, one), (_, other)| one == other) {
        let ids: Vec<String> = run.iter().map(|(id, _)| id.clone()).collect();
        if let Some((_, strength)) = run.first() {
            lock(&mut sql, "accounts", &ids, strength);
        }
    }
    if !databases.is_empty() {
        lock(&mut sql, "databases", &databases, EXCLUSIVE);
    }
    sql
}

const EXCLUSIVE: &str = "FOR NO KEY UPDATE";
const SHARED: &str = "FOR SHARE";

fn lock(sql: &mut String, table: &str, ids: &[String], strength: &str) {
    let which =
        if ids.is_empty() { String::new() } else { format!(" WHERE id IN ('{}') ORDER BY id", ids.join("', '")) };
    let _ = write!(sql, "; SELECT 1 FROM {table}{which} {strength}");
}

#[cfg(test)]
mod tests {
    use branchyard_domain::values::{AccountId, DatabaseId};
    use uuid::Uuid;

    use super::*;

    fn account(n: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(n))
    }

    #[test]
    fn rows_are_locked_in_one_order() {
        let database = |n| WriteKey::Database(DatabaseId::from_uuid(Uuid::from_u128(n)));
        let keys = WriteKeys::account(account(2)).and(database(9)).and(WriteKey::Server).and(database(8));
        let keys = keys.and_shared([account(3), account(1), account(2)]);
        let id = |n: u128| Uuid::from_u128(n).to_string();
        let wanted = format!(
            "; SELECT 1 FROM server FOR NO KEY UPDATE\
             ; SELECT 1 FROM accounts WHERE id IN ('{}') ORDER BY id FOR SHARE\
             ; SELECT 1 FROM accounts WHERE id IN ('{}') ORDER BY id FOR NO KEY UPDATE\
             ; SELECT 1 FROM accounts WHERE id IN ('{}') ORDER BY id FOR SHARE\
             ; SELECT 1 FROM databases WHERE id IN ('{}', '{}') ORDER BY id FOR NO KEY UPDATE",
            id(1),
            id(2),
            id(3),
            id(8),
            id(9)
        );
        assert_eq!(postgres_locks(&keys), wanted);
        assert_eq!(postgres_locks(&WriteKeys::none()), "");
    }
}
