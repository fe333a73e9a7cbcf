//! Downloads: a table as CSV (`/{owner}/{database}/tables/{table}/csv`), and all tables as an archive (`/{owner}/{database}/zip`).

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::CancellationToken;
use branchyard_domain::usecases::ExportLimits;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{CsvFile, DownloadWriter, Ending, First, download_channel, segment, send_archive};
use branchyard_problem_details::Problem;

use crate::database::{self, DatabaseTab, ShownVersion};
use crate::page_context::{PageContext, PageResult};

/// Time limit for the engine. Waiting for the client does not count.
const TIMEOUT: Duration = Duration::from_secs(600);

/// `GET /{owner}/{database}/tables/{table}/csv?ref=…`
pub(crate) async fn table(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let table = visit.segment("table");
    let file = DownloadFile { name: format!("{table}.csv"), kind: "text/csv; charset=utf-8" };
    send(&visit, access, at, file, move |hub, access, commit, limits, writer| {
        let mut file = CsvFile::new(writer, false);
        hub.exports().table(access, commit, &table, limits, &mut file)?;
        if !file.gone {
            file.writer.end(Ending::Whole(()));
        }
        Ok(())
    })
    .await
}

/// `GET /{owner}/{database}/zip?ref=…`
pub(crate) async fn archive(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let name = format!("{}-{}.zip", frame.name, at.name.replace('/', "-"));
    send(&visit, access, at, DownloadFile { name, kind: "application/zip" }, send_archive).await
}

/// File name and content type of a download.
struct DownloadFile {
    name: String,
    kind: &'static str,
}

async fn send<F>(
    visit: &PageContext,
    access: DatabaseAccess<Read>,
    at: ShownVersion,
    file: DownloadFile,
    write: F,
) -> PageResult
where
    F: FnOnce(&Hub, &DatabaseAccess<Read>, &CommitHash, &mut ExportLimits, DownloadWriter<()>) -> Result<(), ReadError>
        + Send
        + 'static,
{
    let canceled = CancellationToken::default();
    let mut limits = ExportLimits::new(TIMEOUT, canceled.clone());
    let (writer, download) = download_channel(visit.state.config.sql.stream_stall, &canceled);
    let running = visit.spawn(&visit.state.sql, move |hub| write(hub, &access, &at.commit, &mut limits, writer));
    let mut response = HttpResponse::Ok();
    response
        .content_type(file.kind)
        .insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename*=UTF-8''{}", segment(&file.name))));
    match download.first().await {
        First::All(body, _) => Ok(response.body(body)),
        First::Begun(begun, download) => Ok(response.streaming(download.stream(begun))),
        First::Lost => match running.await {
            Ok(Err(failure)) => Err(failure.into()),
            Ok(Ok(())) | Err(_) => Err(Problem::internal().into()),
        },
    }
}
