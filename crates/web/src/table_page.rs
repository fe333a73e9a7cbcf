//! Reads a page of rows of a table.

use std::time::Duration;

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::TableSchema;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, RowOrder, Selection};
use branchyard_domain::usecases::LookEnd;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::AppState;

use crate::row_cursor::RowCursor;
use crate::rows::Grid;
use crate::table_query::Looking;

/// A request for a page of rows.
pub(crate) struct RowsQuery<'a, L: Level> {
    pub(crate) state: &'a AppState,
    pub(crate) access: &'a DatabaseAccess<L>,
    pub(crate) commit: &'a CommitHash,
    pub(crate) table: &'a str,
    pub(crate) looking: &'a Looking,
    /// Rows per page, unless the viewer chooses.
    pub(crate) page_rows: Option<u64>,
    /// Characters shown of a cell.
    pub(crate) characters: usize,
}

/// A page of rows.
pub(crate) struct RowsFound {
    /// All tables at the commit.
    pub(crate) schemas: Vec<TableSchema>,
    /// The requested table or view.
    pub(crate) schema: TableSchema,
    pub(crate) place: RowCursor,
    /// Rows per page.
    pub(crate) page_rows: u64,
    /// The rows; in reverse order if `place` is read backwards.
    pub(crate) grid: Grid,
    pub(crate) ended: LookEnd,
}

impl<L: Level> RowsQuery<'_, L> {
    /// Reads the page.
    ///
    /// # Errors
    /// The table does not exist, or the engine failed.
    pub(crate) fn find(&self, hub: &Hub) -> Result<RowsFound, ReadError> {
        let Self { state, access, commit, looking, .. } = *self;
        let schemas = hub.history().tables(access, commit)?;
        let schema = hub.browse().table(access, commit, self.table)?;
        let page_rows = self.page_rows.unwrap_or_else(|| looking.rows_for(schema.columns.len()));
        let place = RowCursor::asked(state, access.database().id, &schema, looking, page_rows);
        let after = place.cells();
        let wanted = Selection {
            table: &schema.name,
            tests: &looking.tests,
            order: looking.sort.as_deref().map(|column| RowOrder { column, descending: looking.descending }),
            backwards: place.backwards,
            after: after.as_deref(),
            skip: place.skip,
            limit: page_rows,
            timeout: Duration::from_millis(state.config.sql.default_timeout_ms),
            canceled: CancellationToken::default(),
        };
        let mut grid = Grid::cutting(self.characters);
        let ended = hub.browse().rows(access, commit, &wanted, &mut grid)?;
        Ok(RowsFound { schemas, schema, place, page_rows, grid, ended })
    }
}
