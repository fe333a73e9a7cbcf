use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::errors::{ReadError, RefError};
use branchyard_domain::ports::CancellationToken;
use branchyard_domain::usecases::ExportLimits;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{
    ApiError, CsvFile, DownloadWriter, Ending, HandlerError, RequestContext, disposition, download_channel, segment,
    send_archive,
};

use crate::access::access;
use crate::legacy_errors::LegacyError;
use crate::request::{LegacyRequest, Statuses};
use crate::successor;
use crate::wire::{Nothing, Place};

/// Handles `GET /csv/{owner}/{database}/{ref}/{table}` and `GET /csv/{owner}/{database}/{ref}`.
pub(crate) async fn download(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let sent = send(&asked, &mut place).await;
    sent.unwrap_or_else(|failure| asked.refuse(Statuses::Export, &failure, &Nothing {}))
}

/// The commit and table that the rest of a path names.
struct ExportPath {
    access: DatabaseAccess<Read>,
    commit: CommitHash,
    at: String,
    table: Option<String>,
}

async fn send(asked: &LegacyRequest, place: &mut Place) -> Result<HttpResponse, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "downloading").await?;
    let raw = asked.request.match_info().get("rest").unwrap_or_default().trim_end_matches('/');
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pieces: Vec<String> = raw.split('/').map(decode).collect();
    let named = call.read(move |hub| named(hub, access, &pieces)).await?;
    if named.table.is_some() {
        let Place { owner, name } = &place;
        successor::remember(&asked.request, format!("/databases/{}/{}/sql", segment(owner), segment(name)));
    }
    let include_bom = call.open_query(|query| Some(query.optional("include_bom") == Some("1")))?;
    let canceled = CancellationToken::default();
    let limits = ExportLimits::new(asked.settings().export_timeout, canceled.clone());
    let job = ExportJob { named, limits, include_bom };
    job.send(call, &canceled).await
}

/// Resolves the rest of a path. Tries it as a ref and a table first, then as a ref alone.
fn named(hub: &Hub, access: DatabaseAccess<Read>, pieces: &[String]) -> Result<ExportPath, LegacyError<ReadError>> {
    let resolve = |at: &str| match hub.sql().resolve(&access, Some(at)) {
        Ok(commit) => Ok(Some(commit)),
        Err(ReadError::Ref(RefError::NoSuchRef { .. } | RefError::NoSuchBranch(_) | RefError::NoSuchTag(_))) => {
            Ok(None)
        }
        Err(other) => Err(LegacyError(other)),
    };
    if let Some((table, before)) = pieces.split_last().filter(|(_, before)| !before.is_empty()) {
        let at = before.join("/");
        if let Some(commit) = resolve(&at)? {
            return Ok(ExportPath { access, commit, at, table: Some(table.clone()) });
        }
    }
    let at = pieces.join("/");
    match resolve(&at)? {
        Some(commit) => Ok(ExportPath { access, commit, at, table: None }),
        None => Err(LegacyError(ReadError::Ref(RefError::NoSuchBranch(at)))),
    }
}

/// A download with its limits.
struct ExportJob {
    named: ExportPath,
    limits: ExportLimits,
    include_bom: bool,
}

impl ExportJob {
    async fn send(self, call: &RequestContext, canceled: &CancellationToken) -> Result<HttpResponse, HandlerError> {
        let (content_type, file) = match &self.named.table {
            Some(table) => ("text/csv; charset=utf-8", format!("{table}.csv")),
            None => {
                let name = &self.named.access.database().locator.name;
                ("application/zip", format!("{name}-{}.zip", self.named.at.replace('/', "-")))
            }
        };
        let (writer, download) = download_channel(call.state.config.sql.stream_stall, canceled);
        let running = call.spawn(&call.state.sql, move |hub| self.write(hub, writer));
        let mut response = HttpResponse::Ok();
        response.insert_header((header::CONTENT_TYPE, content_type));
        response.insert_header((header::CONTENT_DISPOSITION, disposition(&file)));
        download.first().await.respond(&mut response, running).await
    }

    /// Writes the download. On an error, the writer is dropped, which aborts a download that has begun.
    fn write(self, hub: &Hub, writer: DownloadWriter<()>) -> Result<(), ApiError> {
        let Self { named: ExportPath { access, commit, at: _, table }, mut limits, include_bom } = self;
        let Some(table) = table else {
            return Ok(send_archive(hub, &access, &commit, false, &mut limits, writer).map_err(LegacyError)?);
        };
        let mut file = CsvFile::new(writer, include_bom);
        hub.exports().table(&access, &commit, &table, &mut limits, &mut file).map_err(LegacyError)?;
        if !file.gone {
            file.writer.end(Ending::Whole(()));
        }
        Ok(())
    }
}
