//! Pages of rows for display.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Result;
use super::table::{Key, Snapshot, Table, compare};
use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    ColumnQuery, ColumnValues, EngineError, RowSink, RowTest, Selected, Selection, SqlFailure, Test,
};

/// Rows with their keys.
type Keyed<'a> = Vec<(&'a Key, &'a Vec<Cell>)>;

fn matching<'a>(tables: &'a Snapshot, name: &str, tests: &[RowTest]) -> Result<(&'a Table, Keyed<'a>)> {
    let table = tables.find(name).ok_or_else(|| EngineError::NoSuchTable(name.to_owned()))?;
    let mut rows: Keyed<'a> = table.rows.iter().collect();
    let is_wanted = |test: &RowTest, row: &[Cell]| {
        let Some(at) = table.column(&test.column) else { return true };
        let value = table.definition.columns[at].convert(Cell::Text(test.value.clone().into_bytes()));
        passes(&row[at], test.test, &value, &test.value)
    };
    for test in tests {
        let is_alternative =
            |other: &&RowTest| other.test == Test::OneOf && other.column.eq_ignore_ascii_case(&test.column);
        match test.test {
            Test::OneOf => {
                rows.retain(|(_, row)| tests.iter().filter(is_alternative).any(|other| is_wanted(other, row)));
            }
            _ => rows.retain(|(_, row)| is_wanted(test, row)),
        }
    }
    Ok((table, rows))
}

fn passes(cell: &Cell, test: Test, value: &Cell, text: &str) -> bool {
    let there = *cell != Cell::Null;
    match test {
        Test::Equals | Test::OneOf => there && compare(cell, value).is_eq(),
        Test::Differs => !compare(cell, value).is_eq(),
        Test::Contains => shown(cell).to_ascii_lowercase().contains(&text.to_ascii_lowercase()),
        Test::Less => there && compare(cell, value).is_lt(),
        Test::More => there && compare(cell, value).is_gt(),
        Test::AtMost => there && compare(cell, value).is_le(),
        Test::AtLeast => there && compare(cell, value).is_ge(),
        Test::StartsWith => there && shown(cell).to_ascii_lowercase().starts_with(&text.to_ascii_lowercase()),
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

pub(super) fn column_values(tables: &Snapshot, query: &ColumnQuery<'_>) -> Result<ColumnValues> {
    let (table, rows) = matching(tables, query.table, query.tests)?;
    let most = usize::try_from(query.rows).unwrap_or(usize::MAX);
    let at = table.column(query.column).unwrap_or_default();
    let cells: Vec<&Cell> = rows.iter().take(most).map(|(_, row)| &row[at]).collect();
    let is_short = |cell: &Cell| match cell {
        Cell::Null | Cell::Blob(_) => false,
        Cell::Text(bytes) => String::from_utf8_lossy(bytes).chars().count() as u64 <= ColumnValues::MAX_CHARACTERS,
        Cell::Integer(_) | Cell::Real(_) => true,
    };
    let mut counts: BTreeMap<Key, u64> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| is_short(cell)) {
        *counts.entry(Key(vec![(*cell).clone()])).or_default() += 1;
    }
    let mut values: Vec<(Cell, u64)> = counts.into_iter().map(|(mut key, count)| (key.0.remove(0), count)).collect();
    let range = values.first().zip(values.last()).map(|(least, greatest)| (least.0.clone(), greatest.0.clone()));
    values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let more = values.len() > limit;
    values.truncate(limit);
    let nulls = cells.iter().filter(|cell| ***cell == Cell::Null).count() as u64;
    Ok(ColumnValues { values, more, rows: cells.len() as u64, nulls, range })
}

pub(super) fn rows(tables: &Snapshot, wanted: &Selection<'_>, sink: &mut dyn RowSink) -> Result<Selected> {
    let (table, rows) = matching(tables, wanted.table, wanted.tests)?;
    let sorted = wanted.order.and_then(|order| table.column(order.column));
    let mut placed: Vec<(Vec<Cell>, &Vec<Cell>)> =
        rows.into_iter().map(|(key, row)| (place(sorted, key, row), row)).collect();
    placed.sort_by(|a, b| compare_places(&a.0, &b.0));
    if wanted.order.is_some_and(|order| order.descending) != wanted.backwards {
        placed.reverse();
    }
    if sink.columns(&super::sql::all_columns(table)).is_break() {
        return Ok(Selected::default());
    }
    let behind = match wanted.after {
        None => 0,
        Some(after) if placed.first().is_some_and(|(place, _)| place.len() != after.len()) => {
            let failure = SqlFailure::Engine("no row of this order has such a place".to_owned());
            return Err(EngineError::Sql { failure, statement: 1 });
        }
        Some(after) => {
            let reversed = wanted.order.is_some_and(|order| order.descending) != wanted.backwards;
            let passed = |found: Ordering| if reversed { found.is_ge() } else { found.is_le() };
            placed.iter().take_while(|(place, _)| passed(compare_places(place, after))).count()
        }
    };
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let mut rest = placed.into_iter().skip(behind).skip(count(wanted.skip));
    let mut selected = Selected::default();
    for (place, row) in rest.by_ref().take(count(wanted.limit)) {
        selected.first.get_or_insert_with(|| place.clone());
        selected.last = Some(place);
        if sink.row(&row.iter().map(super::sql::value).collect::<Vec<_>>()).is_break() {
            break;
        }
    }
    selected.more = rest.next().is_some();
    Ok(selected)
}

/// Returns the cursor of a row: its sort value, then its key.
fn place(sorted: Option<usize>, key: &Key, row: &[Cell]) -> Vec<Cell> {
    sorted.and_then(|at| row.get(at)).into_iter().chain(&key.0).cloned().collect()
}

fn compare_places(a: &[Cell], b: &[Cell]) -> Ordering {
    let mut pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
    pairs.find(|found| found.is_ne()).unwrap_or(Ordering::Equal)
}
