//! Requests of users, counted by all servers with this store.

use branchyard_domain::ports::{MetadataError, RequestCountRepository, RequestWindow};
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use crate::convert::{count, time};
use crate::prepared::{Parameter, PreparedSql};
use crate::purge::{Purge, purge};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

/// Adds requests under the lock of their row. The parameters are the user, the time, the number, and twice the time at or before which a
/// window that is over began.
const ADD: &str = "INSERT INTO request_counts (user_id, began_at, requests) VALUES (?, ?, ?) \
    ON CONFLICT (user_id) DO UPDATE SET \
    requests = excluded.requests + CASE WHEN request_counts.began_at <= ? THEN 0 ELSE request_counts.requests END, \
    began_at = CASE WHEN request_counts.began_at <= ? THEN excluded.began_at ELSE request_counts.began_at END \
    RETURNING began_at, requests";

const PURGE: Purge = purge!("request_counts", "user_id", "began_at");

impl RequestCountRepository for SqlTransaction {
    fn add(&mut self, user: AccountId, requests: u32, ended: Timestamp, now: Timestamp) -> Result<RequestWindow> {
        self.run_apart_from_rights("count requests", |conn| {
            let [ended, now] = [ended, now].map(|at| Parameter::Number(at.as_micros()));
            let parameters = vec![
                Parameter::Text(user.to_string()),
                now,
                Parameter::Number(i64::from(requests)),
                ended.clone(),
                ended,
            ];
            let (began_at, requests): (i64, i64) =
                PreparedSql::<(BigInt, BigInt)>::new(ADD, parameters).get_result(conn)?;
            Ok(RequestWindow { began_at: time(began_at), requests: count(requests) })
        })
    }

    fn purge(&mut self, ended: Timestamp) -> Result<()> {
        self.run_apart_from_rights("remove counted requests", |conn| PURGE.run(conn, ended))
    }
}
