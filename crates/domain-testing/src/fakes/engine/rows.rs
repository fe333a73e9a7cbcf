//! Imports of rows.

use std::collections::BTreeMap;

use super::Result;
use super::table::{ColumnDef, Definition, Snapshot, Table};
use branchyard_domain::entities::{Cell, RowProblem};
use branchyard_domain::ports::{EngineError, FormatError, ImportColumn, ImportJob, ImportTarget, RowSource};

pub(super) fn import(before: &Snapshot, job: &ImportJob<'_>, rows: &mut dyn RowSource) -> Result<Snapshot> {
    let missing = || EngineError::NoSuchTable(job.table.to_owned());
    let existing = before.find(job.table);
    let mut table = match job.target {
        ImportTarget::New { overwrite: false, .. } if existing.is_some() => {
            return Err(EngineError::TableExists(job.table.to_owned()));
        }
        ImportTarget::New { primary_key, .. } => Table { definition: define(job, primary_key), rows: BTreeMap::new() },
        ImportTarget::Update => existing.ok_or_else(missing)?.clone(),
        ImportTarget::Replace => {
            Table { definition: existing.ok_or_else(missing)?.definition.clone(), rows: BTreeMap::new() }
        }
    };
    let places: Vec<usize> = job.columns.iter().filter_map(|column| table.column(&column.name)).collect();
    let mut problems = Vec::new();
    let mut cells = Vec::new();
    while let Some(line) = rows.next(&mut cells).map_err(EngineError::Import)? {
        if let Err(problem) = put(&mut table, &places, &cells, line, *job.target == ImportTarget::Update) {
            problems.push(problem);
        }
    }
    if !problems.is_empty() {
        problems.truncate(100);
        return Err(EngineError::Import(FormatError::Rows(problems)));
    }
    let mut after = before.clone();
    after.put(table);
    Ok(after)
}

fn define(job: &ImportJob<'_>, primary_key: &[String]) -> Definition {
    let at = |name: &String| job.columns.iter().position(|column| column.name == *name);
    let key: Vec<usize> = primary_key.iter().filter_map(at).collect();
    let column = |(at, column): (usize, &ImportColumn)| ColumnDef {
        name: column.name.clone(),
        declared_type: column.declared_type.clone(),
        not_null: key.contains(&at),
    };
    let columns: Vec<ColumnDef> = job.columns.iter().enumerate().map(column).collect();
    let declared = columns
        .iter()
        .map(|c| format!("\"{}\" {}{}", c.name, c.declared_type, if c.not_null { " NOT NULL" } else { "" }));
    let mut parts: Vec<String> = declared.collect();
    if !key.is_empty() {
        let names: Vec<String> = key.iter().map(|at| format!("\"{}\"", columns[*at].name)).collect();
        parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    let create_statement = format!("CREATE TABLE \"{}\" ({})", job.table, parts.join(", "));
    Definition { name: job.table.to_owned(), columns, key, triggers: Vec::new(), create_statement }
}

fn put(
    table: &mut Table,
    places: &[usize],
    cells: &[Cell],
    line: u64,
    upsert: bool,
) -> std::result::Result<(), RowProblem> {
    let mut row = vec![Cell::Null; table.definition.columns.len()];
    let fill = |row: &mut Vec<Cell>, table: &Table| {
        for (at, cell) in places.iter().zip(cells) {
            row[*at] = table.definition.columns[*at].convert(cell.clone());
        }
    };
    fill(&mut row, table);
    let key = table.key_of(&row);
    match table.rows.get(&key) {
        Some(existing) if upsert => {
            row.clone_from(existing);
            fill(&mut row, table);
        }
        Some(_) => {
            return Err(RowProblem { line, column: None, detail: "the primary key occurs twice".to_owned() });
        }
        None => {}
    }
    for (column, cell) in table.definition.columns.iter().zip(&row) {
        if column.not_null && *cell == Cell::Null {
            let column = Some(column.name.clone());
            return Err(RowProblem { line, column, detail: "must have a value".to_owned() });
        }
    }
    table.rows.insert(key, row);
    Ok(())
}
