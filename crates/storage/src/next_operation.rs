//! The choice of the next operation to run.

use branchyard_domain::ports::LeaseTurn;
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::backend::Backend;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Nullable, Text};

use crate::convert::StoredWord;
use crate::durable::files_with_leaders;

/// A query for the id of the next operation to run.
///
/// Each database has at most one candidate. While an operation or a collection of the database has a live lease, or the
/// database is quarantined, there is none.
/// Otherwise the candidate is the oldest operation whose lease has expired, because it may have begun, or else the
/// oldest queued operation. Among the candidates, the query returns the oldest one of the creator whose turn it is. A
/// busy database does not hold up any other.
///
/// Creators are divided into ranges. Each range is scanned in the order of an index up to the first operation that may
/// run. A later range is scanned only if the earlier ones have no candidate. Operations of creators that are passed
/// over are not scanned.
///
/// [`sql_query`](diesel::sql_query) is not used because it would prepare the statement each time, and a worker runs
/// this query before and after each operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NextOperation {
    now: i64,
    node: String,
    kind: Option<String>,
    ranges: Vec<Creators>,
}

/// A range of creators by id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Creators {
    after: Option<String>,
    end: Option<NextEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NextEnd {
    Before(String),
    At(String),
}

impl NextOperation {
    /// `node` is the node that the operation would run on.
    pub(crate) fn new(now: Timestamp, node: &str, turn: LeaseTurn<'_>) -> Self {
        let mut without = turn.without.to_vec();
        without.sort_unstable();
        let mut ranges = Vec::new();
        // The creators after the last one come first; then the order wraps around and ends with the last one itself.
        let later = without.partition_point(|creator| turn.after.is_some_and(|after| *creator <= after));
        let (earlier, later) = without.split_at(later);
        let rest = between(&mut ranges, turn.after, later);
        ranges.push(Creators { after: text(rest), end: None });
        if let Some(last) = turn.after {
            let rest = between(&mut ranges, None, earlier);
            if rest != Some(last) {
                ranges.push(Creators { after: text(rest), end: Some(NextEnd::At(last.to_string())) });
            }
        }
        Self { now: now.as_micros(), node: node.to_owned(), kind: turn.kind.map(|kind| kind.word().to_owned()), ranges }
    }
}

fn text(id: Option<AccountId>) -> Option<String> {
    id.map(|id| id.to_string())
}

/// Adds the ranges before each of these creators. Returns the creator after which the next range begins.
fn between(ranges: &mut Vec<Creators>, after: Option<AccountId>, without: &[AccountId]) -> Option<AccountId> {
    without.iter().fold(after, |after, creator| {
        ranges.push(Creators { after: text(after), end: Some(NextEnd::Before(creator.to_string())) });
        Some(*creator)
    })
}

const UNSETTLED: &str = "(\
SELECT o.id FROM operations AS o
WHERE o.finished_at IS NULL";
const ENDED: &str = "
  AND (o.state = 'queued' OR o.lease_until <= ";
const COLLECTED: &str = ")
  AND NOT EXISTS (
      SELECT 1 FROM collections AS c WHERE c.database_id = o.database_id AND c.lease_until > ";
const LIVE: &str = ")
  AND NOT EXISTS (
      SELECT 1 FROM operations AS r
      WHERE r.database_id = o.database_id AND r.finished_at IS NULL AND r.state = 'running'
        AND (r.lease_until > ";
const FIRST: &str = concat!(
    " OR o.state = 'queued' OR r.id < o.id))
  AND (o.state = 'running' OR NOT EXISTS (
      SELECT 1 FROM operations AS q
      WHERE q.database_id = o.database_id AND q.finished_at IS NULL AND q.state = 'queued' AND q.id < o.id))
  AND NOT EXISTS (SELECT 1 FROM databases AS d WHERE d.id = o.database_id AND d.quarantined_at IS NOT NULL)
  AND NOT EXISTS (
      SELECT 1 FROM ",
    files_with_leaders!(),
    "
      WHERE f.database_id = o.database_id AND n.id <> "
);
const LED_ELSEWHERE: &str = " AND n.alive_until > ";
const ORDER: &str = ")
ORDER BY o.created_by, o.id LIMIT 1), ";

impl<DB> QueryFragment<DB> for NextOperation
where
    DB: Backend + HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, DB>,
    String: ToSql<Text, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        // Both engines evaluate the arguments in order, and only up to the first one that is not null.
        out.push_sql("SELECT coalesce(");
        for range in &self.ranges {
            out.push_sql(UNSETTLED);
            if let Some(after) = &range.after {
                out.push_sql(" AND o.created_by > ");
                out.push_bind_param::<Text, _>(after)?;
            }
            match &range.end {
                Some(NextEnd::Before(end)) => {
                    out.push_sql(" AND o.created_by < ");
                    out.push_bind_param::<Text, _>(end)?;
                }
                Some(NextEnd::At(end)) => {
                    out.push_sql(" AND o.created_by <= ");
                    out.push_bind_param::<Text, _>(end)?;
                }
                None => {}
            }
            if let Some(kind) = &self.kind {
                out.push_sql(" AND o.kind = ");
                out.push_bind_param::<Text, _>(kind)?;
            }
            out.push_sql(ENDED);
            out.push_bind_param::<BigInt, _>(&self.now)?;
            out.push_sql(COLLECTED);
            out.push_bind_param::<BigInt, _>(&self.now)?;
            out.push_sql(LIVE);
            out.push_bind_param::<BigInt, _>(&self.now)?;
            out.push_sql(FIRST);
            out.push_bind_param::<Text, _>(&self.node)?;
            out.push_sql(LED_ELSEWHERE);
            out.push_bind_param::<BigInt, _>(&self.now)?;
            out.push_sql(ORDER);
        }
        out.push_sql("NULL)");
        Ok(())
    }
}

/// The text identifies the statement. It differs only in the ranges.
impl QueryId for NextOperation {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for NextOperation {
    type SqlType = Nullable<Text>;
}

impl<Conn> RunQueryDsl<Conn> for NextOperation {}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::LeaseTurn;
    use branchyard_domain::values::{AccountId, Timestamp};
    use uuid::Uuid;

    use super::{NextEnd, NextOperation};

    /// Returns the creators in the order of the ranges, out of 1 to 6.
    fn walked(after: Option<u128>, without: &[u128]) -> Vec<u128> {
        let id = |n: u128| AccountId::from_uuid(Uuid::from_u128(n));
        let without: Vec<_> = without.iter().copied().map(id).collect();
        let next = NextOperation::new(
            Timestamp::from_micros(0),
            "node",
            LeaseTurn { after: after.map(id), kind: None, without: &without },
        );
        let is_in = |n: u128, range: &super::Creators| {
            let text = id(n).to_string();
            range.after.as_ref().is_none_or(|after| text > *after)
                && match &range.end {
                    Some(NextEnd::Before(end)) => text < *end,
                    Some(NextEnd::At(end)) => text <= *end,
                    None => true,
                }
        };
        next.ranges.iter().flat_map(|range| (1..=6).filter(move |n| is_in(*n, range))).collect()
    }

    #[test]
    fn ranges_hold_each_creator_once_in_its_turn() {
        assert_eq!(walked(None, &[]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(walked(None, &[6, 1, 3]), [2, 4, 5]);
        assert_eq!(walked(Some(4), &[]), [5, 6, 1, 2, 3, 4]);
        assert_eq!(walked(Some(4), &[4]), [5, 6, 1, 2, 3]);
        assert_eq!(walked(Some(4), &[5, 4, 1]), [6, 2, 3]);
        assert_eq!(walked(Some(6), &[2, 3]), [1, 4, 5, 6]);
        assert_eq!(walked(Some(9), &[1, 2, 3, 4, 5, 6]), [0_u128; 0]);
    }
}
