//! Exports: a commit or one of its tables as a file, for the API and the pages.
//!
//! A file whose format ends with facts about its beginning, or begins with facts about its end, is made as a whole
//! ([`crate::made_files`]). The others are written to the client while their rows are read.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::TableKind;
use branchyard_domain::errors::{PortError, ReadError};
use branchyard_domain::ports::{CancellationToken, EngineError};
use branchyard_domain::usecases::{ExportLimits, ExportedRows};
use branchyard_domain::values::CommitHash;
use branchyard_exports::ExportError;
use branchyard_exports::parquet::{ColumnKinds, ParquetSink};
use branchyard_exports::xlsx::XlsxSink;
use branchyard_problem_details::{ErrorCode, Problem};

use crate::api_error::ApiError;
use crate::archive::send_archive;
use crate::coding::TaggedCoding;
use crate::csv_file::CsvFile;
use crate::download::{DownloadWriter, Ending, Waiting, download_channel};
use crate::handler_error::HandlerError;
use crate::json_file::JsonFile;
use crate::layer::OwnShape;
use crate::made_files::{FILE_BYTES, MadeFile, MadeFiles, Part, section};
use crate::request_context::RequestContext;
use crate::sql_dump::send_script;
use crate::urls::segment;

/// Time limit for the engine. Waiting for the client does not count.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A SQLite 3 file with all tables, indexes, views and triggers.
    Sqlite,
    /// A script of SQL statements that makes all tables.
    Sql,
    /// One table or view as comma-separated values.
    Csv,
    /// One table or view as a JSON array of objects.
    Json,
    /// One table or view as a Parquet file.
    Parquet,
    /// One table or view as an Excel workbook.
    Xlsx,
    /// All tables as CSV files in an archive.
    Zip,
}

impl ExportFormat {
    /// The formats with their names, in the order in which they are listed.
    pub const ALL: [(&'static str, Self); 7] = [
        ("sqlite", Self::Sqlite),
        ("sql", Self::Sql),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("parquet", Self::Parquet),
        ("xlsx", Self::Xlsx),
        ("zip", Self::Zip),
    ];

    /// Returns `true` if the format holds one table, which has to be named.
    pub fn is_of_table(self) -> bool {
        matches!(self, Self::Csv | Self::Json | Self::Parquet | Self::Xlsx)
    }

    /// Returns `true` if spreadsheets may take texts in the format for formulas.
    pub fn may_have_formulas(self) -> bool {
        matches!(self, Self::Csv | Self::Xlsx | Self::Zip)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Sqlite => "application/vnd.sqlite3",
            Self::Sql => "application/sql",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Json => "application/json",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Zip => "application/zip",
        }
    }

    /// Returns `true` if files of the format are made as a whole before they are sent.
    fn is_made(self) -> bool {
        matches!(self, Self::Sqlite | Self::Parquet | Self::Xlsx)
    }
}

/// An export that a caller asks for.
#[derive(Debug, Clone)]
pub struct Export {
    /// The format.
    pub format: ExportFormat,
    /// The rows, for formats of one table.
    pub rows: ExportedRows,
    /// Whether texts that a spreadsheet may take for a formula are protected.
    pub is_safe: bool,
    /// The ref as the caller named it, for the name of the file.
    pub at: String,
}

/// What an export reads.
struct Source {
    access: DatabaseAccess<Read>,
    commit: CommitHash,
}

impl Export {
    fn file_name(&self, database: &str) -> String {
        let stem = match self.format.is_of_table() {
            true => self.rows.table.clone(),
            false => format!("{database}-{}", self.at.replace('/', "-")),
        };
        format!("{stem}.{}", self.format.name())
    }

    /// Returns the entity tag. Without one, a view could be taken for another whose query has other rows by now.
    fn etag(&self, call: &RequestContext, source: &Source, is_view: bool, coding: &str) -> Option<String> {
        let ExportedRows { table, tests, order } = &self.rows;
        let (tests, order) = (format!("{tests:?}"), format!("{order:?}"));
        let safe = if self.is_safe { "safe" } else { "" };
        let id = source.access.database().id.to_string();
        let texts = ["export", &id, source.commit.as_str(), self.format.name(), table, &tests, &order, safe, coding];
        (!is_view).then(|| call.state.keys.entity_tag(&texts))
    }

    /// Answers a request with the export of a commit.
    ///
    /// # Errors
    /// 404 if there is no such table; 422 if the format cannot hold it; 503 if too many files are being made.
    pub async fn send(
        self,
        call: &RequestContext,
        access: DatabaseAccess<Read>,
        commit: CommitHash,
    ) -> Result<HttpResponse, HandlerError> {
        let source = Source { access, commit };
        let (mut export, source, is_view) = match self.format.is_of_table() {
            false => (self, source, false),
            true => {
                call.read(move |hub| -> Result<_, ReadError> {
                    let schema = hub.exports().schema(&source.access, &source.commit, &self.rows.table)?;
                    Ok((self.named(schema.name), source, schema.kind == TableKind::View))
                })
                .await?
            }
        };
        export.is_safe &= export.format.may_have_formulas();
        let coding = call.coding();
        let is_made = export.format.is_made();
        let etag = export.etag(call, &source, is_view, if is_made { "" } else { coding.name() });
        let name = export.file_name(source.access.database().locator.name.as_str());
        if let Some(etag) = etag.as_ref().filter(|etag| call.if_none_match().matches(etag)) {
            return Ok(HttpResponse::NotModified().insert_header((header::ETAG, etag.clone())).finish());
        }
        let mut response = HttpResponse::Ok();
        response
            .content_type(export.format.media_type())
            .insert_header((header::CONTENT_DISPOSITION, disposition(&name)));
        if let Some(etag) = &etag {
            response.insert_header((header::ETAG, etag.clone()));
            if !is_made {
                response.extensions_mut().insert(TaggedCoding(coding));
            }
        }
        if is_made {
            let file = export.made(call, source, etag.as_deref()).await?;
            return Ok(answer(response, &call.request, etag.as_deref(), file));
        }
        export.streamed(call, source, response).await
    }

    /// Spells the table as the commit does.
    fn named(mut self, table: String) -> Self {
        self.rows.table = table;
        self
    }

    /// Writes the export while its rows are read.
    async fn streamed(
        self,
        call: &RequestContext,
        source: Source,
        mut response: actix_web::HttpResponseBuilder,
    ) -> Result<HttpResponse, HandlerError> {
        let canceled = CancellationToken::default();
        let limits = ExportLimits::new(TIMEOUT, canceled.clone());
        let (writer, download) = download_channel(call.state.config.sql.stream_stall, &canceled);
        let running = call.spawn(&call.state.sql, move |hub| self.write(hub, &source, limits, writer));
        download.first().await.respond(&mut response, running).await
    }

    /// Writes a format that is streamed. On an error the writer is dropped, which aborts a download that has begun.
    fn write(
        &self,
        hub: &Hub,
        Source { access, commit }: &Source,
        mut limits: ExportLimits,
        writer: DownloadWriter<()>,
    ) -> Result<(), ReadError> {
        match self.format {
            ExportFormat::Zip => send_archive(hub, access, commit, self.is_safe, &mut limits, writer),
            ExportFormat::Sql => send_script(hub, access, commit, &mut limits, writer),
            ExportFormat::Json => {
                let mut file = JsonFile::new(writer);
                hub.exports().rows(access, commit, &self.rows, &mut limits, &mut file)?;
                if !file.gone {
                    file.end().end(Ending::Whole(()));
                }
                Ok(())
            }
            _ => {
                let mut file = CsvFile::new(writer, false);
                file.is_safe = self.is_safe;
                hub.exports().rows(access, commit, &self.rows, &mut limits, &mut file)?;
                if !file.gone {
                    file.writer.end(Ending::Whole(()));
                }
                Ok(())
            }
        }
    }

    /// Returns the file of a format that is made as a whole. Makes it unless it was made lately.
    async fn made(
        self,
        call: &RequestContext,
        source: Source,
        etag: Option<&str>,
    ) -> Result<Arc<MadeFile>, HandlerError> {
        let files = &call.state.made_files;
        if let Some(file) = etag.and_then(|etag| files.get(etag)) {
            return Ok(file);
        }
        let permit = files.begin().ok_or_else(|| {
            let busy = "too many files are being made for downloads; try again in a moment";
            HandlerError::from(Problem::new(ErrorCode::ServiceUnavailable, busy).retry_after(5))
        })?;
        let canceled = CancellationToken::default();
        // If the client disconnects, this future is dropped, which cancels the work.
        let _waiting = Waiting::new(&canceled);
        let (state, tag) = (call.state.clone(), etag.map(str::to_owned));
        let made = call
            .run(&call.state.sql, move |hub| -> Result<_, ApiError> {
                let file = self.make(hub, &source, ExportLimits::new(TIMEOUT, canceled))?;
                drop(permit);
                state.made_files.made(file, tag.as_deref()).map_err(|error| unavailable(error).into())
            })
            .await?;
        let state = call.state.clone();
        actix_web::rt::spawn(async move {
            tokio::time::sleep(MadeFiles::kept_for()).await;
            state.made_files.tidy();
        });
        Ok(made)
    }

    /// Makes a file. Runs for as long as the engine takes, on a thread of the pool for reads.
    fn make(&self, hub: &Hub, Source { access, commit }: &Source, mut limits: ExportLimits) -> Result<File, ReadError> {
        let (exports, rows) = (hub.exports(), &self.rows);
        let folder = exports.folder()?;
        let file = tempfile::tempfile_in(&folder).map_err(unavailable)?;
        match self.format {
            ExportFormat::Parquet => {
                let mut kinds = ColumnKinds::default();
                exports.rows(access, commit, rows, &mut limits, &mut kinds)?;
                let mut sink = ParquetSink::new(&kinds, &rows.table, &file, FILE_BYTES);
                exports.rows(access, commit, rows, &mut limits, &mut sink)?;
                sink.finish().map_err(failed)?;
            }
            ExportFormat::Xlsx => {
                let mut sink = XlsxSink::new(&folder, &rows.table, self.is_safe, FILE_BYTES).map_err(failed)?;
                exports.rows(access, commit, rows, &mut limits, &mut sink)?;
                sink.finish(&file).map_err(failed)?;
            }
            _ => exports.sqlite(access, commit, &file, FILE_BYTES, &limits)?,
        }
        Ok(file)
    }
}

fn answer(
    mut response: actix_web::HttpResponseBuilder,
    request: &HttpRequest,
    etag: Option<&str>,
    file: Arc<MadeFile>,
) -> HttpResponse {
    let length = file.length;
    if etag.is_some() {
        response.insert_header((header::ACCEPT_RANGES, "bytes"));
    }
    let (from, to) = match Part::of(request, etag, length) {
        Part::Whole => (0, length),
        Part::Range(first, last) => {
            response.status(actix_web::http::StatusCode::PARTIAL_CONTENT);
            response.insert_header((header::CONTENT_RANGE, format!("bytes {first}-{last}/{length}")));
            (first, last + 1)
        }
        Part::Beyond => {
            let mut beyond = HttpResponse::RangeNotSatisfiable();
            beyond.extensions_mut().insert(OwnShape);
            return beyond.insert_header((header::CONTENT_RANGE, format!("bytes */{length}"))).finish();
        }
    };
    response.no_chunking(to - from).streaming(section(file, from, to))
}

fn unavailable(error: std::io::Error) -> ReadError {
    PortError::from(EngineError::Unavailable(format!("make a file for a download: {error}"))).into()
}

fn failed(error: ExportError) -> ReadError {
    match error {
        ExportError::DoesNotFit(text) => ReadError::Content(text),
        ExportError::Io(error) => unavailable(error),
    }
}

/// Returns the `Content-Disposition` of a download. Characters that `filename` cannot hold are sent in `filename*` (RFC 6266).
pub fn disposition(file: &str) -> String {
    let plain: String =
        file.chars().map(|c| if matches!(c, ' '..='~') && c != '"' && c != '\\' { c } else { '_' }).collect();
    match plain == file {
        true => format!("attachment; filename=\"{plain}\""),
        false => {
            format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", segment(file))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_what_they_hold() {
        let rows = ExportedRows { table: "tree".to_owned(), ..ExportedRows::default() };
        let export = |format| Export { format, rows: rows.clone(), is_safe: false, at: "ada/work".to_owned() };
        assert_eq!(export(ExportFormat::Csv).file_name("rivers"), "tree.csv");
        assert_eq!(export(ExportFormat::Sqlite).file_name("rivers"), "rivers-ada-work.sqlite");
        assert_eq!(disposition("a.csv"), "attachment; filename=\"a.csv\"");
        assert_eq!(disposition("å\".csv"), "attachment; filename=\"__.csv\"; filename*=UTF-8''%C3%A5%22.csv");
    }
}
