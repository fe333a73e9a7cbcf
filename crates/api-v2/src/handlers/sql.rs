use std::ops::RangeInclusive;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{Either, HttpResponse};
use branchyard_api_common::{
    Answer, Call, Coding, CollectLimits, Ending, Failure, Fields, First, JsonRows, Query, ReadSlot, RowShape,
    TaggedCoding, Waiting, download_channel,
};
use branchyard_domain::access::{DatabaseAccess, Read, Write};
use branchyard_domain::entities::Operation;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Canceled, ReadQuery, SqlFailure};
use branchyard_domain::usecases::{ReadEnd, SqlWrite};
use branchyard_domain::values::{CommitHash, LongText, RefName};
use branchyard_problem_details::{ErrorCode, Problem};

use super::{Outcome, accepted, too_large, urls};
use crate::stream::{Format, StreamSink};
use crate::{convert, wire};

/// Counts in a body; what is above the cap counts as the cap.
const COUNTS: RangeInclusive<u64> = 1..=i64::MAX as u64;

/// A JSON answer, or a stream.
type Answered = Result<Either<Answer, HttpResponse>, Failure>;

/// A read as it was asked for.
struct Asked {
    q: String,
    at: Option<String>,
    limit: Option<u64>,
    timeout_ms: Option<u64>,
}

/// `GET …/sql`
pub(crate) async fn run_sql_read_query(call: Call) -> Answered {
    let access = call.access::<Read>().await?;
    let asked = call.query(|query| asked_by_query(query, call.state.config.sql.max_statement_bytes_get))?;
    read(&call, access, asked).await
}

fn asked_by_query(query: &Query<'_>, max_bytes: usize) -> Option<Asked> {
    let q = query.required_text("q").map(str::to_owned);
    if q.as_ref().is_some_and(|q| q.len() > max_bytes) {
        query.fault("q", format!("has more than {max_bytes} bytes; send it by POST"));
    }
    let at = query.text("ref").map(str::to_owned);
    let (limit, timeout_ms) = (query.count("limit"), query.count("timeout_ms"));
    Some(Asked { q: q?, at, limit, timeout_ms })
}

/// `POST …/sql`
pub(crate) async fn run_sql_read_query_post(call: Call) -> Answered {
    let access = call.access::<Read>().await?;
    let asked = call.body(|fields| {
        let q = fields.required_text("q");
        let at = fields.optional_as("ref", |text| match text {
            "" => Err("must not be empty"),
            text => Ok(text.to_owned()),
        });
        let limit = fields.optional_int("limit", &COUNTS);
        let timeout_ms = fields.optional_int("timeout_ms", &COUNTS);
        Some(Asked { q: q?, at, limit, timeout_ms })
    })?;
    let max_bytes = call.state.config.sql.max_statement_bytes;
    if asked.q.len() > max_bytes {
        return Err(too_large("q", max_bytes));
    }
    read(&call, access, asked).await
}

/// A read that may run: its commit is known, and its caller has a place.
struct Granted {
    access: DatabaseAccess<Read>,
    commit: CommitHash,
    q: String,
    limit: Option<u64>,
    timeout_ms: u64,
    slot: ReadSlot,
}

async fn read(call: &Call, access: DatabaseAccess<Read>, asked: Asked) -> Answered {
    let limits = &call.state.config.sql;
    let timeout_ms = asked.timeout_ms.unwrap_or(limits.default_timeout_ms).min(limits.timeout_cap_ms);
    let slot = call.read_slot()?;
    let Asked { q, at, limit, timeout_ms: _ } = asked;
    let (access, commit) = call
        .read(move |hub| -> Result<_, ReadError> {
            let commit = hub.sql().resolve(&access, at.as_deref())?;
            Ok((access, commit))
        })
        .await?;
    let granted = Granted { access, commit, q, limit, timeout_ms, slot };
    let (format, coding) = (Format::accepted(call.header("accept")), call.coding());
    let etag = granted.etag(call, format, coding);
    // Only this server can make such a tag, and it does so only for results that never change.
    if call.has(&etag) {
        return Ok(Either::Left(Answer::with_body(200, String::new()).tagged(Some(etag))));
    }
    match format {
        Format::Json => granted.whole(call, coding, etag).await.map(Either::Left),
        Format::Ndjson | Format::Csv => granted.streamed(call, format, coding, etag).await.map(Either::Right),
    }
}

impl Granted {
    fn etag(&self, call: &Call, format: Format, coding: Coding) -> String {
        let limits = &call.state.config.sql;
        let in_force = match format {
            Format::Json => format!("{} {} {}", limits.default_limit, limits.row_cap, limits.max_response_bytes),
            Format::Ndjson | Format::Csv => String::new(),
        };
        let id = self.access.database().id.to_string();
        let limit = self.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let timeout = self.timeout_ms.to_string();
        let request = [&id, self.commit.as_str(), &self.q, &limit, &timeout];
        call.state.keys.entity_tag(&[&request[..], &[&in_force, format.media_type(), coding.name()]].concat())
    }

    /// The result as one JSON document, limited.
    async fn whole(self, call: &Call, coding: Coding, etag: String) -> Outcome {
        let canceled = Canceled::default();
        // When the client goes away this future ends before its answer, and so shall the statement.
        let _waiting = Waiting::new(&canceled);
        let limits = &call.state.config.sql;
        let collect = CollectLimits {
            rows: self.limit.unwrap_or(limits.default_limit).min(limits.row_cap),
            rows_are_the_callers: self.limit.is_some_and(|limit| limit <= limits.row_cap),
            bytes: limits.max_response_bytes,
        };
        let (result, lasting) = call
            .run(&call.state.sql, move |hub| -> Result<_, ReadError> {
                let _slot = self.slot;
                let mut rows = JsonRows::new(RowShape::Arrays, collect);
                let query = ReadQuery { sql: &self.q, timeout: Duration::from_millis(self.timeout_ms), canceled };
                Ok(match hub.sql().read(&self.access, &self.commit, &query, &mut rows)? {
                    ReadEnd::Done(report) => (convert::finished(rows.finish()), report.deterministic),
                    ReadEnd::Failed(failure) => (convert::failed(status_of(&failure), failure.to_string()), false),
                })
            })
            .await?;
        let answer = Answer::data(200, &result);
        Ok(if lasting && call.is_read() { answer.tagged(Some(etag)).coded(coding) } else { answer })
    }

    /// The whole result, row by row.
    async fn streamed(
        self,
        call: &Call,
        format: Format,
        coding: Coding,
        etag: String,
    ) -> Result<HttpResponse, Failure> {
        let canceled = Canceled::default();
        let (writer, download) = download_channel(call.state.config.sql.stream_stall, &canceled);
        let running = call.spawn(&call.state.sql, move |hub| -> Result<(), ReadError> {
            let _slot = self.slot;
            let mut rows = StreamSink::new(format, self.limit, writer);
            let query = ReadQuery { sql: &self.q, timeout: Duration::from_millis(self.timeout_ms), canceled };
            let end = match hub.sql().read(&self.access, &self.commit, &query, &mut rows)? {
                ReadEnd::Done(report) => Ok(report.deterministic),
                ReadEnd::Failed(failure) => Err((status_of(&failure), failure.to_string())),
            };
            let broken = end.is_err() && format == Format::Csv;
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
                Ok(response.body(body))
            }
            First::Begun(begun, download) => Ok(response.streaming(download.stream(begun))),
            First::Lost => match running.await {
                Ok(Err(failure)) => Err(failure),
                Ok(Ok(())) | Err(_) => Err(Problem::internal().into()),
            },
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

/// `POST …/sql-writes`
pub(crate) async fn run_sql_write_query(call: Call) -> Outcome {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.body(sql_write)?;
    let max_bytes = call.state.config.sql.max_statement_bytes;
    if wanted.statements.len() > max_bytes {
        return Err(too_large("q", max_bytes));
    }
    let urls = urls(&call.state);
    let written = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.operations().sql_write(&access, wanted, once), written).await
}

fn sql_write(fields: &Fields<'_>) -> Option<SqlWrite> {
    let from_branch = fields.required_text("from_branch");
    let to_branch = fields.required_as("to_branch", RefName::parse);
    let statements = fields.required_text("q");
    let message = fields.optional_as("commit_message", |text| LongText::parse(text));
    Some(SqlWrite {
        from_branch: from_branch?,
        to_branch: to_branch?,
        statements: statements?,
        message: message.map(LongText::into_string),
    })
}
