//! Replacements of the functions that take commits.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::{current, failure, refused};

/// Replaces all functions that take a commit.
pub(super) fn functions(connection: &Connection) -> rusqlite::Result<()> {
    for (name, arguments, refs) in [
        ("dolt_hashof", 1, 0..1),
        ("dolt_hashof_catalog", 1, 0..1),
        ("dolt_hashof_db", 1, 0..1),
        ("dolt_hashof_index", 2, 1..2),
        ("dolt_hashof_table", 2, 1..2),
        ("dolt_merge_base", 2, 0..2),
    ] {
        let marks = vec!["?"; refs.end].join(", ");
        let ask = format!("SELECT {name}({marks})");
        // With the flags of the engine's own functions: not for views, triggers and defaults.
        connection.create_scalar_function(name, arguments, FunctionFlags::SQLITE_UTF8, move |context| {
            for at in refs.clone() {
                if let ValueRef::Text(spec) | ValueRef::Blob(spec) = context.get_raw(at)
                    && let Some(text) = refused(spec)
                {
                    return Err(failure(text));
                }
            }
            on_companion(context, &ask)
        })?;
    }
    Ok(())
}

fn on_companion(context: &Context<'_>, ask: &str) -> rusqlite::Result<Value> {
    let scope = current().ok_or_else(|| failure("not available here".to_owned()))?;
    let values = (0..context.len()).map(|at| context.get(at)).collect::<rusqlite::Result<Vec<Value>>>()?;
    scope.with(|companion| companion.prepare_cached(ask)?.query_row(params_from_iter(values), |row| row.get(0)))
}
