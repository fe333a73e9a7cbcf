//! SQL scripts.

use std::io::Read;

use super::Result;
use super::sql;
use super::table::Snapshot;
use branchyard_domain::entities::{ImportMode, RowProblem};
use branchyard_domain::ports::{EngineError, FormatError, ScriptJob};

pub(super) fn run(before: &Snapshot, job: &ScriptJob<'_>, script: &mut dyn Read) -> Result<Snapshot> {
    let mut bytes = Vec::new();
    script.read_to_end(&mut bytes).map_err(|error| EngineError::Import(FormatError::Io(error)))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut after = before.clone();
    if let Some((table, mode)) = job.target {
        prepare(&mut after, table, mode)?;
    }
    sql::run_all(&mut after, &text).map_err(|(start, failure)| {
        let line = text[..start].matches('\n').count() + 1;
        let line = u64::try_from(line).unwrap_or(u64::MAX);
        let problem = RowProblem { line, column: None, detail: failure.to_string() };
        EngineError::Import(FormatError::Rows(vec![problem]))
    })?;
    match job.target {
        Some((table, _)) if after.find(table).is_none() => {
            Err(EngineError::Import(FormatError::File(format!("the script does not create the table '{table}'"))))
        }
        _ => Ok(after),
    }
}

fn prepare(tables: &mut Snapshot, table: &str, mode: ImportMode) -> Result<()> {
    let missing = || EngineError::NoSuchTable(table.to_owned());
    match mode {
        ImportMode::Create if tables.find(table).is_some() => return Err(EngineError::TableExists(table.to_owned())),
        ImportMode::Create => {}
        ImportMode::Overwrite => drop(tables.0.remove(&table.to_ascii_lowercase())),
        ImportMode::Update => {
            tables.find(table).ok_or_else(missing)?;
        }
        ImportMode::Replace => {
            let found = tables.find_mut(table).ok_or_else(missing)?;
            found.rows.clear();
        }
    }
    Ok(())
}
