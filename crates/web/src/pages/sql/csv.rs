//! `/{owner}/{database}/sql.csv`: downloads all rows of a statement.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::access::Query;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, ReadQuery};
use branchyard_domain::usecases::ReadEnd;
use branchyard_http_common::{CsvFile, Ending, First, download_channel};
use branchyard_problem_details::{ErrorCode, Problem};

use super::read::explained;
use crate::database::{self, DatabaseTab};
use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};

/// How the download ended: `Err` contains the error of the statement.
type CsvEnd = Result<(), String>;

/// `GET /{owner}/{database}/sql.csv?q=…&ref=…`
pub(crate) async fn get(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Query>(&visit, DatabaseTab::Sql).await.map_err(PageError::of_sql)?;
    let at = database::at(&visit, &access, &frame).await?;
    let sql = visit.parameter("q").unwrap_or_default();
    let canceled = CancellationToken::default();
    let timeout = Duration::from_millis(visit.state.config.sql.default_timeout_ms);
    let (writer, download) = download_channel::<CsvEnd>(visit.state.config.sql.stream_stall, &canceled);
    let running = visit.spawn(&visit.state.sql, move |hub| -> Result<(), ReadError> {
        let mut file = CsvFile::new(writer, false);
        let query = ReadQuery { sql: &sql, timeout, canceled };
        let ending = match hub.sql().read(&access, &at.commit, &query, &mut file)? {
            ReadEnd::Done(_) => Ending::Whole(Ok(())),
            ReadEnd::Failed(failure) => Ending::Broken(Err(explained(&failure))),
        };
        file.writer.end(ending);
        Ok(())
    });
    let mut response = HttpResponse::Ok();
    response
        .content_type("text/csv; charset=utf-8")
        .insert_header((header::CONTENT_DISPOSITION, "attachment; filename=\"result.csv\""));
    match download.first().await {
        First::All(_, Ending::Broken(Err(text))) => Err(Problem::new(ErrorCode::Unprocessable, text).into()),
        first => Ok(first.respond(&mut response, running).await?),
    }
}
