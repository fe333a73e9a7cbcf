//! The newest timestamp in the store.

use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::Timestamp;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable};

use crate::convert::time;
use crate::store::Store;

/// The times recorded with each kind of work. Each is one read at the end of an index, except for the attempts of
/// deliveries that are to be retried, which are few. Future times, such as that of a next attempt, are excluded.
const LATEST: &str = "\
SELECT max(at) AS at FROM (
    SELECT max(created_at) AS at FROM answers
    UNION ALL SELECT (SELECT created_at FROM operations ORDER BY id DESC LIMIT 1)
    UNION ALL SELECT max(finished_at) FROM operations WHERE finished_at IS NOT NULL
    UNION ALL SELECT (SELECT at FROM activities ORDER BY id DESC LIMIT 1)
    UNION ALL SELECT (SELECT at FROM events ORDER BY position DESC LIMIT 1)
    UNION ALL SELECT (SELECT created_at FROM deliveries ORDER BY id DESC LIMIT 1)
    UNION ALL SELECT max(finished_at) FROM deliveries WHERE finished_at IS NOT NULL
    UNION ALL SELECT max(started_at) FROM attempts
        WHERE delivery_id IN (SELECT id FROM deliveries WHERE state = 'pending' AND attempt_count > 0)
    UNION ALL SELECT max(at) FROM samples WHERE resolution = 'fine'
) AS times";

#[derive(QueryableByName)]
struct LatestRow {
    #[diesel(sql_type = Nullable<BigInt>)]
    at: Option<i64>,
}

impl Store {
    /// Returns the newest time at which work was recorded, by the clock of the server that did it. Returns `None` if
    /// the store has no record.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn latest(&self) -> Result<Option<Timestamp>, MetadataError> {
        let mut tx = self.transaction(None)?;
        let row: LatestRow =
            tx.run("tell how far time has come", |conn| Ok(diesel::sql_query(LATEST).get_result(conn)?))?;
        Ok(row.at.map(time))
    }
}
