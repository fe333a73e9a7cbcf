use std::ops::RangeInclusive;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{Either, HttpResponse};
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Query as QueryLevel, Write};
use branchyard_domain::entities::Operation;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, ReadQuery, SqlFailure, StartedRead};
use branchyard_domain::usecases::{PreviewEnd, PreviewReport, ReadEnd, SqlWrite};
use branchyard_domain::values::{CommitHash, LongText, RefName};
use branchyard_http_common::{
    AnonymousBodies, ApiError, ApiResponse, AppState, Coding, CollectLimits, DatabasePath, Ending, Endpoint, Fields,
    First, HandlerError, IfNoneMatch, JsonRows, Query, RequestBody, RequestContext, RowShape, TaggedCoding, Waiting,
    download_channel, preview_refusal, section, statement_failure,
};
use branchyard_problem_details::{ErrorCode, Problem};

use super::{HandlerResult, accepted, too_large, urls};
use crate::direct_write::{CheckedWrite, DirectEnd};
use crate::stream::{StreamFormat, StreamSink};
use crate::{convert, direct_write, waiting, wire};
use branchyard_http_common::methods::{get, post};
use branchyard_openapi::{Credential, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Database", "/databases/{owner}/{database}", vec![
get("/sql", "runSqlReadQuery", "Run a SQL read", run_sql_read_query).credential(Credential::Optional).query(&["sql_q", "ref", "limit", "timeout_ms"]).anonymous_bodies(AnonymousBodies::Whole).responds(200, Success::One("QueryResult"), ("DL", &[422])).describe("Runs one statement at exactly one commit: the commit that `ref` names when the read starts. A \
                     statement that fails is answered 200 with `status` `error` or `timeout`. With `Accept: text/csv` \
                     or `application/x-ndjson` the whole result is streamed, without a row limit; a CSV read that \
                     fails before its first byte is answered 422."),
post("/sql", "runSqlReadQueryPost", "Run a SQL read", run_sql_read_query_post).reads().credential(Credential::Optional).json(&SQL_READ).anonymous_bodies(AnonymousBodies::Whole).responds(200, Success::One("QueryResult"), ("DB", &[422])).describe("Runs one statement at exactly one commit: the commit that `ref` names when the read starts. A \
                     statement that fails is answered 200 with `status` `error` or `timeout`. With `Accept: text/csv` \
                     or `application/x-ndjson` the whole result is streamed, without a row limit; a CSV read that \
                     fails before its first byte is answered 422."),
post("/sql-writes", "runSqlWriteQuery", "Run SQL statements as one commit", run_sql_write_query).json(&SQL_WRITE).responds(202, Success::One("OperationRef"), ("DBKP", &[422])).describe("Runs as an operation, all or nothing: the statements run on `to_branch` and become one commit by the \
                 caller. Then `from_branch`, if it is another branch, is merged into `to_branch`. A missing \
                 `to_branch` is created from the head of `from_branch`. With `expected_head`, 409 `CONFLICT` if the statements would run on \
                 another commit, also as the error of an operation before which the branch moved. With `dry_run`, 200 with what the \
                 statements change, without the merge; they run for at most 5 s, are undone, and nothing is kept. 422 if a statement fails, \
                 or if the statements cannot be previewed."),
])
}

/// The range of counts in a body. Values above the configured cap are reduced to the cap.
const COUNTS: RangeInclusive<u64> = 1..=i64::MAX as u64;

/// A JSON response, or a streamed one.
type Answered = Result<Either<ApiResponse, HttpResponse>, HandlerError>;

/// The parameters of a read.
struct ReadRequest {
    q: String,
    at: Option<String>,
    limit: Option<u64>,
    timeout_ms: Option<u64>,
}

/// Handles `GET …/sql`.
pub(crate) async fn run_sql_read_query(call: RequestContext) -> Answered {
    let asked = call.query(|query| asked_by_query(query, call.state.config.sql.max_statement_bytes_get));
    read(&call, asked).await
}

fn asked_by_query(query: &Query<'_>, max_bytes: usize) -> Option<ReadRequest> {
    let q = query.required_text("q").map(str::to_owned);
    if q.as_ref().is_some_and(|q| q.len() > max_bytes) {
        query.fault("q", format!("has more than {max_bytes} bytes; send it by POST"));
    }
    let at = query.text("ref").map(str::to_owned);
    let (limit, timeout_ms) = (query.count("limit"), query.count("timeout_ms"));
    Some(ReadRequest { q: q?, at, limit, timeout_ms })
}

const SQL_READ: RequestBody<ReadRequest> = RequestBody::closed("SqlReadRequest", |fields| {
    let q = fields
        .schema(|| json!({"maxLength": 1_048_576, "description": "The statement, at most 1 MiB."}))
        .required_text("q");
    let rules =
        || json!({"minLength": 1, "description": "A branch, tag, commit or expression. Default: the default branch."});
    let at = fields.schema(rules).optional_as("ref", |text| match text {
        "" => Err("must not be empty"),
        text => Ok(text.to_owned()),
    });
    let limit =
        fields.doc("Maximum number of rows. Default 1,000; in JSON at most 10,000.").optional_int("limit", &COUNTS);
    let timeout_ms = fields
        .doc("Maximum run time in milliseconds. Default 30,000; at most 60,000.")
        .optional_int("timeout_ms", &COUNTS);
    Some(ReadRequest { q: q?, at, limit, timeout_ms })
})
.example(|| json!({"ref": "main", "q": "select id, name from people", "limit": 10, "timeout_ms": 2_500}));

/// Handles `POST …/sql`.
pub(crate) async fn run_sql_read_query_post(call: RequestContext) -> Answered {
    let asked = call.json(&SQL_READ);
    let max_bytes = call.state.config.sql.max_statement_bytes;
    let short = |asked: ReadRequest| if asked.q.len() > max_bytes { Err(too_large("q", max_bytes)) } else { Ok(asked) };
    read(&call, asked.and_then(short)).await
}

async fn read(call: &RequestContext, asked: Result<ReadRequest, HandlerError>) -> Answered {
    call.has_no_effect();
    let asked = match asked {
        Ok(asked) => asked,
        Err(failure) => {
            // The access error takes precedence over the error of the request.
            call.access::<QueryLevel>().await?;
            return Err(failure);
        }
    };
    let limits = &call.state.config.sql;
    let reading = Reading {
        sought: call.sought(),
        timeout_ms: asked.timeout_ms.unwrap_or(limits.default_timeout_ms).min(limits.timeout_cap_ms),
        asked,
        format: StreamFormat::accepted(call.header("accept")),
        coding: call.coding(),
        state: call.state.clone(),
        known: call.if_none_match(),
        is_read: call.is_read(),
    };
    let known = reading.known_grant(&call.state.services);
    if let Some(answer) = known.as_ref().and_then(|granted| reading.kept(granted)) {
        return Ok(Either::Left(answer));
    }
    match reading.format {
        StreamFormat::Json => reading.whole(call, known).await.map(Either::Left),
        StreamFormat::Ndjson | StreamFormat::Csv => reading.streamed(call).await,
    }
}

/// A read.
struct Reading {
    sought: DatabasePath,
    asked: ReadRequest,
    timeout_ms: u64,
    format: StreamFormat,
    coding: Coding,
    state: AppState,
    known: IfNoneMatch,
    is_read: bool,
}

/// The resolved target of a read, and the entity tag of its result, which is used only if the result is deterministic.
struct Granted {
    access: DatabaseAccess<QueryLevel>,
    commit: CommitHash,
    etag: String,
}

impl Reading {
    fn grant(&self, hub: &Hub) -> Result<Granted, ApiError> {
        let access = self.sought.access::<QueryLevel>(hub)?;
        let commit = hub.sql().resolve(&access, self.asked.at.as_deref())?;
        let etag = self.etag(&access, &commit);
        Ok(Granted { access, commit, etag })
    }

    /// Returns the same as [`Self::grant`] if the role and the commit are cached. Never blocks.
    fn known_grant(&self, hub: &Hub) -> Option<Granted> {
        let access = self.sought.known_access::<QueryLevel>(hub)?;
        let commit = hub.sql().known(&access, self.asked.at.as_deref())?;
        let etag = self.etag(&access, &commit);
        Some(Granted { access, commit, etag })
    }

    /// Returns the response without running the statement, if the client's cached copy is valid or the result is in the
    /// server's cache.
    fn kept(&self, granted: &Granted) -> Option<ApiResponse> {
        // The tag is keyed with the server's secret and only issued for deterministic results, so a match proves that the
        // client holds the result.
        if self.known.matches(&granted.etag) {
            return Some(ApiResponse::with_body(200, "").tagged(Some(granted.etag.clone())));
        }
        if self.is_read && self.format == StreamFormat::Json { self.state.results.get(&granted.etag) } else { None }
    }

    fn etag(&self, access: &DatabaseAccess<QueryLevel>, commit: &CommitHash) -> String {
        let limits = &self.state.config.sql;
        let in_force = match self.format {
            StreamFormat::Json => format!("{} {} {}", limits.default_limit, limits.row_cap, limits.max_response_bytes),
            StreamFormat::Ndjson | StreamFormat::Csv => String::new(),
        };
        let id = access.database().id.to_string();
        let limit = self.asked.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let timeout = self.timeout_ms.to_string();
        let request = [&id, commit.as_str(), &self.asked.q, &limit, &timeout];
        self.state.keys.entity_tag(&[&request[..], &[&in_force, self.format.media_type(), self.coding.name()]].concat())
    }

    fn query(&self, canceled: CancellationToken) -> ReadQuery<'_> {
        ReadQuery { sql: &self.asked.q, timeout: Duration::from_millis(self.timeout_ms), canceled }
    }

    /// Returns the result as one JSON document with limits. A short read of a database that has a worker process needs no thread;
    /// another one resolves and reads on one, because it takes less time than a switch between threads.
    async fn whole(self, call: &RequestContext, known: Option<Granted>) -> HandlerResult {
        let canceled = CancellationToken::default();
        // If the client disconnects, this future is dropped. Dropping `_waiting` then cancels the statement.
        let _waiting = Waiting::new(&canceled);
        let start = call.start_read(|hub| {
            let Granted { access, commit, .. } = known.as_ref()?;
            hub.sql().start(access, commit, &self.query(canceled.clone()))
        });
        let start = start.await?;
        call.finish_read(start, move |hub, started| self.answer(hub, known, started, canceled)).await
    }

    fn answer(
        &self,
        hub: &Hub,
        known: Option<Granted>,
        started: Option<Box<dyn StartedRead>>,
        canceled: CancellationToken,
    ) -> Result<ApiResponse, ApiError> {
        let granted = known.map_or_else(|| self.grant(hub), Ok)?;
        if let Some(answer) = self.kept(&granted).filter(|_| started.is_none()) {
            return Ok(answer);
        }
        let Granted { access, commit, etag } = granted;
        let limits = &self.state.config.sql;
        let mut rows = JsonRows::new(
            RowShape::Arrays,
            CollectLimits {
                rows: self.asked.limit.unwrap_or(limits.default_limit).min(limits.row_cap),
                rows_are_the_callers: self.asked.limit.is_some_and(|limit| limit <= limits.row_cap),
                bytes: limits.max_response_bytes,
            },
        );
        let end = hub.sql().finish(started, &access, &commit, &self.query(canceled), &mut rows);
        let (answer, lasting) = match end? {
            ReadEnd::Done(report) => (convert::finished(rows.finish()), report.deterministic),
            ReadEnd::Failed(failure) => (convert::failed(status_of(&failure), failure.to_string()), false),
        };
        if !(lasting && self.is_read) {
            return Ok(answer);
        }
        let answer = answer.tagged(Some(etag.clone())).coded(self.coding);
        self.state.results.keep(&etag, &answer);
        Ok(answer)
    }

    /// Streams the complete result, row by row.
    async fn streamed(self, call: &RequestContext) -> Answered {
        let (granted, reading) = call.read(move |hub| Ok::<_, ApiError>((self.grant(hub)?, self))).await?;
        if let Some(answer) = reading.kept(&granted) {
            return Ok(Either::Left(answer));
        }
        let Granted { access, commit, etag } = granted;
        let (format, coding) = (reading.format, reading.coding);
        let canceled = CancellationToken::default();
        let (writer, download) = download_channel(call.state.config.sql.stream_stall, &canceled);
        let running = call.spawn(&call.state.sql, move |hub| -> Result<(), ReadError> {
            let mut rows = StreamSink::new(format, reading.asked.limit, writer);
            let end = match hub.sql().read(&access, &commit, &reading.query(canceled), &mut rows)? {
                ReadEnd::Done(report) => Ok(report.deterministic),
                ReadEnd::Failed(failure) => Err((status_of(&failure), failure.to_string())),
            };
            let broken = end.is_err() && format == StreamFormat::Csv;
            rows.finish(&end).end(if broken { Ending::Broken(end) } else { Ending::Whole(end) });
            Ok(())
        });
        let mut response = HttpResponse::Ok();
        response.content_type(format.media_type());
        match download.first().await {
            First::All(_, Ending::Broken(Err((_, message)))) => {
                Err(Problem::new(ErrorCode::Unprocessable, message).into())
            }
            First::All(body, Ending::Whole(end) | Ending::Broken(end)) => {
                if end.is_ok_and(|lasting| lasting && call.is_read()) {
                    response.insert_header((header::ETAG, etag));
                    response.extensions_mut().insert(TaggedCoding(coding));
                }
                Ok(Either::Right(response.body(body)))
            }
            first @ (First::Begun(..) | First::Lost) => Ok(Either::Right(first.respond(&mut response, running).await?)),
        }
    }
}

fn status_of(failure: &SqlFailure) -> wire::QueryStatus {
    match failure {
        SqlFailure::TimedOut(_) => wire::QueryStatus::Timeout,
        SqlFailure::Syntax { .. }
        | SqlFailure::SeveralStatements
        | SqlFailure::UnsupportedShow
        | SqlFailure::NoSuchTable(_)
        | SqlFailure::NotARead
        | SqlFailure::NotAllowed(_)
        | SqlFailure::Engine(_) => wire::QueryStatus::Error,
    }
}

/// Handles `POST …/sql-writes`.
pub(crate) async fn run_sql_write_query(mut call: RequestContext) -> HandlerResult {
    let queued = match check_sql_write(&call).await {
        Ok((write, true)) => return preview_sql_write(&call, write).await,
        Ok((write, false)) => match waiting::preferred(&call) {
            Some(wait) if !wait.is_zero() => {
                call.release_body();
                match direct_write::run(&call, write, wait).await {
                    DirectEnd::Answered(answer) => return answer,
                    DirectEnd::Queue(write) => queue_sql_write(&call, *write).await,
                }
            }
            _ => queue_sql_write(&call, write).await,
        },
        Err(error) => Err(error),
    };
    waiting::completed(call, queued).await
}

/// Returns the checked write, and whether it is only to be previewed.
async fn check_sql_write(call: &RequestContext) -> Result<(CheckedWrite, bool), HandlerError> {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let SqlWriteRequest { write: wanted, dry_run } = call.json(&SQL_WRITE)?;
    let max_bytes = call.state.config.sql.max_statement_bytes;
    if wanted.statements.len() > max_bytes {
        return Err(too_large("q", max_bytes));
    }
    Ok((CheckedWrite { access, key, wanted }, dry_run))
}

/// Runs a write and undoes it. Nothing is kept, also under an idempotency key.
async fn preview_sql_write(call: &RequestContext, write: CheckedWrite) -> HandlerResult {
    let CheckedWrite { access, key, wanted } = write;
    drop(key);
    call.has_no_effect();
    let previewed =
        call.write(move |hub| -> Result<_, ApiError> { Ok(hub.operations().preview_write(&access, &wanted)?) });
    let PreviewReport { base, end } = previewed.await?;
    let refused = |text: String| Err(Problem::new(ErrorCode::Unprocessable, text).into());
    match end {
        PreviewEnd::Changes(preview) => Ok(ApiResponse::resource(200, &convert::preview(&base, &preview))),
        PreviewEnd::Refused(refusal) => refused(preview_refusal(refusal).to_owned()),
        PreviewEnd::Failed { failure, statement } => refused(statement_failure(&failure, statement)),
    }
}

async fn queue_sql_write(call: &RequestContext, write: CheckedWrite) -> HandlerResult {
    let CheckedWrite { access, key, wanted } = write;
    let urls = urls(&call.state);
    let written = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.operations().sql_write(&access, wanted, once), written).await
}

/// The body of a write.
struct SqlWriteRequest {
    write: SqlWrite,
    dry_run: bool,
}

const SQL_WRITE: RequestBody<SqlWriteRequest> = RequestBody::closed("SqlWriteRequest", sql_write).example(
    || json!({"from_branch": "main", "to_branch": "feature/fix", "q": "update gauges set level = 2 where id = 4"}),
);

fn sql_write(fields: &Fields<'_>) -> Option<SqlWriteRequest> {
    let from_branch = fields.doc("An existing branch.").required_text("from_branch");
    let to_branch = fields
        .doc("Created from the head of `from_branch` if missing. May be the same branch.")
        .required::<RefName>("to_branch");
    let statements = fields
        .schema(|| json!({"maxLength": 1_048_576, "description": "The statement, at most 1 MiB."}))
        .required_text("q");
    let message = fields.optional::<LongText>("commit_message");
    let expected_head = fields
        .doc("The commit that the statements have to run on: the head of `to_branch`, or of `from_branch` if `to_branch` does not exist.")
        .optional::<CommitHash>("expected_head");
    let dry_run =
        fields.doc("Whether to return what the statements would change, and keep nothing.").optional_bool("dry_run");
    let write = SqlWrite {
        from_branch: from_branch?,
        to_branch: to_branch?,
        statements: statements?,
        message: message.map(LongText::into_string),
        expected_head,
        start: None,
    };
    Some(SqlWriteRequest { write, dry_run: dry_run.unwrap_or_default() })
}
