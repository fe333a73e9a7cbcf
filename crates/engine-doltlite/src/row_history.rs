//! Finds the commits that changed a row, or any row of a table.
//!
//! The engine's own history tables read the row at every commit. This walk reads chunks instead: a commit names its catalog, the
//! catalog the root of the table, and the nodes from there to the row are compared by their hashes. So a commit that did not touch
//! the table costs two small chunks, and one that did not touch the part of the table around the row costs one more.
//! Only the rows of changes are read by SQL.

mod merges;
mod row_key;
mod walk;

use branchyard_domain::ports::{EngineError, HistoryPage, HistoryPosition, HistoryQuery};
use branchyard_domain::values::DatabaseId;

use crate::chunks::ChunkReader;
use crate::engine::DoltliteEngine;
use walk::HistoryWalk;

/// Returns a page of the history of a row or a table.
pub(crate) fn row_history(
    engine: &DoltliteEngine,
    database: DatabaseId,
    at: &HistoryPosition,
    wanted: &HistoryQuery<'_>,
) -> Result<HistoryPage, EngineError> {
    let mut walk = HistoryWalk::new(engine, database, wanted, ChunkReader::open(engine, database)?);
    let page = engine.reading_history(database, |connection| walk.page(connection, at));
    walk.close();
    page
}
