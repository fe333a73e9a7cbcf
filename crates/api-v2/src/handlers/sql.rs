use std::time::Duration;

use branchyard_api_common::{Answer, Call, Failure, Fields, Query};
use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Operation;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::SqlFailure;
use branchyard_domain::usecases::{ReadEnd, SqlWrite};
use branchyard_domain::values::{LongText, RefName};
use branchyard_problem_details::{ErrorCode, Problem};

use super::{Outcome, accepted, too_large, urls};
use crate::sink::{self, JsonSink};
use crate::wire;

/// A read as it was asked for.
struct Asked {
    q: String,
    at: Option<String>,
    limit: Option<u64>,
    timeout_ms: Option<u64>,
}

/// `GET …/sql`
pub(crate) async fn run_sql_read_query(call: Call) -> Outcome {
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
pub(crate) async fn run_sql_read_query_post(call: Call) -> Outcome {
    let access = call.access::<Read>().await?;
    let asked = call.body(|fields| {
        let q = fields.required_text("q");
        let at = fields.optional_as("ref", |text| match text {
            "" => Err("must not be empty"),
            text => Ok(text.to_owned()),
        });
        let limit = fields.optional_int("limit", &(1..=u64::MAX));
        let timeout_ms = fields.optional_int("timeout_ms", &(1..=u64::MAX));
        Some(Asked { q: q?, at, limit, timeout_ms })
    })?;
    let max_bytes = call.state.config.sql.max_statement_bytes;
    if asked.q.len() > max_bytes {
        return Err(too_large("q", max_bytes));
    }
    read(&call, access, asked).await
}

async fn read(call: &Call, access: branchyard_domain::access::DatabaseAccess<Read>, asked: Asked) -> Outcome {
    let limits = &call.state.config.sql;
    let own_limit = asked.limit.is_some_and(|limit| limit <= limits.row_cap);
    let limit = asked.limit.unwrap_or(limits.default_limit).min(limits.row_cap);
    let timeout_ms = asked.timeout_ms.unwrap_or(limits.default_timeout_ms).min(limits.timeout_cap_ms);
    let max_bytes = limits.max_response_bytes;
    let slot = call.state.sql_slots.take(caller_key(call)).ok_or_else(|| {
        let detail =
            format!("{} reads of yours are running; wait for one to finish", limits.max_concurrent_reads_per_caller);
        Failure::from(Problem::new(ErrorCode::RateLimited, detail).retry_after(1))
    })?;
    let Asked { q, at, .. } = asked;
    let (access, commit) = call
        .read(move |hub| -> Result<_, ReadError> {
            let commit = hub.sql().resolve(&access, at.as_deref())?;
            Ok((access, commit))
        })
        .await?;
    let id = access.database().id.to_string();
    let own = if own_limit { "own" } else { "default" };
    let etag = call.state.keys.entity_tag(&[
        &id,
        commit.as_str(),
        &q,
        &limit.to_string(),
        own,
        &timeout_ms.to_string(),
        "application/json",
        "identity",
    ]);
    // Only this server can make such a tag, and it does so only for results that never change.
    if call.has(&etag) {
        return Ok(Answer::with_body(200, String::new()).tagged(Some(etag)));
    }
    let (result, lasting) = call
        .run(&call.state.sql, move |hub| -> Result<_, ReadError> {
            let _slot = slot;
            let mut rows = JsonSink::new(limit, own_limit, max_bytes);
            let ended = hub.sql().read(&access, &commit, &q, Duration::from_millis(timeout_ms), &mut rows)?;
            Ok(match ended {
                ReadEnd::Done(report) => (rows.finish(), report.deterministic),
                ReadEnd::Failed(failure @ SqlFailure::TimedOut(_)) => {
                    (sink::failed(wire::QueryStatus::Timeout, failure.to_string()), false)
                }
                ReadEnd::Failed(failure) => (sink::failed(wire::QueryStatus::Error, failure.to_string()), false),
            })
        })
        .await?;
    Ok(Answer::data(200, &result).tagged((lasting && call.is_read()).then_some(etag)))
}

/// Whose reads are counted together.
fn caller_key(call: &Call) -> String {
    match call.caller.user() {
        Some(user) => format!("user {}", user.id),
        None => format!("address {}", call.address()),
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
