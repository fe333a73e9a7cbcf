//! Constant SQL expressions.

use std::marker::PhantomData;

use diesel::backend::Backend;
use diesel::expression::{TypedExpressionType, ValidGrouping, is_aggregate};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::SingleValue;

/// An expression of type `ST` without parameters. The text of [`sql`](diesel::dsl::sql) can vary, so diesel would
/// prepare the whole statement each time.
pub(crate) struct Fixed<ST>(&'static str, PhantomData<ST>);

pub(crate) const fn fixed<ST>(text: &'static str) -> Fixed<ST> {
    Fixed(text, PhantomData)
}

impl<ST: SingleValue + TypedExpressionType> Expression for Fixed<ST> {
    type SqlType = ST;
}

impl<DB: Backend, ST> QueryFragment<DB> for Fixed<ST> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(self.0);
        Ok(())
    }
}

/// The text identifies statements that contain the expression.
impl<ST> QueryId for Fixed<ST> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Source, ST> SelectableExpression<Source> for Fixed<ST> where Self: AppearsOnTable<Source> {}
impl<Source, ST> AppearsOnTable<Source> for Fixed<ST> where Self: Expression {}

impl<GroupBy, ST> ValidGrouping<GroupBy> for Fixed<ST> {
    type IsAggregate = is_aggregate::Never;
}
