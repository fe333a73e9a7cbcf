//! The SQL workbench: queries at a ref, and changes to a branch.

pub(super) mod csv;
pub(super) mod kept_statements;
mod preview;
pub(super) mod read;
pub(super) mod write;
pub(super) mod written;

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::CommitHash;

/// Tables listed beside the editor.
const TABLES: usize = 60;
/// Columns listed per table.
const COLUMNS: usize = 40;

/// A table beside the editor.
struct Outline {
    name: String,
    columns: Vec<String>,
    has_more: bool,
}

/// The tables at a commit, and whether there are more.
struct Outlines {
    tables: Vec<Outline>,
    has_more: bool,
}

fn outlines<L: Level>(hub: &Hub, access: &DatabaseAccess<L>, at: &CommitHash) -> Result<Outlines, ReadError> {
    let schemas = hub.history().tables(access, at)?;
    let has_more = schemas.len() > TABLES;
    let tables = schemas.into_iter().take(TABLES).map(|schema| Outline {
        name: schema.name,
        has_more: schema.columns.len() > COLUMNS,
        columns: schema.columns.into_iter().take(COLUMNS).map(|column| column.name).collect(),
    });
    Ok(Outlines { tables: tables.collect(), has_more })
}
