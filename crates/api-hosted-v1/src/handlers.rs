//! The handlers, one per operation and named by its operation id. A handler reads the request, calls one use case and renders
//! the response.

pub(crate) mod backups;
pub(crate) mod collaborators;
pub(crate) mod config;
pub(crate) mod credentials;
pub(crate) mod databases;
pub(crate) mod deployments;
pub(crate) mod document;
pub(crate) mod instances;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod operations;
pub(crate) mod pulls;
pub(crate) mod user;
pub(crate) mod windows;

use branchyard_deployments::DeploymentSource;
use branchyard_deployments::entities::DeploymentOperation;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::{ApiResponse, Endpoint, Fields, HandlerError, HandlerResult, IfMatch, Query, etag_of};
use branchyard_problem_details::{ErrorCode, Problem};
use chrono::DateTime;
use serde::Serialize;

use crate::{Settings, convert};
use serde_json::{Value, json};

/// Returns all endpoints, in the order of the document.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    [
        document::endpoints(),
        user::endpoints(),
        deployments::endpoints(),
        instances::endpoints(),
        backups::endpoints(),
        config::endpoints(),
        credentials::endpoints(),
        logs::endpoints(),
        windows::endpoints(),
        metrics::endpoints(),
        collaborators::endpoints(),
        databases::endpoints(),
        pulls::endpoints(),
        operations::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns `true` if the entity tag of `shown` matches `If-Match`, or if the request has no `If-Match`.
fn unchanged(if_match: Option<&IfMatch>, shown: &impl Serialize) -> bool {
    if_match.is_none_or(|tags| tags.matches(&etag_of(shown)))
}

/// Returns the 202 response for a queued operation.
fn accepted(operation: &DeploymentOperation, settings: &Settings) -> ApiResponse {
    let shown = convert::operation_ref(operation, settings);
    ApiResponse::data(202, &shown).at(shown.href).retry_after(1)
}

/// Returns the response of a list without pages.
fn whole(items: &impl Serialize) -> ApiResponse {
    let json = serde_json::to_string(items).unwrap_or_else(|error| {
        tracing::error!(%error, "a wire type did not serialize");
        "[]".to_owned()
    });
    ApiResponse::with_body(200, format!("{{\"data\":{json},\"meta\":{{}}}}"))
}

/// Returns a 422 for a feature that this zone does not offer.
fn unsupported(what: &str) -> HandlerError {
    Problem::new(ErrorCode::Unsupported, format!("this zone does not offer {what}")).into()
}

/// Reads an optional RFC 3339 time from the query.
fn time(query: &Query<'_>, name: &str) -> Option<Timestamp> {
    query.parsed(name, |text| {
        let parsed = DateTime::parse_from_rfc3339(text);
        let time = parsed.map_err(|_| "must be a time such as 2026-11-20T12:00:00Z")?;
        Ok::<_, &str>(Timestamp::from_micros(time.timestamp_micros()))
    })
}

/// Reads the hub database that a deployment starts from. Returns `Some(None)` if it is absent, and `None` if it is invalid.
fn source(fields: &Fields<'_>) -> Option<Option<DeploymentSource>> {
    fields.component("FromDatabase").optional_object("from_database", |fields| {
        fields.describe_object(|| json!({"description": "A database of the hub to start with."}));
        let owner = fields.required_string("owner");
        let name = fields.required_string("name");
        let reference = fields.doc("A branch, tag or commit. Default: the default branch.").optional_string("ref");
        Some(DeploymentSource { owner: owner?, name: name?, reference })
    })
}

/// Returns the rules of the name of a served database, as a JSON schema.
fn served_name() -> Value {
    json!({"pattern": "^[A-Za-z0-9_-]{1,64}$"})
}
