//! `/{owner}/{database}/tables/{table}`: the rows of a table or view at a ref, filtered, sorted and paged.

use std::time::Duration;

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{TableKind, TableSchema};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Selected, SqlFailure};
use branchyard_domain::usecases::LookEnd;

use super::downloads::DownloadMenu;
use crate::api_snippets::ApiSnippets;
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::format;
use crate::layout::LayoutContext;
use crate::links::Links;
use crate::moments::TimeSteps;
use crate::page_context::{PageContext, PageResult};
use crate::pages::sql::read::api_snippets;
use crate::row_cursor::{Beside, RowCursor, Total};
use crate::rows::{CellKind, CellView};
use crate::table_page::{RowsFound, RowsQuery};
use crate::table_query::{self, Looking};

/// Rows per page.
const PAGE: u64 = 50;
/// Characters shown of a cell. The page of the row shows the whole value.
const CELL_CHARACTERS: usize = 120;
/// Time limit for counting rows. Beyond it the count is omitted.
pub(super) const COUNT_PATIENCE: Duration = Duration::from_millis(300);

struct TableHeading {
    name: String,
    declared_type: String,
    href: String,
    /// `ascending`, `descending` or empty.
    sorted: &'static str,
    is_key: bool,
    /// Whether the page shows only numbers and NULL in this column.
    is_number: bool,
}

struct TableView {
    cell: CellView,
    link: Option<String>,
}

struct TableRow {
    href: String,
    cells: Vec<TableView>,
}

/// A filter as the form shows it.
struct TestLine {
    column: String,
    test: &'static str,
    value: String,
}

#[derive(Template)]
#[template(path = "table.html")]
struct TablePage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    table: String,
    path: String,
    is_view: bool,
    headings: Vec<TableHeading>,
    rows: Vec<TableRow>,
    failure: Option<String>,
    summary: String,
    lines: Vec<TestLine>,
    tests: Vec<(&'static str, &'static str)>,
    looking: Looking,
    is_first: bool,
    first: Option<String>,
    previous: Option<String>,
    next: Option<String>,
    last: Option<String>,
    download: DownloadMenu,
    sql: String,
    history: String,
    time: TimeSteps,
    api: ApiSnippets,
}

/// `GET /{owner}/{database}/tables/{table}?ref=…&column=…&test=…&value=…&sort=…&desc=1&page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let (asked, reader) = (looking.clone(), access.clone());
    let (state, database) = (visit.state.clone(), access.database().id);
    let (found, total) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let (state, access, commit, looking) = (&state, &reader, &commit, &asked);
            let wanted = RowsQuery {
                state,
                access,
                commit,
                table: &name,
                looking,
                page_rows: PAGE,
                characters: CELL_CHARACTERS,
            };
            let found = wanted.find(hub)?;
            let total = match found.place.total(commit) {
                Some(total) => total,
                None => {
                    let count =
                        hub.browse().count(access, commit, &found.schema.name, &looking.tests, COUNT_PATIENCE)?;
                    count.map_or(Total::Many, Total::Counted)
                }
            };
            Ok((found, total))
        })
        .await?;
    let RowsFound { schemas, schema, place, grid, ended } = found;
    let (selected, failure) = match ended {
        LookEnd::Done(selected) => (selected, None),
        LookEnd::Failed(failure) => (Selected::default(), Some(told(&failure, &looking))),
    };
    let path = frame.table_path(&schema.name);
    let address = |path: &str, place: &RowCursor| {
        looking.at_page(place.text(&visit.state, database, &schema, &looking, PAGE)).address(path, &frame.asked_ref)
    };
    let mut cells = grid.rows;
    if place.backwards {
        cells.reverse();
    }
    let shown = cells.len() as u64;
    let beside = place.beside((shown, PAGE), &selected, (&at.commit, total));
    let summary = summary(&beside, shown, total);
    let to_page = |place: &RowCursor| address(&path, place);
    let first = beside.has_first.then(|| to_page(&RowCursor::default()));
    let (previous, next) = (beside.previous.as_ref().map(to_page), beside.next.as_ref().map(to_page));
    let last = beside.last.as_ref().map(to_page);
    let row_path = format!("{path}/row");
    let of_row = |number: u64| {
        let alone = place.row(number, shown).text(&visit.state, database, &schema, &looking, 1);
        looking.at_page(alone).address(&row_path, &frame.asked_ref)
    };
    let rows = rows(&frame, &schemas, &schema, cells, of_row);
    let is_first = place.is_first();
    let lines = looking.tests.iter().map(|test| TestLine {
        column: test.column.clone(),
        test: table_query::word(test.test),
        value: test.value.clone(),
    });
    let lines = lines.collect();
    let tests = table_query::TESTS.iter().map(|(word, label, _)| (*word, *label)).collect();
    let download = DownloadMenu::of_table(&frame, &schema.name, &looking);
    let statement = format!("{}\nLIMIT {PAGE}", looking.statement(&schema.name));
    let api = api_snippets(&visit, &access, &frame, &at.commit, &statement);
    let sql =
        crate::paths::with_query(&format!("{}/sql", frame.path), &[("ref", &frame.asked_ref), ("table", &schema.name)]);
    let time = TimeSteps::find(&visit, &access, &frame, &at, &path, looking.pairs()).await?;
    let history = frame.history(&schema.name, "");
    visit.page(|shell| TablePage {
        headings: headings(&frame, &looking, &schema, &path, &rows),
        is_view: schema.kind == TableKind::View,
        table: schema.name,
        shell,
        frame,
        at,
        path,
        rows,
        failure,
        summary,
        lines,
        tests,
        looking,
        is_first,
        first,
        previous,
        next,
        last,
        download,
        sql,
        api,
        history,
        time,
    })
}

/// Returns `true` if the column has a number on this page, and nothing but numbers and NULL.
fn are_numbers(rows: &[TableRow], at: usize) -> bool {
    let kinds = rows.iter().filter_map(|row| row.cells.get(at)).map(|shown| shown.cell.kind);
    let mut kinds = kinds.filter(|kind| *kind != CellKind::Null).peekable();
    kinds.peek().is_some() && kinds.all(|kind| kind == CellKind::Number)
}

fn headings(
    frame: &DatabaseFrame,
    looking: &Looking,
    schema: &TableSchema,
    path: &str,
    rows: &[TableRow],
) -> Vec<TableHeading> {
    let heading = |(at, column): (usize, &branchyard_domain::entities::TableColumn)| TableHeading {
        name: column.name.clone(),
        declared_type: column.declared_type.clone(),
        href: looking.sorted_by(&column.name).address(path, &frame.asked_ref),
        sorted: match (looking.sort.as_deref() == Some(column.name.as_str()), looking.descending) {
            (false, _) => "",
            (true, false) => "ascending",
            (true, true) => "descending",
        },
        is_key: column.in_primary_key,
        is_number: are_numbers(rows, at),
    };
    schema.columns.iter().enumerate().map(heading).collect()
}

/// Describes why there are no rows to show.
fn told(failure: &SqlFailure, looking: &Looking) -> String {
    let SqlFailure::TimedOut(millis) = failure else { return failure.to_string() };
    let seconds = millis.div_ceil(1_000);
    match &looking.sort {
        Some(column) => format!(
            "Sorting by {column} took longer than {seconds} s and was stopped. Add an index that starts with {column}, or filter the rows first."
        ),
        None => format!(
            "Finding these rows took longer than {seconds} s and was stopped. Filter by the primary key or by an indexed column."
        ),
    }
}

fn summary(beside: &Beside, shown: u64, total: Total) -> String {
    let all = match total {
        Total::Counted(count) => format::counted(count, "row", "rows"),
        Total::Many => "many rows".to_owned(),
    };
    match (total, shown, beside.number) {
        (Total::Counted(0), 0, _) => "No rows".to_owned(),
        (Total::Counted(_), 0, _) => format!("Past the last of {all}"),
        (Total::Many, 0, _) => "No rows here".to_owned(),
        (_, shown, Some(first)) => {
            format!("{}–{} of {all}", format::count(first), format::count(first.saturating_add(shown - 1)))
        }
        (_, shown, None) if beside.next.is_none() => format!("Last {} of {all}", format::count(shown)),
        (_, shown, None) => format!("{} of {all}", format::count(shown)),
    }
}

fn rows(
    frame: &DatabaseFrame,
    schemas: &[TableSchema],
    schema: &TableSchema,
    rows: Vec<Vec<CellView>>,
    of_row: impl Fn(u64) -> String,
) -> Vec<TableRow> {
    let links = Links::new(frame, schemas, schema);
    let row = |(number, cells): (u64, Vec<CellView>)| {
        // A row that its key cannot identify is addressed by its position on the page.
        let href = links.row(&cells).unwrap_or_else(|| of_row(number));
        let targets = links.targets(&cells);
        let cells = cells.into_iter().zip(targets).map(|(cell, link)| TableView { cell, link }).collect();
        TableRow { href, cells }
    };
    (0..).zip(rows).map(row).collect()
}
