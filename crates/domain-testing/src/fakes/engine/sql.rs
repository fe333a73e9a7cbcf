//! The SQL of the fake; see the head of [`super`].

mod parse;
mod run;
mod tokens;

pub(super) use run::{all_columns, value};

use super::Result;
use super::table::Snapshot;
use branchyard_domain::ports::{EngineError, RowSink, SqlFailure};
use parse::Statement;

fn blame(statement: usize) -> impl Fn(SqlFailure) -> EngineError {
    move |failure| EngineError::Sql { failure, statement: u32::try_from(statement).unwrap_or(u32::MAX) }
}

/// Runs one statement, which has to be a read.
pub(super) fn read(tables: &Snapshot, sql: &str, sink: &mut dyn RowSink) -> Result<()> {
    let statements = tokens::statements(sql).map_err(blame(1))?;
    let [statement] = statements.as_slice() else {
        let none = SqlFailure::Syntax { position: sql.len() + 1, near: String::new() };
        return Err(blame(1)(if statements.is_empty() { none } else { SqlFailure::SeveralStatements }));
    };
    match parse::statement(sql, statement).map_err(blame(1))? {
        Statement::Select(select) => run::select(tables, &select, sink).map_err(blame(1)),
        _ => Err(blame(1)(SqlFailure::NotARead)),
    }
}

/// Runs statements. An error comes with the byte offset of the failed statement.
pub(super) fn run_all(tables: &mut Snapshot, sql: &str) -> std::result::Result<(), (usize, SqlFailure)> {
    for statement in tokens::statements(sql).map_err(|failure| (0, failure))? {
        let start = statement.first().map_or(0, |token| token.start);
        let ran = parse::statement(sql, &statement).and_then(|parsed| run::change(tables, parsed));
        ran.map_err(|failure| (start, failure))?;
    }
    Ok(())
}

/// Sends all rows of a table to the sink, by key.
pub(super) fn scan(tables: &Snapshot, table: &str, sink: &mut dyn RowSink) -> Result<()> {
    let all = parse::Select { table: table.to_owned(), shown: parse::Shown::All, wanted: None, order: None };
    run::select(tables, &all, sink).map_err(|_| EngineError::NoSuchTable(table.to_owned()))
}

/// Runs statements. Returns the new tables and the number of affected rows.
pub(super) fn write(tables: &Snapshot, sql: &str) -> Result<(Snapshot, u64)> {
    let (mut after, mut rows) = (tables.clone(), 0);
    for (at, statement) in tokens::statements(sql).map_err(blame(1))?.iter().enumerate() {
        let blame = blame(at + 1);
        let parsed = parse::statement(sql, statement).map_err(&blame)?;
        rows += run::change(&mut after, parsed).map_err(&blame)?;
    }
    Ok((after, rows))
}
