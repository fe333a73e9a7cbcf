//! `/{owner}/{database}/tables/{table}/history`: the commits that changed a table, or one of its rows.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::Cell;
use branchyard_domain::errors::RowHistoryError;
use branchyard_domain::usecases::{RowRevision, WantedHistory};
use branchyard_http_common::{
    HandlerError, HistoryKey, bound, history_from, key_parameter, open_token, parse_key_parameter, token,
};

use crate::changes;
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::rows::CellView;
use crate::table_query::Looking;

/// Changes per page.
const PAGE: usize = 20;
/// Columns shown of a change.
const COLUMNS: usize = 30;
/// Characters shown of a cell.
const CHARACTERS: usize = 200;

/// A cell before and after a change.
struct ChangedCell {
    column: String,
    before: Option<CellView>,
    after: Option<CellView>,
}

/// A change of a row.
struct ChangeView {
    short: String,
    href: String,
    message: String,
    author: String,
    when: Markup,
    /// The number of the pull request and its page.
    pull: Option<(String, String)>,
    /// `added`, `removed` or `changed`.
    word: &'static str,
    /// Whether the change above it is of the same commit, whose heading is not repeated.
    is_continued: bool,
    /// The key of the row and the page of its history. Absent in the history of a row.
    row: Option<(String, Option<String>)>,
    cells: Vec<ChangedCell>,
    hidden_columns: usize,
}

#[derive(Template)]
#[template(path = "row_history.html")]
struct RowHistoryPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    table: String,
    path: String,
    /// The key of the row, and the row's page.
    row: Option<(String, String)>,
    table_history: String,
    changes: Vec<ChangeView>,
    looked: String,
    is_cut: bool,
    key_changed: Option<(String, String)>,
    newest: Option<String>,
    older: Option<String>,
}

/// `GET /{owner}/{database}/tables/{table}/history?ref=…&at=…&key={JSON}&page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (table, asked_key) = (visit.segment("table"), visit.parameter("key"));
    let refused = |faults: Vec<String>| HandlerError::parameter("key", faults.join("; "));
    let key = asked_key.as_deref().map(parse_key_parameter).transpose().map_err(refused)?;
    let id = access.database().id.to_string();
    let bound = bound(&["row history page", &id, &table, asked_key.as_deref().unwrap_or_default()]);
    let place: Option<HistoryKey> =
        visit.parameter("page").and_then(|page| open_token(&visit.state.keys, &bound, &page));
    let head = place.as_ref().and_then(HistoryKey::head).unwrap_or_else(|| at.commit.clone());
    let (row_key, is_first) = (key.clone(), place.is_none());
    let wanted = WantedHistory { head, table: table.clone(), key, at: None, limit: PAGE };
    let found = visit
        .run(&visit.state.sql, move |hub| -> Result<_, RowHistoryError> {
            history_from(hub, &access, wanted, place.as_ref())
        })
        .await?;
    let path = frame.table(&table);
    let action = format!("{}/history", frame.table_path(&table));
    let parameter = asked_key.unwrap_or_default();
    let to = |page: &str| paths::with_query(&action, &[("ref", &frame.asked_ref), ("key", &parameter), ("page", page)]);
    let older = found.next.as_ref().map(|next| to(&token(&visit.state, &bound, next)));
    let newest = (!is_first).then(|| to(""));
    let row = row_key.map(|key| {
        let texts: Vec<(&str, String)> = key.iter().map(|(column, cell)| (column.as_str(), plain(cell))).collect();
        let pairs: Vec<(&str, &str)> = texts.iter().map(|(column, text)| (*column, text.as_str())).collect();
        let page = Looking::with(&pairs).address(&format!("{}/row", frame.table_path(&table)), &frame.asked_ref);
        (label(&key), page)
    });
    let looked = format::counted(found.looked.commits, "commit", "commits");
    let key_changed = found.looked.key_changed_by.as_ref().map(|commit| (format::short(commit), frame.commit(commit)));
    let is_cut = older.is_some() && found.changes.len() < PAGE;
    let now = visit.state.services.now();
    let of_table = row.is_none();
    let view = |(revision, _): &_| view(revision, &frame, &table, of_table, now);
    let mut changes: Vec<ChangeView> = found.changes.iter().map(view).collect();
    for at in 1..changes.len() {
        changes[at].is_continued = changes[at].href == changes[at - 1].href;
    }
    visit.page(|shell| RowHistoryPage {
        table_history: frame.history(&table, ""),
        shell,
        frame,
        at,
        table,
        path,
        row,
        changes,
        looked,
        is_cut,
        key_changed,
        newest,
        older,
    })
}

fn view(
    revision: &RowRevision,
    frame: &DatabaseFrame,
    table: &str,
    of_table: bool,
    now: branchyard_domain::values::Timestamp,
) -> ChangeView {
    let RowRevision { change, pull } = revision;
    let (commit, row) = (&change.commit, &change.row);
    let message = format::first_line(&commit.message);
    let mut cells = changed_cells(row.from.as_deref(), row.to.as_deref());
    let hidden_columns = cells.len().saturating_sub(COLUMNS);
    cells.truncate(COLUMNS);
    let key = &row.primary_key;
    let is_findable = !key.iter().any(|(_, cell)| matches!(cell, Cell::Blob(_) | Cell::Null)) && !is_row_id(row);
    let texts: Vec<(&str, String)> = key.iter().map(|(column, cell)| (column.as_str(), plain(cell))).collect();
    let parameter = || key_parameter(texts.iter().map(|(column, text)| (*column, text.as_str())));
    ChangeView {
        short: format::short(&commit.hash),
        href: frame.commit(&commit.hash),
        message: if message.trim().is_empty() { "(no message)".to_owned() } else { message },
        author: commit.author.name.clone(),
        when: format::when(commit.author.at, now),
        pull: pull.map(|number| (number.to_string(), format!("{}/pulls/{number}", frame.path))),
        word: changes::word(row.change),
        is_continued: false,
        row: of_table.then(|| (label(key), is_findable.then(|| frame.history(table, &parameter())))),
        cells,
        hidden_columns,
    }
}

/// Returns `true` if the row has no primary key: its key is then a row id that is not a column.
fn is_row_id(row: &branchyard_domain::entities::RowChange) -> bool {
    let columns = row.to.as_ref().or(row.from.as_ref());
    let has = |name: &str| columns.is_some_and(|columns| columns.iter().any(|(column, _)| column == name));
    row.primary_key.iter().any(|(name, _)| !has(name))
}

/// Returns the cells that differ.
fn changed_cells(from: Option<&[(String, Cell)]>, to: Option<&[(String, Cell)]>) -> Vec<ChangedCell> {
    let (old, new) = (from.unwrap_or_default(), to.unwrap_or_default());
    let find = |row: &[(String, Cell)], name: &str| {
        row.iter().find(|(column, _)| column == name).map(|(_, cell)| cell.clone())
    };
    let removed = old.iter().filter(|(column, _)| find(new, column).is_none());
    let columns = new.iter().chain(removed).map(|(column, _)| column);
    let cell = |column: &String| {
        let (before, after) = (find(old, column), find(new, column));
        let view = |cell: Option<Cell>| cell.map(|cell| CellView::of(&cell, CHARACTERS));
        (before != after).then(|| ChangedCell { column: column.clone(), before: view(before), after: view(after) })
    };
    columns.filter_map(cell).collect()
}

/// Returns a key value as a filter finds it.
fn plain(cell: &Cell) -> String {
    CellView::of(cell, usize::MAX).text
}

fn label(key: &[(String, Cell)]) -> String {
    let part = |(column, cell): &(String, Cell)| format!("{column} = {}", CellView::of(cell, 60).text);
    key.iter().map(part).collect::<Vec<_>>().join(", ")
}
