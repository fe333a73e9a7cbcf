use actix_web::HttpResponse;
use branchyard_domain::access::{DatabaseAccess, Query};
use branchyard_domain::ports::{CancellationToken, ReadQuery, SqlFailure};
use branchyard_domain::usecases::{ReadEnd, Sql};
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{
    CollectLimits, CollectedJsonRows, HandlerError, JsonRows, RequestContext, RowShape, Waiting,
};
use branchyard_problem_details::ErrorCode;

use crate::access::access;
use crate::convert;
use crate::legacy_errors::LegacyError;
use crate::request::{LegacyRequest, done};
use crate::wire::{ExecutionStatus, Place, ReadEcho, ReadResult};

/// Handles `GET /{owner}/{database}`.
pub(crate) async fn read(asked: LegacyRequest) -> HttpResponse {
    answer(asked, None).await
}

/// Handles `GET /{owner}/{database}/{ref}`. The ref is the whole rest of the path; its slashes may be encoded.
pub(crate) async fn read_at(asked: LegacyRequest) -> HttpResponse {
    let raw = asked.request.match_info().get("ref").unwrap_or_default().trim_end_matches('/');
    let at = percent_encoding::percent_decode_str(raw).decode_utf8_lossy().into_owned();
    answer(asked, Some(at).filter(|at| !at.is_empty())).await
}

/// The outcomes of a read that are answered with status 200.
enum SqlReadEnd {
    Rows(CollectedJsonRows),
    Failed(SqlFailure),
    NoSuchRef,
}

async fn answer(asked: LegacyRequest, at: Option<String>) -> HttpResponse {
    let mut place = asked.place();
    let sent = asked.parameter("q");
    let sql_query = if sent.trim().is_empty() { Sql::DEFAULT_STATEMENT.to_owned() } else { sent };
    let mut commit_ref = at.clone().unwrap_or_default();
    let ended = run(&asked, &mut place, at, &mut commit_ref).await;
    let Place { owner, name } = place;
    let echo = ReadEcho { repository_owner: owner, repository_name: name, commit_ref, sql_query };
    match ended {
        Ok(SqlReadEnd::Rows(CollectedJsonRows { columns, rows, cut, replaced: _ })) => done(&ReadResult {
            query_execution_status: if cut.is_some() { ExecutionStatus::RowLimit } else { ExecutionStatus::Success },
            query_execution_message: cut.unwrap_or_default(),
            echo,
            schema: columns.into_iter().map(|(column, kind)| convert::column(column, kind)).collect(),
            rows: super::pulls::raw(rows),
        }),
        Ok(SqlReadEnd::Failed(failure @ SqlFailure::TimedOut(_))) => done(&ReadResult {
            query_execution_status: ExecutionStatus::Timeout,
            query_execution_message: failure.to_string(),
            echo,
            schema: Vec::new(),
            rows: super::pulls::raw("[]".to_owned()),
        }),
        Ok(SqlReadEnd::Failed(failure)) => asked.failed_sql(failure.to_string(), &echo),
        Ok(SqlReadEnd::NoSuchRef) => asked.failed_sql(format!("branch not found: {}", echo.commit_ref), &echo),
        Err(failure) => asked.refuse_sql(&failure, &echo),
    }
}

async fn run(
    asked: &LegacyRequest,
    place: &mut Place,
    at: Option<String>,
    commit_ref: &mut String,
) -> Result<SqlReadEnd, HandlerError> {
    let call = asked.call()?;
    let access = access::<Query>(call, place, "reading").await?;
    if at.is_none() {
        *commit_ref = access.database().default_branch.to_string();
    }
    let max_bytes = call.state.config.sql.max_statement_bytes_get;
    let q = call.open_query(|query| {
        let q = query.optional("q").unwrap_or_default();
        if q.len() > max_bytes {
            query.fault("q", format!("has more than {max_bytes} bytes"));
        }
        Some(if q.trim().is_empty() { Sql::DEFAULT_STATEMENT.to_owned() } else { q.to_owned() })
    })?;
    let resolved = call.read(move |hub| match hub.sql().resolve(&access, at.as_deref()) {
        Ok(commit) => Ok((access, commit)),
        Err(error) => Err(LegacyError(error)),
    });
    let (access, commit) = match resolved.await {
        Ok(found) => found,
        Err(HandlerError::Problem(problem)) if problem.code() == ErrorCode::NotFound => {
            return Ok(SqlReadEnd::NoSuchRef);
        }
        Err(failure) => return Err(failure),
    };
    rows(asked, call, access, commit, q).await
}

async fn rows(
    asked: &LegacyRequest,
    call: &RequestContext,
    access: DatabaseAccess<Query>,
    commit: CommitHash,
    q: String,
) -> Result<SqlReadEnd, HandlerError> {
    let canceled = CancellationToken::default();
    // If the client disconnects, this future is dropped, and the guard cancels the statement.
    let _waiting = Waiting::new(&canceled);
    let settings = asked.settings();
    let limits = CollectLimits {
        rows: settings.row_limit,
        rows_are_the_callers: false,
        bytes: call.state.config.sql.max_response_bytes,
    };
    let query = ReadQuery { sql: &q, timeout: settings.read_timeout, canceled: canceled.clone() };
    let start = call.start_read(|hub| hub.sql().start(&access, &commit, &query)).await?;
    call.finish_read(start, move |hub, started| {
        let mut rows = JsonRows::new(RowShape::Objects, limits);
        let query = ReadQuery { sql: &q, timeout: settings.read_timeout, canceled };
        let end = hub.sql().finish(started, &access, &commit, &query, &mut rows);
        Ok::<_, LegacyError<branchyard_domain::errors::ReadError>>(match end.map_err(LegacyError)? {
            ReadEnd::Done(_) => SqlReadEnd::Rows(rows.finish()),
            ReadEnd::Failed(failure) => SqlReadEnd::Failed(failure),
        })
    })
    .await
}
