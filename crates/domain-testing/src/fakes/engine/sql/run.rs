//! Execution of statements.

use std::collections::BTreeMap;

use super::super::table::{Key, Snapshot, Table, compare};
use super::parse::{Equals, Select, Shown, Statement};
use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Column, RowSink, SqlFailure, ValueRef};

type Ran = Result<(), SqlFailure>;

fn engine(text: String) -> SqlFailure {
    SqlFailure::Engine(text)
}

fn table<'a>(tables: &'a mut Snapshot, name: &str) -> Result<&'a mut Table, SqlFailure> {
    tables.find_mut(name).ok_or_else(|| SqlFailure::NoSuchTable(name.to_owned()))
}

/// Runs a statement. Returns the number of affected rows.
pub(super) fn change(tables: &mut Snapshot, statement: Statement) -> Result<u64, SqlFailure> {
    let count = |rows: usize| u64::try_from(rows).unwrap_or(u64::MAX);
    match statement {
        Statement::Create(definition) => {
            if tables.find(&definition.name).is_some() {
                return Err(engine(format!("table {} already exists", definition.name)));
            }
            tables.put(Table { definition, rows: BTreeMap::new() });
            Ok(0)
        }
        Statement::CreateTrigger { table: name, trigger } => {
            if tables.objects().iter().any(|object| object.name.eq_ignore_ascii_case(&trigger.name)) {
                return Err(engine(format!("trigger {} already exists", trigger.name)));
            }
            let triggers = &mut table(tables, &name)?.definition.triggers;
            triggers.push(trigger);
            triggers.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(0)
        }
        Statement::DropTrigger { name } => {
            let found = tables.objects().into_iter().find(|object| object.name.eq_ignore_ascii_case(&name));
            let owner = found.ok_or_else(|| engine(format!("no such trigger: {name}")))?.owner;
            table(tables, &owner)?.definition.triggers.retain(|trigger| !trigger.name.eq_ignore_ascii_case(&name));
            Ok(0)
        }
        Statement::Insert { table: name, columns, rows } => {
            let given = rows.len();
            insert(table(tables, &name)?, columns, rows)?;
            Ok(count(given))
        }
        Statement::Update { table: name, set, wanted } => update(table(tables, &name)?, &set, &wanted).map(count),
        Statement::Delete { table: name, wanted } => {
            let table = table(tables, &name)?;
            let keys = matching(table, &wanted)?;
            for key in &keys {
                table.rows.remove(key);
            }
            Ok(count(keys.len()))
        }
        Statement::Select(select) => {
            let found = tables.find(&select.table);
            found.map(|_| 0).ok_or(SqlFailure::NoSuchTable(select.table))
        }
    }
}

fn column(table: &Table, name: &str) -> Result<usize, SqlFailure> {
    table.column(name).ok_or_else(|| engine(format!("no such column: {name}")))
}

fn insert(table: &mut Table, columns: Option<Vec<String>>, rows: Vec<Vec<Cell>>) -> Ran {
    let name = table.definition.name.clone();
    let width = table.definition.columns.len();
    let places: Vec<usize> = match &columns {
        None => (0..width).collect(),
        Some(names) => {
            let place = |column: &String| {
                table.column(column).ok_or_else(|| engine(format!("table {name} has no column named {column}")))
            };
            names.iter().map(place).collect::<Result<_, _>>()?
        }
    };
    for values in rows {
        if values.len() != places.len() {
            return Err(engine(match columns {
                None => format!("table {name} has {width} columns but {} values were supplied", values.len()),
                Some(_) => format!("{} values for {} columns", values.len(), places.len()),
            }));
        }
        let mut row = vec![Cell::Null; width];
        for (at, value) in places.iter().zip(values) {
            row[*at] = value;
        }
        put(table, row)?;
    }
    Ok(())
}

/// Stores a row under its key, which must be free.
fn put(table: &mut Table, mut row: Vec<Cell>) -> Ran {
    let name = &table.definition.name;
    for (definition, cell) in table.definition.columns.iter().zip(&mut row) {
        *cell = definition.convert(std::mem::replace(cell, Cell::Null));
    }
    if let [key] = table.definition.key.as_slice()
        && table.definition.columns[*key].declared_type.eq_ignore_ascii_case("integer")
    {
        match row[*key] {
            Cell::Null => row[*key] = Cell::Integer(table.next_number()),
            Cell::Integer(_) => {}
            _ => return Err(engine("datatype mismatch".to_owned())),
        }
    }
    let empty = table.definition.columns.iter().zip(&row).find(|(c, cell)| c.not_null && **cell == Cell::Null);
    if let Some((column, _)) = empty {
        return Err(engine(format!("NOT NULL constraint failed: {name}.{}", column.name)));
    }
    let key = table.key_of(&row);
    if table.rows.contains_key(&key) {
        let of = table.definition.key.iter().map(|at| format!("{name}.{}", table.definition.columns[*at].name));
        return Err(engine(format!("UNIQUE constraint failed: {}", of.collect::<Vec<_>>().join(", "))));
    }
    table.rows.insert(key, row);
    Ok(())
}

fn update(table: &mut Table, set: &[Equals], wanted: &Equals) -> Result<usize, SqlFailure> {
    let places: Vec<(usize, &Cell)> =
        set.iter().map(|(name, value)| Ok((column(table, name)?, value))).collect::<Result<_, SqlFailure>>()?;
    let keys = matching(table, wanted)?;
    let found = keys.len();
    for key in keys {
        let Some(mut row) = table.rows.remove(&key) else { continue };
        for (at, value) in &places {
            row[*at] = (*value).clone();
        }
        if table.definition.key.is_empty() {
            for (definition, cell) in table.definition.columns.iter().zip(&mut row) {
                *cell = definition.convert(std::mem::replace(cell, Cell::Null));
            }
            table.rows.insert(key, row);
        } else {
            put(table, row)?;
        }
    }
    Ok(found)
}

/// Returns the keys of rows whose column has the value. NULL equals nothing.
fn matching(table: &Table, (name, value): &Equals) -> Result<Vec<Key>, SqlFailure> {
    let at = column(table, name)?;
    let value = table.definition.columns[at].convert(value.clone());
    let same = |row: &[Cell]| value != Cell::Null && compare(&row[at], &value).is_eq();
    Ok(table.rows.iter().filter(|(_, row)| same(row)).map(|(key, _)| key.clone()).collect())
}

pub(super) fn select(tables: &Snapshot, select: &Select, sink: &mut dyn RowSink) -> Ran {
    let table = tables.find(&select.table).ok_or_else(|| SqlFailure::NoSuchTable(select.table.clone()))?;
    let mut rows: Vec<&Vec<Cell>> = match &select.wanted {
        None => table.rows.values().collect(),
        Some(wanted) => matching(table, wanted)?.iter().filter_map(|key| table.rows.get(key)).collect(),
    };
    if let Some(order) = &select.order {
        let at = column(table, order)?;
        rows.sort_by(|a, b| compare(&a[at], &b[at]));
    }
    let places: Vec<usize> = match &select.shown {
        Shown::All => (0..table.definition.columns.len()).collect(),
        Shown::Columns(names) => names.iter().map(|name| column(table, name)).collect::<Result<_, _>>()?,
        Shown::Count(text) => {
            let counted =
                Column { name: text.clone(), declared_type: None, is_primary_key: false, source_table: String::new() };
            if sink.columns(&[counted]).is_continue() {
                _ = sink.row(&[ValueRef::Integer(i64::try_from(rows.len()).unwrap_or(i64::MAX))]);
            }
            return Ok(());
        }
    };
    let all = all_columns(table);
    if sink.columns(&places.iter().map(|at| all[*at].clone()).collect::<Vec<_>>()).is_break() {
        return Ok(());
    }
    for row in rows {
        let values: Vec<ValueRef<'_>> = places.iter().map(|at| value(&row[*at])).collect();
        if sink.row(&values).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the columns of a table as result columns.
pub(in super::super) fn all_columns(table: &Table) -> Vec<Column> {
    let columns = table.definition.columns.iter().enumerate();
    columns
        .map(|(at, definition)| {
            let declared = definition.declared_type.to_ascii_uppercase();
            Column {
                name: definition.name.clone(),
                declared_type: (!declared.is_empty()).then_some(declared),
                is_primary_key: table.definition.key.contains(&at),
                source_table: table.definition.name.clone(),
            }
        })
        .collect()
}

pub(in super::super) fn value(cell: &Cell) -> ValueRef<'_> {
    match cell {
        Cell::Null => ValueRef::Null,
        Cell::Integer(number) => ValueRef::Integer(*number),
        Cell::Real(number) => ValueRef::Real(*number),
        Cell::Text(text) => ValueRef::Text(text),
        Cell::Blob(bytes) => ValueRef::Blob(bytes),
    }
}
