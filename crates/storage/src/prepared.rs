//! Handwritten statements that are prepared once per connection.

use std::marker::PhantomData;

use diesel::backend::Backend;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Text};

/// A parameter.
#[derive(Debug, Clone)]
pub(crate) enum Parameter {
    /// A text.
    Text(String),
    /// An integer.
    Number(i64),
}

/// A statement that each connection prepares once, unlike those of [`sql_query`](diesel::sql_query). `T` is the type of
/// its rows.
#[derive(Debug, Clone)]
pub(crate) struct PreparedSql<T = ()> {
    text: &'static str,
    parameters: Vec<Parameter>,
    rows: PhantomData<T>,
}

impl<T> PreparedSql<T> {
    /// Creates a statement from a text in which each `?` stands for the next parameter.
    pub(crate) fn new(text: &'static str, parameters: Vec<Parameter>) -> Self {
        debug_assert_eq!(text.matches('?').count(), parameters.len(), "{text}");
        Self { text, parameters, rows: PhantomData }
    }
}

impl<T, DB> QueryFragment<DB> for PreparedSql<T>
where
    DB: Backend + HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, DB>,
    String: ToSql<Text, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let mut parts = self.text.split('?');
        out.push_sql(parts.next().unwrap_or_default());
        for (parameter, part) in self.parameters.iter().zip(parts) {
            match parameter {
                Parameter::Text(text) => out.push_bind_param::<Text, _>(text)?,
                Parameter::Number(number) => out.push_bind_param::<BigInt, _>(number)?,
            }
            out.push_sql(part);
        }
        Ok(())
    }
}

/// The text identifies the statement.
impl<T> QueryId for PreparedSql<T> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<T> Query for PreparedSql<T> {
    type SqlType = T;
}

impl<T, Conn> RunQueryDsl<Conn> for PreparedSql<T> {}
