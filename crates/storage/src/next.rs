//! Which operation is run next.

use diesel::backend::Backend;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Text};

/// The id of the next operation to run. In a database with a live lease nothing may; where a lease ended, that operation goes before
/// the queued ones, because it may have begun; else the oldest queued one. Of all databases, the oldest such operation: a
/// database whose turn is taken holds nobody up.
///
/// Not by [`sql_query`](diesel::sql_query), which is prepared anew each time: a worker asks this before and after each operation.
#[derive(Debug, Clone, Copy, QueryId)]
pub(crate) struct Next {
    pub(crate) now: i64,
}

const ENDED: &str = "\
SELECT o.id FROM operations AS o
WHERE o.finished_at IS NULL
  AND (o.state = 'queued' OR o.lease_until <= ";
const LIVE: &str = ")
  AND NOT EXISTS (
      SELECT 1 FROM operations AS r
      WHERE r.database_id = o.database_id AND r.finished_at IS NULL AND r.state = 'running'
        AND (r.lease_until > ";
const FIRST: &str = " OR o.state = 'queued' OR r.id < o.id))
  AND (o.state = 'running' OR NOT EXISTS (
      SELECT 1 FROM operations AS q
      WHERE q.database_id = o.database_id AND q.finished_at IS NULL AND q.state = 'queued' AND q.id < o.id))
ORDER BY o.id LIMIT 1";

impl<DB> QueryFragment<DB> for Next
where
    DB: Backend + HasSqlType<BigInt>,
    i64: ToSql<BigInt, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(ENDED);
        out.push_bind_param::<BigInt, _>(&self.now)?;
        out.push_sql(LIVE);
        out.push_bind_param::<BigInt, _>(&self.now)?;
        out.push_sql(FIRST);
        Ok(())
    }
}

impl Query for Next {
    type SqlType = Text;
}

impl<Conn> RunQueryDsl<Conn> for Next {}
