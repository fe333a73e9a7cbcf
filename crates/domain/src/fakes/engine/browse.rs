//! Rows that somebody looks at.

use super::Result;
use super::table::{Snapshot, Table, compare};
use crate::entities::Cell;
use crate::ports::{EngineError, Flow, RowSink, RowTest, Selection, Test};

fn matching<'a>(tables: &'a Snapshot, name: &str, tests: &[RowTest]) -> Result<(&'a Table, Vec<&'a Vec<Cell>>)> {
    let table = tables.find(name).ok_or_else(|| EngineError::NoSuchTable(name.to_owned()))?;
    let mut rows: Vec<&Vec<Cell>> = table.rows.values().collect();
    for test in tests {
        let Some(at) = table.column(&test.column) else { continue };
        let value = table.definition.columns[at].convert(Cell::Text(test.value.clone().into_bytes()));
        rows.retain(|row| passes(&row[at], test.test, &value, &test.value));
    }
    Ok((table, rows))
}

fn passes(cell: &Cell, test: Test, value: &Cell, text: &str) -> bool {
    let there = *cell != Cell::Null;
    match test {
        Test::Equals => there && compare(cell, value).is_eq(),
        Test::Differs => !compare(cell, value).is_eq(),
        Test::Contains => shown(cell).to_ascii_lowercase().contains(&text.to_ascii_lowercase()),
        Test::Less => there && compare(cell, value).is_lt(),
        Test::More => there && compare(cell, value).is_gt(),
        Test::IsNull => !there,
        Test::IsNotNull => there,
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => format!("{number:?}"),
        Cell::Text(bytes) | Cell::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

pub(super) fn count(tables: &Snapshot, table: &str, tests: &[RowTest]) -> Result<u64> {
    Ok(u64::try_from(matching(tables, table, tests)?.1.len()).unwrap_or(u64::MAX))
}

pub(super) fn rows(tables: &Snapshot, wanted: &Selection<'_>, sink: &mut dyn RowSink) -> Result<()> {
    let (table, mut rows) = matching(tables, wanted.table, wanted.tests)?;
    if let Some(order) = &wanted.order
        && let Some(at) = table.column(order.column)
    {
        // Stable, so that equals stay in the order of the key.
        rows.sort_by(|a, b| if order.descending { compare(&b[at], &a[at]) } else { compare(&a[at], &b[at]) });
    }
    if sink.columns(&super::sql::all_columns(table)) == Flow::Stop {
        return Ok(());
    }
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    for row in rows.into_iter().skip(count(wanted.skip)).take(count(wanted.limit)) {
        if sink.row(&row.iter().map(super::sql::value).collect::<Vec<_>>()) == Flow::Stop {
            break;
        }
    }
    Ok(())
}
