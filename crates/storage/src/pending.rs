//! `state = 'pending'`, spelled as in the indexes of such deliveries.

use diesel::backend::Backend;
use diesel::expression::{ValidGrouping, is_aggregate};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::Bool;

/// That a delivery is pending. With a parameter in its place SQLite would prepare the statement anew for each value, to see whether the indexes of
/// pending ones serve it; with [`sql`](diesel::dsl::sql) diesel would.
#[derive(Debug, Clone, Copy, QueryId)]
pub(crate) struct IsPending;

impl Expression for IsPending {
    type SqlType = Bool;
}

impl<DB: Backend> QueryFragment<DB> for IsPending {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("deliveries.state = 'pending'");
        Ok(())
    }
}

impl<Source> SelectableExpression<Source> for IsPending {}
impl<Source> AppearsOnTable<Source> for IsPending {}

impl<GroupBy> ValidGrouping<GroupBy> for IsPending {
    type IsAggregate = is_aggregate::Never;
}
