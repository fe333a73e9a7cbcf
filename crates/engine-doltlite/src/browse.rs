//! Rows of a table or view that somebody looks at. Their statement is ours, but a view holds one of a stranger, so both run under
//! the guard.

use std::time::Duration;

use branchyard_domain::ports::{
    Column, EngineError, Flow, ReadQuery, RowSink, RowTest, Selection, SqlFailure, Test, ValueRef,
};

use crate::connection::Connection;
use crate::diff::Side;
use crate::engine::DoltliteEngine;
use crate::read::read;
use crate::sql::{errors, quote};

pub(crate) fn rows(
    engine: &DoltliteEngine,
    connection: &Connection,
    wanted: &Selection<'_>,
    sink: &mut dyn RowSink,
) -> Result<(), EngineError> {
    let found = Side::find(connection, wanted.table).map_err(|error| errors::fault("find a table", error))?;
    let table = found.ok_or_else(|| EngineError::NoSuchTable(wanted.table.to_owned()))?;
    let mut sql = format!("SELECT * FROM {}{}", quote::name(&table.name), conditions(wanted.tests)?);
    let mut order: Vec<String> = Vec::new();
    if let Some(by) = &wanted.order {
        order.push(format!("{}{}", quote::name(by.column), if by.descending { " DESC" } else { "" }));
    }
    // Rows that are alike in the chosen column stay in one order from page to page.
    if !table.is_view {
        order.extend(table.order());
    }
    if !order.is_empty() {
        sql.push_str(" ORDER BY ");
        sql.push_str(&order.join(", "));
    }
    sql.push_str(&format!(" LIMIT {} OFFSET {}", wanted.limit, wanted.skip));
    let query = ReadQuery { sql: &sql, timeout: wanted.timeout, canceled: wanted.canceled.clone() };
    read(engine, connection, &query, sink).map(|_| ())
}

pub(crate) fn count(
    engine: &DoltliteEngine,
    connection: &Connection,
    table: &str,
    tests: &[RowTest],
    timeout: Duration,
) -> Result<u64, EngineError> {
    let found = Side::find(connection, table).map_err(|error| errors::fault("find a table", error))?;
    let table = found.ok_or_else(|| EngineError::NoSuchTable(table.to_owned()))?;
    let sql = format!("SELECT count(*) FROM {}{}", quote::name(&table.name), conditions(tests)?);
    let mut counted = Counted(0);
    read(engine, connection, &ReadQuery::new(&sql, timeout), &mut counted)?;
    Ok(counted.0)
}

/// The one number of a count.
struct Counted(u64);

impl RowSink for Counted {
    fn columns(&mut self, _: &[Column]) -> Flow {
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        if let Some(ValueRef::Integer(count)) = row.first() {
            self.0 = u64::try_from(*count).unwrap_or_default();
        }
        Flow::Stop
    }
}

/// ` WHERE …`, or nothing.
fn conditions(tests: &[RowTest]) -> Result<String, EngineError> {
    let parts: Vec<String> = tests.iter().map(condition).collect::<Result<_, _>>()?;
    Ok(if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) })
}

fn condition(test: &RowTest) -> Result<String, EngineError> {
    let column = quote::name(&test.column);
    let value = || {
        let refused = || EngineError::Sql {
            failure: SqlFailure::Engine("a value to look for holds a NUL character".to_owned()),
            statement: 1,
        };
        quote::text(&test.value).ok_or_else(refused)
    };
    Ok(match test.test {
        Test::Equals => format!("{column} = {}", value()?),
        Test::Differs => format!("{column} IS NOT {}", value()?),
        Test::Contains => format!("instr(lower({column}), lower({})) > 0", value()?),
        Test::Less => format!("{column} < {}", value()?),
        Test::More => format!("{column} > {}", value()?),
        Test::IsNull => format!("{column} IS NULL"),
        Test::IsNotNull => format!("{column} IS NOT NULL"),
    })
}
