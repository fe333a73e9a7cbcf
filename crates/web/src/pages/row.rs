//! `/{owner}/{database}/tables/{table}/row`: one row with all of its cells.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::Test;
use branchyard_domain::usecases::LookEnd;
use branchyard_http_common::{key_parameter, segment};

use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::links::Links;
use crate::moments::TimeSteps;
use crate::page_context::{PageContext, PageResult};
use crate::rows::{CellKind, CellView};
use crate::table_page::{RowsFound, RowsQuery};
use crate::table_query::Looking;
use crate::value_view;

mod blame;

use blame::{BlameView, RowBlames};

/// Characters shown of a cell.
const CELL_CHARACTERS: usize = 100_000;

struct RowField {
    name: String,
    declared_type: String,
    is_key: bool,
    cell: CellView,
    link: Option<String>,
    blame: Option<BlameView>,
    /// The value with line breaks, if it is a document in JSON.
    document: Option<String>,
    /// The value, if it is an address on the web.
    web: Option<String>,
    /// The path of the cell's bytes. `None` for NULL.
    bytes: Option<String>,
    /// The rows with the same value.
    same: Option<String>,
}

/// The links to what the row was before.
struct PastLinks {
    history: String,
    /// The page with or without the commits of the cells.
    blame: String,
    is_blamed: bool,
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
    past: Option<PastLinks>,
    time: Option<TimeSteps>,
    /// Says so if the commits of some cells were not found.
    gap: Option<&'static str>,
}

/// `GET /{owner}/{database}/tables/{table}/row?ref=…&at=…&column=…&test=…&value=…&sort=…&desc=1&page=…&blame=1`
///
/// Shows the first row that matches the filters, or the row at the position `page`, with `blame` also the commit that each cell is from.
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let (state, asked, reader) = (visit.state.clone(), looking.clone(), access.clone());
    let found = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let (state, access, commit, looking) = (&state, &reader, &commit, &asked);
            let (table, page_rows, characters) = (&*name, Some(1), CELL_CHARACTERS);
            RowsQuery { state, access, commit, table, looking, page_rows, characters }.find(hub)
        })
        .await?;
    let RowsFound { schemas, schema, grid, ended, .. } = found;
    let (LookEnd::Done(_), Some(cells)) = (ended, grid.rows.into_iter().next()) else {
        return Err(PageError::NoSuchRow { table: frame.table(&schema.name) });
    };
    let links = Links::new(&frame, &schemas, &schema);
    let edit = links.edit(&cells).filter(|_| frame.may_write && at.kind == "branch");
    let (targets, referring) = (links.targets(&cells), links.referring(&cells));
    let is_blamed = visit.parameter("blame").is_some();
    let key: Option<Vec<(String, String)>> = links
        .key(&cells)
        .map(|key| key.iter().map(|(column, text)| ((*column).to_owned(), (*text).to_owned())).collect());
    let mut blames = match &key {
        Some(key) if is_blamed => blame::find(&visit, &access, &frame, &at.commit, &schema.name, key).await?,
        _ => RowBlames::default(),
    };
    let row_path = format!("{}/row", frame.table_path(&schema.name));
    let (mut past, mut time) = (None, None);
    if let Some(key) = key {
        let pairs: Vec<(&str, &str)> = key.iter().map(|(column, text)| (column.as_str(), text.as_str())).collect();
        let mut kept: Vec<(String, String)> = Vec::new();
        for (column, text) in &pairs {
            let filter = [("column", *column), ("test", "eq"), ("value", *text)];
            kept.extend(filter.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        if is_blamed {
            kept.push(("blame".to_owned(), "1".to_owned()));
        }
        let plain = Looking::with(&pairs).address(&row_path, &frame.asked_ref);
        past = Some(PastLinks {
            history: frame.history(&schema.name, &key_parameter(pairs.into_iter())),
            blame: if is_blamed { plain } else { format!("{plain}&blame=1") },
            is_blamed,
        });
        time = Some(TimeSteps::find(&visit, &access, &frame, &at, &row_path, kept).await?);
    }
    let path = frame.table_path(&schema.name);
    let fields = schema.columns.iter().zip(cells).zip(targets).map(|((column, cell), link)| {
        let same = match cell.kind {
            CellKind::Null => Some(Looking::default().and(&column.name, Test::IsNull, "")),
            _ if cell.is_findable() => Some(Looking::default().and(&column.name, Test::Equals, &cell.text)),
            _ => None,
        };
        let bytes = looking.address(&format!("{path}/cell"), &frame.asked_ref);
        let sign = if bytes.contains('?') { '&' } else { '?' };
        let is_text = cell.kind == CellKind::Text && !cell.is_cut;
        RowField {
            document: value_view::pretty_json(&cell.text).filter(|_| is_text),
            web: value_view::web_address(&cell.text).filter(|_| is_text && link.is_none()).map(str::to_owned),
            bytes: (cell.kind != CellKind::Null).then(|| format!("{bytes}{sign}of={}", segment(&column.name))),
            same: same.map(|same| same.address(&path, &frame.asked_ref)),
            name: column.name.clone(),
            declared_type: column.declared_type.clone(),
            is_key: column.in_primary_key,
            cell,
            link,
            blame: blames.take(&column.name),
        }
    });
    let (fields, path, gap) = (fields.collect(), frame.table(&schema.name), blames.gap);
    let table = schema.name;
    visit.page(|shell| RowViewPage { shell, frame, at, table, path, edit, fields, referring, past, time, gap })
}
