use std::sync::Arc;

use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, Read};
use branchyard_domain::entities::{Operation, OperationKind};
use branchyard_domain::errors::{AccessError, OperationError, PortError};
use branchyard_domain::ports::{OperationFilter, OperationState};
use branchyard_domain::usecases::ResultView;
use branchyard_domain::values::OperationId;
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, NO_FIELDS, RequestContext, bound, page, section};

use super::{HandlerResult, page_of, urls};
use crate::openapi::examples;
use crate::{convert, waiting};
use branchyard_http_common::methods::{get, post};
use branchyard_openapi::{Credential, Success, one};
use serde_json::{Value, json};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Operations",
        "",
        vec![
            get(
                "/databases/{owner}/{database}/operations",
                "listOperations",
                "Operations of a database, newest first",
                list_operations,
            )
            .credential(Credential::Optional)
            .query(&["status", "type", "page_token", "page_size"])
            .responds(200, Success::List("Operation"), "DL"),
            get("/operations/{operation_id:.+}", "getOperation", "An operation", get_operation)
                .headers(&["Prefer"])
                .responds(200, Success::One("Operation"), &[404])
                .describe(
                    "Repeat the request with `Prefer: wait=20` until `status` is `succeeded` or `failed`. Without the \
                     header, poll at once, then after 1 s, doubling to 10 s. A POST that starts an operation takes the \
                     header, too.",
                ),
            post(
                "/operations/{operation_id:.+}/cancel",
                "cancelOperation",
                "Cancel a queued operation",
                cancel_operation,
            )
            .responds(200, Success::One("Operation"), ("BK", &[403, 404, 409]))
            .describe("Possible only while the operation is `queued`.")
            .shows(cancel_operation_shows),
        ],
    )
}

fn cancel_operation_shows() -> Value {
    one(json!({
        "id": examples::OPERATION, "type": "import", "status": "failed", "created_at": examples::AT, "finished_at": examples::LATER, "created_by": "ada",
        "cancelable": false,
        "error": {"status": 409, "code": "CANCELED", "title": "Canceled", "detail": "canceled by ada"},
    }))
}

const STATES: &[(&str, OperationState)] = &[
    ("queued", OperationState::Queued),
    ("running", OperationState::Running),
    ("succeeded", OperationState::Succeeded),
    ("failed", OperationState::Failed),
];

const KINDS: &[(&str, &[OperationKind])] = &[
    ("import", &[OperationKind::Import]),
    ("merge", &[OperationKind::Merge]),
    ("sql_write", &[OperationKind::SqlWrite]),
    ("fork", &[OperationKind::Fork]),
    ("purge", &[OperationKind::Purge]),
    ("push", &[OperationKind::Push]),
    ("mirror_sync", &[OperationKind::MirrorSync]),
    ("restore", &[OperationKind::Restore]),
    ("edit", &[OperationKind::Edit]),
    // Reserved by the published API, never produced.
    ("dolt_ci", &[]),
];

/// Handles `GET …/operations`.
pub(crate) async fn list_operations(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let (page_request, state, kinds, filters) = call.query(|q| {
        let page = page_of(&call, q);
        let state = q.choice("status", STATES);
        let kinds = q.choice("type", KINDS);
        let filters = [q.optional("status"), q.optional("type")].map(|text| text.unwrap_or_default().to_owned());
        Some((page?, state, kinds, filters))
    })?;
    let [status, type_] = &filters;
    let bound = bound(&["operations", &access.database().id.to_string(), status, type_]);
    let before: Option<String> = call.page_key(&page_request, &bound)?;
    let before = before.and_then(|id| OperationId::parse(&id).ok());
    let fetch = page_request.fetch();
    let found = call
        .read(move |hub| -> Result<Vec<_>, OperationError> {
            let found = hub.operations().list(&access, OperationFilter { state, kinds }, before, fetch)?;
            let shown = found.into_iter().map(|operation| {
                let view = hub.operations().result_view(access.caller(), &operation)?;
                Ok((operation, view))
            });
            shown.collect()
        })
        .await?;
    let shown = |(operation, view): &(Operation, ResultView)| convert::operation(operation, view);
    page(&call.state, &page_request, &bound, found, shown, |(operation, _)| operation.id.to_string())
}

/// An operation as named by a path: its id, and its database if the path includes one.
pub(crate) struct OperationPath {
    pub(crate) id: OperationId,
    database: Option<(String, String)>,
}

impl OperationPath {
    /// Returns `true` if the path names this operation: with the database as it is called now, or was called before, as far as the caller
    /// finds it there.
    pub(crate) fn is(&self, hub: &Hub, caller: &Caller, operation: &Operation) -> Result<bool, PortError> {
        let Some((owner, name)) = &self.database else { return Ok(true) };
        if operation.locator.owner.as_str().eq_ignore_ascii_case(owner)
            && operation.locator.name.as_str().eq_ignore_ascii_case(name)
        {
            return Ok(true);
        }
        match hub.databases().access::<Read>(caller, owner, name) {
            Ok(access) => Ok(access.database().id == operation.database_id),
            Err(AccessError::Port(fault)) => Err(fault),
            Err(_) => Ok(false),
        }
    }
}

/// Parses the four spellings of an operation id (v2 §4.1). The encoded part of an absolute URL is percent-decoded once.
pub(crate) fn named(text: &str, root: &str) -> Option<OperationPath> {
    let text = match text.strip_prefix(root).and_then(|rest| rest.strip_prefix("/operations/")) {
        Some(rest) => percent_encoding::percent_decode_str(rest).decode_utf8().ok()?.into_owned(),
        None => text.to_owned(),
    };
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [id] => Some(OperationPath { id: OperationId::parse(id).ok()?, database: None }),
        ["databases", owner, name, "operations", id] => {
            let database = Some(((*owner).to_owned(), (*name).to_owned()));
            Some(OperationPath { id: OperationId::parse(id).ok()?, database })
        }
        _ => None,
    }
}

fn named_by(call: &RequestContext) -> Result<OperationPath, HandlerError> {
    named(&call.segment("operation_id"), urls(&call.state).root())
        .ok_or_else(|| HandlerError::not_found(OperationError::NoSuchOperation.to_string()))
}

/// Returns the response that shows an operation.
pub(crate) fn answer(operation: &Operation, view: &ResultView) -> ApiResponse {
    let answer = ApiResponse::resource(200, &convert::operation(operation, view));
    if operation.settled() { answer } else { answer.retry_after(1) }
}

/// Handles `GET /operations/{operation_id}`.
pub(crate) async fn get_operation(call: RequestContext) -> HandlerResult {
    call.signed_in()?;
    let named = Arc::new(named_by(&call)?);
    let (operation, view) = waiting::settled_within(&call, &named, waiting::preferred(&call)).await?;
    Ok(answer(&operation, &view))
}

/// Handles `POST /operations/{operation_id}/cancel`.
pub(crate) async fn cancel_operation(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let named = named_by(&call)?;
    let (caller, asker, id) = (call.caller.clone(), Arc::clone(&user), named.id);
    call.read(move |hub| -> Result<_, OperationError> {
        // A path that names another database is not found, regardless of the caller's role.
        if !named.is(hub, &caller, &hub.operations().get(&caller, named.id)?)? {
            return Err(OperationError::NoSuchOperation);
        }
        hub.operations().cancelable_by(&asker, named.id)
    })
    .await?;
    let key = call.key(&user).await?;
    call.json(&NO_FIELDS)?;
    let canceled = |operation: &Operation| answer(operation, &ResultView::default());
    call.effect(key, move |hub, once| hub.operations().cancel(&user, id, once), canceled).await
}

#[cfg(test)]
mod tests {
    use super::named;

    const ROOT: &str = "https://yard.test/api/v2";
    const ID: &str = "0199c3a7-1111-7222-8333-444455556666";

    #[test]
    fn four_spellings_name_one_operation() {
        let long = format!("databases/ada/rivers/operations/{ID}");
        let verbatim = format!("{ROOT}/operations/{}", long.replace('/', "%2F"));
        for text in [long.clone(), format!("{ROOT}/operations/{long}"), verbatim] {
            let named = named(&text, ROOT).unwrap();
            assert_eq!(named.id.to_string(), ID);
            assert_eq!(named.database, Some(("ada".to_owned(), "rivers".to_owned())));
        }
        assert_eq!(named(ID, ROOT).unwrap().database, None);
    }

    #[test]
    fn nothing_else_names_one() {
        let upper = ID.to_uppercase();
        let other = format!("https://other.test/api/v2/operations/{ID}");
        for text in [
            "",
            "x",
            "databases/ada/rivers/operations/x",
            &format!("ada/rivers/operations/{ID}"),
            &other,
            &format!("{ID}/"),
            &upper,
        ] {
            assert!(named(text, ROOT).is_none(), "{text}");
        }
    }
}
