use branchyard_deployments::access::Observe;
use branchyard_deployments::ports::{OutputPosition, Towards};
use branchyard_deployments::{InstanceLogs, LogWindow};
use branchyard_domain::values::Timestamp;
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, RequestContext, bound, rfc3339, section, token};

use super::{HandlerResult, time};
use crate::convert;
use crate::openapi::examples;
use branchyard_http_common::methods::get;
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Observation",
        "/deployments/{owner}/{deployment}/logs",
        vec![
            get("", "listLogs", "Log lines of an instance", list_logs)
                .query(&["of_instance", "lines", "start_time", "end_time", "page_token", "prev_page_token"])
                .responds(200, Success::List("LogLine"), &[400, 404])
                .shows(|| json!({"data": [examples::object("LogLine")], "meta": {"prev_page_token": "cE9n"}})),
        ],
    )
}

const DEFAULT_LINES: u64 = 100;
const MOST_LINES: u64 = 1_000;

/// The log position in a page token: log segment and byte offset.
type LogPageKey = (u64, u64);

/// Handles `GET …/logs`.
pub(crate) async fn list_logs(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let (instance, lines, since, until, older, newer) = call.query(|query| {
        let instance = query.optional("instance_id").map(str::to_owned);
        let lines = query.count("lines").unwrap_or(DEFAULT_LINES);
        if lines > MOST_LINES {
            query.fault("lines", format!("must be at most {MOST_LINES}"));
        }
        let since = time(query, "start_time");
        let until = time(query, "end_time");
        if let (Some(since), Some(until)) = (since, until)
            && since > until
        {
            query.fault("start_time", "is after end_time");
        }
        let size = usize::try_from(lines).unwrap_or(usize::MAX);
        let older = query.page_of(size, "page_token");
        let newer = query.page_of(size, "prev_page_token");
        if query.has("page_token") && query.has("prev_page_token") {
            query.fault("prev_page_token", "cannot be combined with page_token");
        }
        Some((instance, size, since, until, older, newer))
    })?;
    let shown = |time: Option<Timestamp>| time.map(rfc3339).unwrap_or_default();
    let id = access.deployment().id.to_string();
    let bound_to = bound(&["logs", &id, instance.as_deref().unwrap_or(""), &shown(since), &shown(until)]);
    let towards_older: Option<LogPageKey> = call.page_key(&older, &bound_to)?;
    let towards_newer: Option<LogPageKey> = call.page_key(&newer, &bound_to)?;
    let position = |(segment, offset): LogPageKey| OutputPosition { segment, offset };
    let from = match (towards_older, towards_newer) {
        (Some(key), _) => Some((position(key), Towards::Older)),
        (None, Some(key)) => Some((position(key), Towards::Newer)),
        (None, None) => None,
    };
    let window = LogWindow { instance, since, until, from, limit: lines };
    let logs = call.read(move |hub| hub.deployments().logs(&access, &window)).await?;
    page(&call, &bound_to, &logs)
}

fn page(call: &RequestContext, bound_to: &str, logs: &InstanceLogs) -> Result<ApiResponse, HandlerError> {
    let lines: Vec<_> = logs.lines.iter().map(convert::log_line).collect();
    let seal = |at: OutputPosition| token(&call.state, bound_to, &(at.segment, at.offset));
    let mut meta = serde_json::Map::new();
    if let Some(first) = logs.lines.first().filter(|_| logs.has_older) {
        meta.insert("next_page_token".to_owned(), seal(first.begin).into());
    }
    if let Some(last) = logs.lines.last() {
        meta.insert("prev_page_token".to_owned(), seal(last.end).into());
    }
    let body = serde_json::json!({"data": lines, "meta": meta});
    Ok(ApiResponse::with_body(200, body.to_string()))
}
