//! Answers calls with the engine.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use branchyard_domain::ports::{
    BatchedWrite, Column, ColumnQuery, Engine as _, EngineError, FormatError, HistoryQuery, ImportJob, MergeJob,
    PreviewJob, PreviewPlace, ReadQuery, RowOrder, RowSink, ScriptJob, Selection, SqliteExport, TableScan, ValueRef,
    WriteJob,
};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::DoltliteEngine;

use super::link::{Link, LinkError};
use super::server::{ImportRows, ScriptText};
use super::{Fatal, provided};
use crate::messages::{Call, FromWorker, Import, Merge, Page, Preview, Script, Write, WriteOfBatch};
use crate::wire::Wire;
use crate::wire::domain::{TableShape, put_value};

/// Answers a call. Fails if the server cannot be reached.
pub(super) fn answer(engine: &DoltliteEngine, link: &Link, database: DatabaseId, call: Call) -> Result<(), Fatal> {
    link.hold_turn(matches!(
        call,
        Call::Write(_)
            | Call::WriteBatch { .. }
            | Call::Preview(_)
            | Call::Merge(_)
            | Call::Import(_)
            | Call::Script(_)
            | Call::TakeOverPush { .. }
    ));
    match call {
        Call::Create { author, message } => done(link, &engine.create_in(database, &author, &message)),
        Call::FinishCopy => done(link, &engine.finish_copy(database)),
        Call::Prove { heads, base } => done(link, &engine.prove(database, &heads, &base)),
        Call::Log { at, limit } => done(link, &engine.log(database, &at, limit)),
        Call::MergeBase { a, b } => done(link, &engine.merge_base(database, &a, &b)),
        Call::IsAncestor { ancestor, descendant } => done(link, &engine.is_ancestor(database, &ancestor, &descendant)),
        Call::Parents { from, limit } => done(link, &engine.parents(database, &from, limit)),
        Call::Read { at, sql, timeout } => {
            let query = ReadQuery { sql: &sql, timeout, canceled: link.canceled() };
            done(link, &engine.read(database, &at, &query, &mut Rows::new(link)))
        }
        Call::Scan { at, table, timeout } => {
            let scan = TableScan { table: &table, timeout, canceled: link.canceled() };
            done(link, &engine.scan(database, &at, &scan, &mut Rows::new(link)))
        }
        Call::Rows { at, page } => {
            let Page { table, tests, order, backwards, after, skip, limit, timeout } = page;
            let wanted = Selection {
                table: &table,
                tests: &tests,
                order: order.as_ref().map(|(column, descending)| RowOrder { column, descending: *descending }),
                backwards,
                after: after.as_deref(),
                skip,
                limit,
                timeout,
                canceled: link.canceled(),
            };
            done(link, &engine.rows(database, &at, &wanted, &mut Rows::new(link)))
        }
        Call::Count { at, table, tests, timeout } => done(link, &engine.count(database, &at, &table, &tests, timeout)),
        Call::ColumnValues { at, table, column, tests, rows, limit, timeout } => {
            let query = ColumnQuery { table: &table, column: &column, tests: &tests, rows, limit, timeout };
            done(link, &engine.column_values(database, &at, &query))
        }
        Call::ChangedTables { from, to } => done(link, &engine.changed_tables(database, &from, &to)),
        Call::ChangedRows { from, to, table, page } => {
            done(link, &engine.changed_rows(database, &from, &to, &table, &page))
        }
        Call::RowHistory { at, table, key, first_parents, limit, bytes, timeout } => {
            let wanted = HistoryQuery { table: &table, key: key.as_deref(), first_parents, limit, bytes, timeout };
            done(link, &engine.row_history(database, &at, &wanted))
        }
        Call::Tables { at } => done(link, &engine.tables(database, &at)),
        Call::Objects { at } => done(link, &engine.objects(database, &at)),
        Call::Write(Write { base, statements, message, then_merge, author, timeout }) => {
            let then_merge = then_merge.as_ref().map(|(commit, message)| (commit, message.as_str()));
            let (base, statements, message, author) = (&base, &*statements, &*message, &author);
            done(link, &engine.write(database, &WriteJob { base, statements, message, then_merge, author, timeout }))
        }
        Call::Preview(Preview { base, statements, timeout, rows, bytes }) => {
            let place = PreviewPlace::File;
            let job = PreviewJob { base: &base, statements: &statements, timeout, rows, bytes, place };
            done(link, &engine.preview_write(database, &job))
        }
        Call::WriteBatch { base, writes, at_most } => {
            let writes: Vec<_> = writes
                .iter()
                .map(|WriteOfBatch { statements, message, author, timeout }| BatchedWrite {
                    statements,
                    message,
                    author,
                    timeout: *timeout,
                })
                .collect();
            let results = engine.write_batch(database, &base, &writes, at_most);
            done::<_, EngineError>(link, &Ok(results))
        }
        Call::Merge(Merge { ours, theirs, message, author, resolve, rows, fast_forward, timeout }) => {
            let (ours, theirs, message, author, resolve) = (&ours, &theirs, &*message, &author, &resolve);
            let rows = &*rows;
            let job = MergeJob { ours, theirs, message, author, resolve, rows, fast_forward, timeout };
            done(link, &engine.merge(database, &job))
        }
        Call::Import(Import { base, table, target, columns, message, author, timeout }) => {
            let (base, table, target, columns) = (&base, &*table, &target, &*columns);
            let job = ImportJob { base, table, target, columns, message: &message, author: &author, timeout };
            done(link, &engine.import(database, &job, &mut ImportRows::new(link)))
        }
        Call::Script(Script { base, target, statement_bytes, message, author, timeout }) => {
            let target = target.as_ref().map(|(table, mode)| (table.as_str(), *mode));
            let (base, message, author) = (&base, &*message, &author);
            let job = ScriptJob { base, target, statement_bytes, message, author, timeout };
            done(link, &engine.run_script(database, &job, &mut ScriptText(link)))
        }
        Call::Verify { heads } => done(link, &engine.verify(database, &heads)),
        Call::Trial { pair, base, queries } => done(link, &engine.merge_in_copy(&pair, &base, &queries)),
        Call::Fetch { commit } => {
            let copy = provided(link.take_descriptors())?;
            done(link, &engine.fetch_from_copy(database, copy, &commit))
        }
        Call::Collect { heads } => {
            let new = provided(link.take_descriptors())?;
            done(link, &engine.collect_into(database, new, &heads))
        }
        Call::Complete { heads } => {
            let source = provided(link.take_descriptors())?;
            done(link, &engine.complete_from(database, source, &heads))
        }
        Call::Chunks { hashes, at_most } => done(link, &engine.chunks(database, &hashes, at_most)),
        Call::HeldChunks { hashes } => done(link, &engine.held_chunks(database, &hashes)),
        Call::ExaminePush { tips } => {
            let pushed = std::fs::File::from(file(link)?);
            done(link, &engine.examine_push(database, &pushed, &tips))
        }
        Call::TakeOverPush { tips } => {
            let pushed = std::fs::File::from(file(link)?);
            done(link, &engine.take_over_push(database, &pushed, &tips))
        }
        Call::CheckCommit { commit, trusted, timeout } => {
            done(link, &engine.check_commit(database, &commit, trusted.as_ref(), timeout))
        }
        Call::CheckNewFile { heads, commits } => done(link, &engine.check_new_file(database, &heads, commits)),
        Call::InspectSqlite { table, timeout } => {
            let found = engine.open_provided_sqlite(file(link)?, &table, timeout);
            let shape = found.map(|table| TableShape {
                columns: table.columns().to_vec(),
                primary_key: table.primary_key().to_vec(),
            });
            done(link, &shape)
        }
        Call::ExportSqlite { at, max_bytes, timeout } => {
            let job = SqliteExport { max_bytes, timeout, canceled: link.canceled() };
            done(link, &engine.export_sqlite_into(database, &at, file(link)?, &job))
        }
        Call::SqliteTables { timeout } => done(link, &engine.provided_sqlite_tables(file(link)?, timeout)),
        Call::ReadSqlite { table, timeout } => {
            let read = engine.open_provided_sqlite(file(link)?, &table, timeout).and_then(|table| {
                let mut lost = None;
                let read = table.read_batches(&mut |batch| match link.send(FromWorker::Cells, &batch) {
                    Ok(()) => !link.is_stopped(),
                    Err(error) => {
                        lost = Some(error);
                        false
                    }
                });
                match lost {
                    Some(error) => Err(FormatError::Io(std::io::Error::other(error))),
                    None => read,
                }
            });
            done(link, &read)
        }
    }
}

/// Sends the result of a call.
fn done<T: Wire, E: Wire>(link: &Link, result: &Result<T, E>) -> Result<(), Fatal>
where
    Result<T, E>: Wire,
{
    Ok(link.finish(result)?)
}

/// Takes the descriptor that came with a call.
fn file(link: &Link) -> Result<OwnedFd, Fatal> {
    Ok(link.take_descriptors().pop().ok_or("a descriptor is missing")?)
}

/// Sends the rows of a result.
struct Rows<'a> {
    link: &'a Link,
}

impl<'a> Rows<'a> {
    fn new(link: &'a Link) -> Self {
        Self { link }
    }

    /// Ends the statement if the server is gone, or needs no more rows.
    fn flow(&self, sent: Result<(), LinkError>) -> ControlFlow<()> {
        if sent.is_err() || self.link.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl RowSink for Rows<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.flow(self.link.queue(FromWorker::Columns, &columns.to_vec()))
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.flow(self.link.row(|out| row.iter().for_each(|value| put_value(value, out))))
    }
}
