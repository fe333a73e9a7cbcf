//! The handlers, one per operation and named by its operation id. A handler reads the request, calls one use case and renders
//! the response.

pub(crate) mod branches;
pub(crate) mod collaborators;
pub(crate) mod databases;
pub(crate) mod deliveries;
pub(crate) mod document;
pub(crate) mod edits;
pub(crate) mod exports;
pub(crate) mod forks;
pub(crate) mod history;
pub(crate) mod hooks;
pub(crate) mod imports;
pub(crate) mod keys;
pub(crate) mod members;
pub(crate) mod mirrors;
pub(crate) mod operations;
pub(crate) mod organizations;
pub(crate) mod pull_changes;
pub(crate) mod pulls;
pub(crate) mod releases;
pub(crate) mod restores;
pub(crate) mod row_history;
pub(crate) mod rows;
pub(crate) mod sql;
pub(crate) mod tags;
pub(crate) mod tokens;
pub(crate) mod user;

use branchyard_domain::entities::{Operation, Role};
use branchyard_domain::values::{CommitPrefix, Revision};
use branchyard_http_common::{
    ApiResponse, AppState, Endpoint, Fields, HandlerError, HandlerResult, IfMatch, PageRequest, Query, RequestContext,
    Urls, Words, etag_of,
};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use serde::Serialize;

use crate::convert;
use serde_json::json;

/// Returns all endpoints, in the order of the document.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    [
        user::endpoints(),
        tokens::endpoints(),
        keys::endpoints(),
        organizations::endpoints(),
        members::endpoints(),
        databases::endpoints(),
        mirrors::endpoints(),
        collaborators::endpoints(),
        branches::endpoints(),
        restores::endpoints(),
        tags::endpoints(),
        forks::endpoints(),
        releases::endpoints(),
        pulls::endpoints(),
        pull_changes::endpoints(),
        history::endpoints(),
        exports::endpoints(),
        row_history::endpoints(),
        sql::endpoints(),
        edits::endpoints(),
        imports::endpoints(),
        hooks::endpoints(),
        deliveries::endpoints(),
        operations::endpoints(),
        document::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The roles on a database.
pub(crate) const ROLES: Words<Role> =
    Words::component("Role", &[("read", Role::Read), ("write", Role::Write), ("admin", Role::Admin)]);

/// Returns `true` if the entity tag of `shown` matches `If-Match`, or if the request has no `If-Match`.
pub(crate) fn unchanged(if_match: Option<&IfMatch>, shown: &impl Serialize) -> bool {
    if_match.is_none_or(|tags| tags.matches(&etag_of(shown)))
}

/// Returns the URLs of this API.
pub(crate) fn urls(state: &AppState) -> Urls {
    Urls::new(&state.config.public_url, crate::BASE)
}

/// Returns the 202 response for a queued operation.
pub(crate) fn accepted(operation: &Operation, urls: &Urls) -> ApiResponse {
    let shown = convert::operation_ref(operation, urls);
    ApiResponse::data(202, &shown).at(shown.href).retry_after(1)
}

/// Reads the page parameters of a list with the default page sizes.
pub(crate) fn page_of(call: &RequestContext, query: &Query<'_>) -> Option<PageRequest> {
    query.page(call.state.config.default_page_size, call.state.config.max_page_size)
}

/// Reads the page parameters of a list whose published clients only read one page. Its page size is therefore larger.
pub(crate) fn long_page_of(call: &RequestContext, query: &Query<'_>) -> Option<PageRequest> {
    query.page(call.state.config.long_page_size, call.state.config.long_page_size)
}

/// Reads a `RevisionRef`: exactly one of `branch` and `commit`.
pub(crate) fn revision(from: &Fields<'_>) -> Option<Revision> {
    from.describe_object(|| {
        let only = |one: &str, other: &str| {
            let mut of = json!({"required": [one], "properties": {}});
            of["properties"][one] = json!({"type": "string"});
            of["properties"][other] = json!({"type": "null"});
            of
        };
        let either = json!([only("branch", "commit"), only("commit", "branch")]);
        json!({"description": "The starting point: exactly one of both.", "oneOf": either})
    });
    let branch =
        from.schema(|| json!({"minLength": 1, "description": "An existing branch."})).optional_string("branch");
    let branch = branch.map(Revision::Branch);
    let commit = from.optional::<CommitPrefix>("commit").map(Revision::Commit);
    match (from.has("branch"), from.has("commit")) {
        (true, false) => branch,
        (false, true) => commit,
        (true, true) | (false, false) => {
            from.fault_here("must have exactly one of branch and commit");
            None
        }
    }
}

/// Returns a 413 for a text field longer than `limit` bytes.
pub(crate) fn too_large(field: &str, limit: usize) -> HandlerError {
    let text = format!("has more than {limit} bytes");
    let problem = Problem::new(ErrorCode::PayloadTooLarge, format!("{field} {text}"));
    problem.with_error(FieldError::at_pointer(format!("/{field}"), text)).into()
}
