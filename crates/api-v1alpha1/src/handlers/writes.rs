use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::access::Write;
use branchyard_domain::usecases::SqlWrite;
use branchyard_domain::values::RefName;
use branchyard_http_common::{HandlerError, segment};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use super::polled;
use crate::access::access;
use crate::legacy_errors::LegacyError;
use crate::request::{LegacyRequest, body, done};
use crate::wire::{ExecutionStatus, NamedEcho, Place, WriteEcho, WriteStarted};
use crate::{convert, names};

/// Returns the two branches of the path; `None` if the path does not have exactly two.
fn branches(asked: &LegacyRequest) -> Option<(String, String)> {
    let raw = asked.request.match_info().get("branches").unwrap_or_default();
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (from, to) = raw.split_once('/')?;
    (!from.is_empty() && !to.is_empty() && !to.contains('/')).then(|| (decode(from), decode(to)))
}

/// Handles `POST /{owner}/{database}/write/{from_branch}/{to_branch}`.
pub(crate) async fn write(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let branches = branches(&asked);
    let (from, to) = branches.clone().unwrap_or_default();
    let query = match asked.parameter("q") {
        q if q.trim().is_empty() => asked.sent("query"),
        q => q,
    };
    let query = if query.trim().is_empty() { String::new() } else { query };
    let started = start(&asked, &mut place, branches).await;
    let Place { owner, name } = place;
    let mut echo = WriteEcho {
        repository_owner: owner,
        repository_name: name,
        from_branch_name: from,
        to_branch_name: to,
        query,
        operation_name: String::new(),
    };
    match started {
        Ok((operation_name, public_url)) => {
            echo.operation_name = operation_name;
            done(&WriteStarted {
                query_execution_status: ExecutionStatus::Success,
                query_execution_message: format!(
                    "Operation created. Poll GET {public_url}{}/{}/{}/write?operationName={} until done is true.",
                    crate::BASE,
                    echo.repository_owner,
                    echo.repository_name,
                    segment(&echo.operation_name)
                ),
                echo,
            })
        }
        Err(failure) => asked.refuse_sql(&failure, &echo),
    }
}

async fn start(
    asked: &LegacyRequest,
    place: &mut Place,
    branches: Option<(String, String)>,
) -> Result<(String, String), HandlerError> {
    let call = asked.call()?;
    let access = access::<Write>(call, place, "writing").await?;
    let (from_branch, to_branch) =
        branches.ok_or_else(|| HandlerError::parameter("path", "encode slashes in branch names as %2F"))?;
    let to_branch =
        RefName::parse(&to_branch).map_err(|error| HandlerError::parameter("to_branch", error.to_string()))?;
    let limits = &call.state.config.sql;
    let in_query = call.open_query(|query| {
        let q = query.optional("q").unwrap_or_default();
        if q.len() > limits.max_statement_bytes_get {
            query.fault("q", format!("has more than {} bytes; send it as query", limits.max_statement_bytes_get));
        }
        Some(q.to_owned())
    })?;
    let in_body = call.open_body(|fields| Some(fields.optional_string("query")))?.unwrap_or_default();
    if in_body.len() > limits.max_statement_bytes {
        return Err(too_large(limits.max_statement_bytes).into());
    }
    // Without a statement, the operation only merges.
    let statements = [in_query, in_body].into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
    let wanted = SqlWrite { from_branch, to_branch, statements, message: None, expected_head: None, start: None };
    let started = call.write(move |hub| hub.operations().sql_write(&access, wanted, None).map_err(LegacyError)).await?;
    Ok((names::of_user(&started), call.state.config.public_url.clone()))
}

fn too_large(limit: usize) -> Problem {
    let text = format!("has more than {limit} bytes");
    Problem::new(ErrorCode::PayloadTooLarge, format!("Invalid request body: query: {text}"))
        .with_error(FieldError::at_pointer("/query", text))
}

/// Handles `GET /{owner}/{database}/write?operationName=`.
pub(crate) async fn poll_write(asked: LegacyRequest) -> HttpResponse {
    let name = asked.parameter("operationName");
    let mut place = asked.place();
    let found = match asked.call() {
        Ok(call) => polled(call, &asked, Some(&mut place)).await,
        Err(failure) => Err(failure),
    };
    match found {
        Ok(polled) => match convert::write_done(&polled.operation, &name) {
            Some(over) => done(&over),
            None => {
                let mut response = HttpResponse::Ok();
                response.insert_header((header::RETRY_AFTER, "1"));
                body(response, &convert::pending(&name))
            }
        },
        Err(failure) => asked.refuse_sql(&failure, &NamedEcho { operation_name: name }),
    }
}
