//! `/{owner}/{database}/sql`: runs one statement. The URL contains statement and ref, so that it can be shared.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Level, Query};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, Column, ReadQuery, RowSink, SqlFailure, ValueRef};
use branchyard_domain::usecases::ReadEnd;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{Waiting, segment, storage_class};

use super::{Outlines, outlines};
use crate::api_snippets::ApiSnippets;
use crate::changes::CHARACTERS;
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::error_page::PageError;
use crate::format;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::rows::{self, CellKind};

/// Rows shown. The download contains all rows.
const ROWS: usize = 500;
/// Size limit of the cells shown, in bytes. No row is added beyond it.
const BYTES: usize = 500_000;
/// Columns shown.
const COLUMNS: usize = 100;

/// A column of a result.
struct ResultHeading {
    name: String,
    declared_type: String,
    is_key: bool,
    /// Whether the column shows at least one number, and otherwise only NULL. Its heading is then aligned with the digits.
    is_number: bool,
}

/// Collects the rows of a result.
#[derive(Default)]
struct ResultRows {
    headings: Vec<ResultHeading>,
    hidden_columns: usize,
    rows: Vec<Vec<rows::CellView>>,
    bytes: usize,
    has_more: bool,
}

impl RowSink for ResultRows {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.hidden_columns = columns.len().saturating_sub(COLUMNS);
        let headings = columns.iter().take(COLUMNS).map(|column| ResultHeading {
            name: column.name.clone(),
            declared_type: column.declared_type.clone().unwrap_or_default(),
            is_key: column.is_primary_key,
            is_number: false,
        });
        self.headings = headings.collect();
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.rows.len() == ROWS || self.bytes > BYTES {
            self.has_more = true;
            return ControlFlow::Break(());
        }
        for (heading, value) in self.headings.iter_mut().zip(row) {
            // If no table declares the type, the first value determines it.
            if heading.declared_type.is_empty() {
                heading.declared_type = storage_class(*value).unwrap_or_default().to_owned();
            }
        }
        let cells: Vec<rows::CellView> =
            row.iter().take(COLUMNS).map(|value| rows::CellView::new(*value, CHARACTERS)).collect();
        self.bytes += cells.iter().map(|cell| cell.text.len()).sum::<usize>();
        self.rows.push(cells);
        ControlFlow::Continue(())
    }
}

impl ResultRows {
    /// Determines which columns contain numbers.
    fn align(&mut self) {
        for (place, heading) in self.headings.iter_mut().enumerate() {
            let kinds = || self.rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.kind);
            heading.is_number = kinds().any(|kind| kind == CellKind::Number)
                && kinds().all(|kind| matches!(kind, CellKind::Number | CellKind::Null));
        }
    }
}

/// A result as the page shows it.
struct ResultView {
    rows: ResultRows,
    /// The number of rows and the time taken.
    summary: String,
    csv: String,
    api: ApiSnippets,
}

/// The outcome of a statement.
enum ReadOutcome {
    /// No statement was entered.
    Nothing,
    /// The statement returned rows.
    Rows(ResultView),
    /// The statement failed.
    Failed(String),
    /// The statement changes data, or there are several statements. Contains the path of the editor if the viewer can write.
    Writes(Option<String>),
}

#[derive(Template)]
#[template(path = "sql.html")]
struct SqlPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    q: String,
    outlines: Outlines,
    outcome: ReadOutcome,
}

/// `GET /{owner}/{database}/sql?q=…&ref=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Query>(&visit, DatabaseTab::Sql).await.map_err(PageError::of_sql)?;
    // Without such a ref, the statement stays in the editor and does not run.
    let (at, missing) = match database::at(&visit, &access, &frame).await {
        Err(PageError::NoSuchRef { name, .. }) => (database::at_default(&visit, &access, &frame).await?, Some(name)),
        at => (at?, None),
    };
    let q = visit.parameter("q").unwrap_or_default().replace("\r\n", "\n");
    if visit.parameter("write").is_some() {
        return visit.redirect(&write_address(&frame, &q));
    }
    let (of, commit) = (access.clone(), at.commit.clone());
    let outlines = visit.read(move |hub| outlines(hub, &of, &commit)).await?;
    let max = visit.state.config.sql.max_statement_bytes_get;
    let status = if missing.is_some() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let outcome = match (missing, q.len()) {
        (Some(name), _) => {
            ReadOutcome::Failed(format!("There is no branch, tag or commit named '{name}'. Choose another version."))
        }
        _ if q.trim().is_empty() => ReadOutcome::Nothing,
        (None, long) if long > max => ReadOutcome::Failed(format!(
            "This statement has {long} bytes; a URL can hold {max}. Send it to the API with POST instead."
        )),
        _ => run(&visit, &access, &frame, &at, &q).await?,
    };
    visit.render(status, |shell| SqlPage { shell, frame, at, q, outlines, outcome })
}

fn write_address(frame: &DatabaseFrame, q: &str) -> String {
    paths::with_query(&format!("{}/sql/write", frame.path), &[("ref", &frame.asked_ref), ("q", q)])
}

async fn run(
    visit: &PageContext,
    access: &DatabaseAccess<Query>,
    frame: &DatabaseFrame,
    at: &ShownVersion,
    q: &str,
) -> Result<ReadOutcome, PageError> {
    let begun = Instant::now();
    let (ended, rows) = collect(visit, access, &at.commit, q).await?;
    let milliseconds = begun.elapsed().as_millis();
    match ended {
        ReadEnd::Done(_) => {
            let count = format::counted(rows.rows.len() as u64, "row", "rows");
            let summary = if rows.has_more {
                format!("First {count} in {milliseconds} ms. Download the CSV for all rows, or narrow the query.")
            } else {
                format!("{count} in {milliseconds} ms")
            };
            let csv = format!("{}/sql.csv?ref={}&q={}", frame.path, at.commit, segment(q));
            let api = api_snippets(visit, access, frame, &at.commit, q);
            Ok(ReadOutcome::Rows(ResultView { rows, summary, csv, api }))
        }
        ReadEnd::Failed(SqlFailure::NotARead | SqlFailure::SeveralStatements) => {
            Ok(ReadOutcome::Writes(frame.may_write.then(|| write_address(frame, q))))
        }
        ReadEnd::Failed(failure) => Ok(ReadOutcome::Failed(explained(&failure))),
    }
}

/// Returns the request of the API that runs a statement at a commit.
pub(in crate::pages) fn api_snippets<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
    at: &CommitHash,
    statement: &str,
) -> ApiSnippets {
    let url = format!("{}/api/v2/databases{}/sql", visit.state.config.public_url, frame.path);
    let is_open = visit.state.services.limits().anonymous_sql && access.database().anonymous_sql;
    ApiSnippets::of_query(&url, at.as_str(), statement, frame.is_private || !is_open)
}

/// Describes a failed statement. Timeouts are worded for people; other errors read as in the APIs.
pub(super) fn explained(failure: &SqlFailure) -> String {
    match failure {
        SqlFailure::TimedOut(millis) => {
            format!("The query took longer than {} s and was stopped.", millis.div_ceil(1_000))
        }
        other => other.to_string(),
    }
}

async fn collect(
    visit: &PageContext,
    access: &DatabaseAccess<Query>,
    commit: &CommitHash,
    q: &str,
) -> Result<(ReadEnd, ResultRows), PageError> {
    let canceled = CancellationToken::default();
    // Cancels the statement if the client disconnects.
    let _waiting = Waiting::new(&canceled);
    let timeout = Duration::from_millis(visit.state.config.sql.default_timeout_ms);
    let (access, commit, sql) = (access.clone(), commit.clone(), q.to_owned());
    let found = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let mut rows = ResultRows::default();
            let query = ReadQuery { sql: &sql, timeout, canceled };
            let ended = hub.sql().read(&access, &commit, &query, &mut rows)?;
            rows.align();
            Ok((ended, rows))
        })
        .await?;
    Ok(found)
}
