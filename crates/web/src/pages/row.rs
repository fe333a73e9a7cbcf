//! `/{owner}/{database}/tables/{table}/row`: one row with all of its cells.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::errors::ReadError;
use branchyard_domain::usecases::LookEnd;

use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::links::Links;
use crate::page_context::{PageContext, PageResult};
use crate::rows::CellView;
use crate::table_page::{RowsFound, RowsQuery};
use crate::table_query::Looking;

/// Characters shown of a cell.
const CELL_CHARACTERS: usize = 100_000;

struct RowField {
    name: String,
    declared_type: String,
    is_key: bool,
    cell: CellView,
    link: Option<String>,
}

#[derive(Template)]
#[template(path = "row.html")]
struct RowViewPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    table: String,
    path: String,
    /// The form that edits the row, for viewers who can write to a branch that is shown.
    edit: Option<String>,
    fields: Vec<RowField>,
    referring: Vec<(String, String)>,
}

/// `GET /{owner}/{database}/tables/{table}/row?ref=…&column=…&test=…&value=…&sort=…&desc=1&page=…`
///
/// Shows the first row that matches the filters, or the row at the position `page`.
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let state = visit.state.clone();
    let found = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let (state, access, commit, looking) = (&state, &access, &commit, &looking);
            let wanted =
                RowsQuery { state, access, commit, table: &name, looking, page_rows: 1, characters: CELL_CHARACTERS };
            wanted.find(hub)
        })
        .await?;
    let RowsFound { schemas, schema, grid, ended, .. } = found;
    let (LookEnd::Done(_), Some(cells)) = (ended, grid.rows.into_iter().next()) else {
        return Err(PageError::nothing_here());
    };
    let links = Links::new(&frame, &schemas, &schema);
    let edit = links.edit(&cells).filter(|_| frame.may_write && at.kind == "branch");
    let (targets, referring) = (links.targets(&cells), links.referring(&cells));
    let fields = schema.columns.iter().zip(cells).zip(targets).map(|((column, cell), link)| RowField {
        name: column.name.clone(),
        declared_type: column.declared_type.clone(),
        is_key: column.in_primary_key,
        cell,
        link,
    });
    let (fields, path) = (fields.collect(), frame.table(&schema.name));
    visit.page(|shell| RowViewPage { shell, frame, at, table: schema.name, path, edit, fields, referring })
}
