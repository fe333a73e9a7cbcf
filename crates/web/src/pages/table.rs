//! `/{owner}/{database}/tables/{table}`: the rows of a table or view at a ref, filtered, sorted and paged.

use std::time::Duration;

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{TableKind, TableSchema};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Selected, SqlFailure, Test};
use branchyard_domain::usecases::LookEnd;

use super::downloads::DownloadMenu;
use super::table_editor::EditorPlace;
use crate::api_snippets::ApiSnippets;
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::format;
use crate::layout::LayoutContext;
use crate::links::Links;
use crate::moments::TimeSteps;
use crate::page_context::{PageContext, PageResult};
use crate::pages::sql::read::api_snippets;
use crate::row_cursor::{Beside, RowCursor, Total};
use crate::rows::{self, CellView};
use crate::table_page::{RowsFound, RowsQuery};
use crate::table_query::{self, Looking, PAGE_SIZES};

/// Characters shown of a cell. The page of the row shows the whole value.
const CELL_CHARACTERS: usize = 120;
/// Tables and views listed beside the rows.
const TABLES: usize = 200;
/// Time limit for counting rows. Beyond it the count is omitted.
pub(super) const COUNT_PATIENCE: Duration = Duration::from_millis(300);

struct TableHeading {
    name: String,
    declared_type: String,
    href: String,
    /// The page with the values of the column.
    values: String,
    /// `ascending`, `descending` or empty.
    sorted: &'static str,
    is_key: bool,
    /// Whether the column stays in sight: the first one of the primary key.
    stays: bool,
    /// Whether the page shows only numbers and NULL in this column.
    is_number: bool,
}

struct TableView {
    cell: CellView,
    link: Option<String>,
    stays: bool,
}

struct TableRow {
    href: String,
    cells: Vec<TableView>,
}

/// A filter as the form shows it.
struct TestLine {
    column: String,
    test: &'static str,
    label: &'static str,
    value: String,
    has_value: bool,
    /// The page without this filter.
    without: String,
}

impl TestLine {
    /// Returns `true` if the filter names several values.
    fn is_list(&self) -> bool {
        self.test == table_query::word(Test::OneOf)
    }
}

/// A number of rows per page that the viewer can choose.
struct PageSize {
    rows: u64,
    href: String,
    is_shown: bool,
}

/// A table or view in the list beside the rows.
struct Sibling {
    name: String,
    href: String,
    is_shown: bool,
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
    siblings: Vec<Sibling>,
    has_more_siblings: bool,
    headings: Vec<TableHeading>,
    rows: Vec<TableRow>,
    failure: Option<String>,
    summary: String,
    lines: Vec<TestLine>,
    /// Column and value of each filter for one of several values.
    listed: Vec<(String, String)>,
    tests: Vec<(&'static str, &'static str)>,
    looking: Looking,
    sizes: [PageSize; 3],
    is_first: bool,
    pages: PageLinks,
    download: DownloadMenu,
    /// For viewers who can write to a branch that is shown.
    editor: Option<EditorPlace>,
    sql: String,
    history: String,
    time: TimeSteps,
    api: ApiSnippets,
}

/// Links to other pages of rows.
struct PageLinks {
    first: Option<String>,
    previous: Option<String>,
    next: Option<String>,
    last: Option<String>,
}

/// `GET /{owner}/{database}/tables/{table}?ref=…&column=…&test=…&value=…&sort=…&desc=1&rows=…&page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let (asked, reader) = (looking.clone(), access.clone());
    let (state, database) = (visit.state.clone(), access.database().id);
    let (found, total) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let (state, access, commit, looking) = (&state, &reader, &commit, &asked);
            let (table, page_rows, characters) = (&*name, None, CELL_CHARACTERS);
            let wanted = RowsQuery { state, access, commit, table, looking, page_rows, characters };
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
    let RowsFound { schemas, schema, place, page_rows, grid, ended } = found;
    let (selected, failure) = match ended {
        LookEnd::Done(selected) => (selected, None),
        LookEnd::Failed(failure) => (Selected::default(), Some(told(&failure, &looking))),
    };
    let path = frame.table_path(&schema.name);
    let address = |path: &str, place: &RowCursor| {
        looking
            .at_page(place.text(&visit.state, database, &schema, &looking, page_rows))
            .address(path, &frame.asked_ref)
    };
    let mut cells = grid.rows;
    if place.backwards {
        cells.reverse();
    }
    let shown = cells.len() as u64;
    let beside = place.beside((shown, page_rows), &selected, (&at.commit, total));
    let summary = summary(&beside, shown, total);
    let to_page = |place: &RowCursor| address(&path, place);
    let pages = PageLinks {
        first: beside.has_first.then(|| to_page(&RowCursor::default())),
        previous: beside.previous.as_ref().map(to_page),
        next: beside.next.as_ref().map(to_page),
        last: beside.last.as_ref().map(to_page),
    };
    let row_path = format!("{path}/row");
    let of_row = |number: u64| {
        let alone = place.row(number, shown).text(&visit.state, database, &schema, &looking, 1);
        looking.at_page(alone).address(&row_path, &frame.asked_ref)
    };
    let rows = rows(&frame, &schemas, &schema, cells, of_row);
    let is_first = place.is_first();
    let lines = lines(&frame, &looking, &path);
    let listed = looking.tests.iter().filter(|test| test.test == Test::OneOf);
    let listed = listed.map(|test| (test.column.clone(), test.value.clone())).collect();
    let tests = table_query::TESTS.iter().map(|(word, label, _)| (*word, *label)).collect();
    let download = DownloadMenu::of_table(&frame, &schema.name, &looking);
    let time = TimeSteps::find(&visit, &access, &frame, &at, &path, looking.pairs()).await?;
    let history = frame.history(&schema.name, "");
    let statement = looking.statement(&schema.name);
    let query = [("ref", frame.asked_ref.as_str()), ("q", &statement)];
    let sql = crate::paths::with_query(&format!("{}/sql", frame.path), &query);
    let api = api_snippets(&visit, &access, &frame, &at.commit, &format!("{statement}\nLIMIT {page_rows}"));
    let may_edit = frame.may_write && schema.kind == TableKind::Table && at.kind == "branch";
    let editor = may_edit.then(|| EditorPlace::of(&visit, &path, &at.name, &looking)).flatten();
    let sizes = PAGE_SIZES.map(|rows| PageSize {
        rows,
        href: looking.of_rows(rows).address(&path, &frame.asked_ref),
        is_shown: rows == page_rows,
    });
    visit.page(|shell| TablePage {
        headings: headings(&frame, &looking, &schema, &path, &rows),
        is_view: schema.kind == TableKind::View,
        siblings: siblings(&frame, &schemas, &schema.name),
        has_more_siblings: schemas.len() > TABLES,
        sizes,
        table: schema.name,
        shell,
        frame,
        at,
        path,
        rows,
        failure,
        summary,
        lines,
        listed,
        tests,
        looking,
        is_first,
        pages,
        download,
        editor,
        sql,
        api,
        history,
        time,
    })
}

fn siblings(frame: &DatabaseFrame, schemas: &[TableSchema], shown: &str) -> Vec<Sibling> {
    let sibling = |schema: &TableSchema| Sibling {
        name: schema.name.clone(),
        href: frame.table(&schema.name),
        is_shown: schema.name == shown,
    };
    schemas.iter().take(TABLES).map(sibling).collect()
}

/// Returns the filters. Those for one of several values of a column are shown as one.
fn lines(frame: &DatabaseFrame, looking: &Looking, path: &str) -> Vec<TestLine> {
    let mut lines: Vec<TestLine> = Vec::new();
    for (at, test) in looking.tests.iter().enumerate() {
        let is_alternative = |line: &&mut TestLine| line.is_list() && line.column.eq_ignore_ascii_case(&test.column);
        if let (Test::OneOf, Some(line)) = (test.test, lines.iter_mut().find(is_alternative)) {
            line.value = format!("{}, {}", line.value, test.value);
            continue;
        }
        let without = match test.test {
            Test::OneOf => looking.without_list(&test.column),
            _ => looking.without(at),
        };
        lines.push(TestLine {
            column: test.column.clone(),
            test: table_query::word(test.test),
            label: table_query::label(test.test),
            value: test.value.clone(),
            has_value: table_query::has_value(test.test),
            without: without.address(path, &frame.asked_ref),
        });
    }
    lines
}

/// Returns the position of the first column of the primary key.
fn first_key(schema: &TableSchema) -> Option<usize> {
    schema.columns.iter().position(|column| column.in_primary_key)
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
        values: super::column_values::address(frame, looking, path, &column.name),
        sorted: match (looking.sort.as_deref() == Some(column.name.as_str()), looking.descending) {
            (false, _) => "",
            (true, false) => "ascending",
            (true, true) => "descending",
        },
        is_key: column.in_primary_key,
        stays: first_key(schema) == Some(at),
        is_number: rows::are_numbers(rows.iter().filter_map(|row| row.cells.get(at)).map(|shown| &shown.cell)),
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
    let (links, key) = (Links::new(frame, schemas, schema), first_key(schema));
    let row = |(number, cells): (u64, Vec<CellView>)| {
        // A row that its key cannot identify is addressed by its position on the page.
        let href = links.row(&cells).unwrap_or_else(|| of_row(number));
        let targets = links.targets(&cells);
        let cells = cells.into_iter().zip(targets).enumerate();
        let cells = cells.map(|(at, (cell, link))| TableView { cell, link, stays: key == Some(at) });
        TableRow { href, cells: cells.collect() }
    };
    (0..).zip(rows).map(row).collect()
}
