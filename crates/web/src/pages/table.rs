//! `/{owner}/{database}/tables/{table}`: rows of a table or view at a ref, filtered, sorted, a page at a time.

use std::time::Duration;

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{TableKind, TableSchema};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Canceled, RowOrder, Selection};
use branchyard_domain::usecases::ReadEnd;

use crate::database::{self, At, Frame, Tab};
use crate::format;
use crate::layout::Shell;
use crate::links::Links;
use crate::looking::{self, Looking};
use crate::rows::{Cell, Grid};
use crate::visit::{Answer, Visit};

/// Rows of a page.
const PAGE: u64 = 50;
/// Characters of a cell; all of it is on the page of the row.
const CELL_CHARACTERS: usize = 120;
/// How long counting may take; beyond that the number is left out.
pub(super) const COUNT_PATIENCE: Duration = Duration::from_millis(300);

struct Heading {
    name: String,
    declared_type: String,
    href: String,
    /// `ascending`, `descending` or nothing.
    sorted: &'static str,
    is_key: bool,
}

struct Shown {
    cell: Cell,
    link: Option<String>,
}

struct Row {
    href: String,
    cells: Vec<Shown>,
}

/// A test as the form shows it.
struct TestLine {
    column: String,
    test: &'static str,
    value: String,
}

#[derive(Template)]
#[template(path = "table.html")]
struct TablePage {
    shell: Shell,
    frame: Frame,
    at: At,
    table: String,
    path: String,
    is_view: bool,
    headings: Vec<Heading>,
    rows: Vec<Row>,
    failure: Option<String>,
    summary: String,
    lines: Vec<TestLine>,
    tests: Vec<(&'static str, &'static str)>,
    looking: Looking,
    previous: Option<String>,
    next: Option<String>,
    download: String,
    sql: String,
}

/// `GET /{owner}/{database}/tables/{table}?ref=…&column=…&test=…&value=…&sort=…&desc=1&page=…`
pub(crate) async fn show(visit: Visit) -> Answer {
    let (access, frame) = database::open::<Read>(&visit, Tab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let (slot, asked) = (visit.read_slot()?, looking.clone());
    let timeout = Duration::from_millis(visit.state.config.sql.default_timeout_ms);
    let (schemas, schema, grid, ended, count) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let _slot = slot;
            let schemas = hub.history().tables(&access, &commit)?;
            let schema = hub.browse().table(&access, &commit, &name)?;
            let wanted = Selection {
                table: &schema.name,
                tests: &asked.tests,
                order: asked.sort.as_deref().map(|column| RowOrder { column, descending: asked.descending }),
                skip: asked.first_row(PAGE),
                limit: PAGE + 1,
                timeout,
                canceled: Canceled::default(),
            };
            let mut grid = Grid::cutting(CELL_CHARACTERS);
            let ended = hub.browse().rows(&access, &commit, &wanted, &mut grid)?;
            let count = hub.browse().count(&access, &commit, &schema.name, &asked.tests, COUNT_PATIENCE)?;
            Ok((schemas, schema, grid, ended, count))
        })
        .await?;
    let failure = match ended {
        ReadEnd::Done(_) => None,
        ReadEnd::Failed(failure) => Some(failure.to_string()),
    };
    let path = frame.table_path(&schema.name);
    let more = grid.rows.len() as u64 > PAGE;
    let rows = rows(&frame, &looking, &schemas, &schema, grid.rows);
    let first = looking.first_row(PAGE).saturating_add(1);
    let summary = match (count, rows.len() as u64) {
        (Some(0), _) => "no rows".to_owned(),
        (None, 0) => "no rows here".to_owned(),
        (Some(count), 0) => format!("beyond the last of {}", format::counted(count, "row", "rows")),
        (Some(count), shown) => {
            let last = first + shown - 1;
            format!("{}–{} of {}", format::count(first), format::count(last), format::counted(count, "row", "rows"))
        }
        (None, shown) => format!("{}–{} of many rows", format::count(first), format::count(first + shown - 1)),
    };
    let to_page = |page| looking.at_page(page).address(&path, &frame.asked_ref);
    let previous = (looking.page > 1).then(|| to_page(looking.page - 1));
    let next = more.then(|| to_page(looking.page + 1));
    let lines = looking.tests.iter().map(|test| TestLine {
        column: test.column.clone(),
        test: looking::word(test.test),
        value: test.value.clone(),
    });
    let lines = lines.collect();
    let tests = looking::TESTS.iter().map(|(word, label, _)| (*word, *label)).collect();
    let download = frame.csv(&schema.name, &at);
    let sql =
        crate::paths::with_query(&format!("{}/sql", frame.path), &[("ref", &frame.asked_ref), ("table", &schema.name)]);
    visit.page(|shell| TablePage {
        headings: headings(&frame, &looking, &schema, &path),
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
        previous,
        next,
        download,
        sql,
    })
}

fn headings(frame: &Frame, looking: &Looking, schema: &TableSchema, path: &str) -> Vec<Heading> {
    let heading = |column: &branchyard_domain::entities::TableColumn| Heading {
        name: column.name.clone(),
        declared_type: column.declared_type.clone(),
        href: looking.sorted_by(&column.name).address(path, &frame.asked_ref),
        sorted: match (looking.sort.as_deref() == Some(column.name.as_str()), looking.descending) {
            (false, _) => "",
            (true, false) => "ascending",
            (true, true) => "descending",
        },
        is_key: column.in_primary_key,
    };
    schema.columns.iter().map(heading).collect()
}

fn rows(
    frame: &Frame,
    looking: &Looking,
    schemas: &[TableSchema],
    schema: &TableSchema,
    rows: Vec<Vec<Cell>>,
) -> Vec<Row> {
    let links = Links::new(frame, schemas, schema);
    let first = looking.first_row(PAGE);
    let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
    let numbered = (first.saturating_add(1)..).zip(rows.into_iter().take(page));
    numbered
        .map(|(number, cells)| {
            // Without a key that finds it again, a row is the so-many-th of what is looked at.
            let href = links.row(&cells).unwrap_or_else(|| {
                looking.at_page(number).address(&format!("{}/row", frame.table_path(&schema.name)), &frame.asked_ref)
            });
            let targets = links.targets(&cells);
            let cells = cells.into_iter().zip(targets).map(|(cell, link)| Shown { cell, link }).collect();
            Row { href, cells }
        })
        .collect()
}
