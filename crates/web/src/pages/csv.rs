//! `/{owner}/{database}/tables/{table}/csv`: a whole table as a file.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_api_common::{DownloadWriter, Ending, First, csv_header, csv_row, download_channel, segment};
use branchyard_domain::access::Read;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Canceled, Column, Flow, RowSink, ValueRef};
use branchyard_domain::usecases::ExportLimits;
use branchyard_problem_details::Problem;

use crate::database::{self, Tab};
use crate::visit::{Answer, Visit};

/// How long the engine may compute; waiting for the client does not count.
const TIMEOUT: Duration = Duration::from_secs(600);

struct CsvFile {
    writer: DownloadWriter<()>,
    is_client_gone: bool,
}

impl RowSink for CsvFile {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        csv_header(self.writer.buffer(), columns);
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        csv_row(self.writer.buffer(), row);
        self.is_client_gone = !self.writer.flush_if_due();
        if self.is_client_gone { Flow::Stop } else { Flow::Continue }
    }
}

/// `GET /{owner}/{database}/tables/{table}/csv?ref=…`
pub(crate) async fn get(visit: Visit) -> Answer {
    let (access, frame) = database::open::<Read>(&visit, Tab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let table = visit.segment("table");
    let slot = visit.read_slot()?;
    let canceled = Canceled::default();
    let mut limits = ExportLimits::new(TIMEOUT, canceled.clone());
    let (writer, download) = download_channel(visit.state.config.sql.stream_stall, &canceled);
    let name = table.clone();
    let running = visit.spawn(&visit.state.sql, move |hub| -> Result<_, ReadError> {
        let _slot = slot;
        let mut file = CsvFile { writer, is_client_gone: false };
        hub.exports().table(&access, &at.commit, &name, &mut limits, &mut file)?;
        if !file.is_client_gone {
            file.writer.end(Ending::Whole(()));
        }
        Ok(())
    });
    let mut response = HttpResponse::Ok();
    response.content_type("text/csv; charset=utf-8").insert_header((
        header::CONTENT_DISPOSITION,
        format!("attachment; filename*=UTF-8''{}", segment(&format!("{table}.csv"))),
    ));
    match download.first().await {
        First::All(body, _) => Ok(response.body(body)),
        First::Begun(begun, download) => Ok(response.streaming(download.stream(begun))),
        First::Lost => match running.await {
            Ok(Err(failure)) => Err(failure.into()),
            Ok(Ok(())) | Err(_) => Err(Problem::internal().into()),
        },
    }
}
