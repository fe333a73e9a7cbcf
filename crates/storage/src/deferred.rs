//! Statements whose results are not needed, sent together.
//!
//! To a server on another machine, each statement is a round trip. Postgres runs several changes as one statement, in `WITH`.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};

/// What a deferred statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deferred {
    /// Inserts a row into the table. Rows that are inserted together have no order.
    Insert(&'static str),
    /// Changes rows of the table, or inserts a row whose place after others matters.
    Change(&'static str),
}

/// Statements that have not been sent.
///
/// Postgres runs them on one snapshot, in any order. None of them may therefore see or change what another one does.
#[derive(Default)]
pub(crate) struct DeferredStatements(Vec<(Deferred, Box<dyn QueryFragment<Pg>>)>);

impl DeferredStatements {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a statement can be sent together with these.
    pub(crate) fn takes(&self, new: Deferred) -> bool {
        self.0.iter().all(|(one, _)| match (one, new) {
            (Deferred::Insert(_), Deferred::Insert(_)) => true,
            (Deferred::Insert(one) | Deferred::Change(one), Deferred::Insert(new) | Deferred::Change(new)) => {
                *one != new
            }
        })
    }

    pub(crate) fn push(&mut self, what: Deferred, statement: Box<dyn QueryFragment<Pg>>) {
        self.0.push((what, statement));
    }
}

impl QueryFragment<Pg> for DeferredStatements {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if let [(_, only)] = self.0.as_slice() {
            return only.walk_ast(out);
        }
        for (number, (_, statement)) in self.0.iter().enumerate() {
            out.push_sql(if number == 0 { "WITH " } else { ", " });
            out.push_sql(&format!("s{number} AS ("));
            statement.walk_ast(out.reborrow())?;
            out.push_sql(" RETURNING 1)");
        }
        out.push_sql(" SELECT 1");
        Ok(())
    }
}

/// The text identifies the statement.
impl QueryId for DeferredStatements {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl RunQueryDsl<PgConnection> for DeferredStatements {}
