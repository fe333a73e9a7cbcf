use branchyard_domain::access::{Participate, Read};
use branchyard_domain::entities::DatabaseLocator;
use branchyard_domain::values::OwnerName;
use branchyard_http_common::{Endpoint, FieldText as _, RequestBody, RequestContext, bound, page, section};

use super::{HandlerResult, accepted, long_page_of, urls};
use crate::{convert, waiting};
use branchyard_http_common::methods::{get, post};
use branchyard_openapi::{Credential, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}/forks",
        vec![
            get("", "listForks", "Direct forks that the caller can see", list_forks)
                .credential(Credential::Optional)
                .query(&["page_token", "long_page_size"])
                .responds(200, Success::List("DatabaseRef"), "DL"),
            post("", "createFork", "Fork a database", create_fork)
                .json(&CREATE_FORK)
                .responds(202, Success::One("OperationRef"), ("DBK", &[403, 422]))
                .describe(
                    "Runs as an operation; the fork exists once the operation has succeeded. The fork keeps the name, \
                     description, visibility, branches, tags and default branch of the source.",
                ),
        ],
    )
}

/// Handles `GET …/forks`.
pub(crate) async fn list_forks(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let page_request = call.query(|q| long_page_of(&call, q))?;
    let bound = bound(&["forks", &access.database().id.to_string()]);
    let after: Option<(String, String)> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call
        .read(move |hub| {
            let after = after.as_ref().map(|(owner, name)| (owner.as_str(), name.as_str()));
            hub.databases().forks(&access, after, fetch)
        })
        .await?;
    let key = |locator: &DatabaseLocator| (locator.owner.key(), locator.name.key());
    page(&call.state, &page_request, &bound, found, convert::database_ref, key)
}

const CREATE_FORK: RequestBody<String> =
    RequestBody::closed("CreateForkRequest", |fields| fields.schema(OwnerName::schema).required_string("owner"))
        .example(|| json!({"owner": "bob"}));

/// Handles `POST …/forks`.
pub(crate) async fn create_fork(call: RequestContext) -> HandlerResult {
    let queued = queue_fork(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_fork(call: &RequestContext) -> HandlerResult {
    let access = call.access::<Participate>().await?;
    let key = call.key(access.who()).await?;
    let owner = call.json(&CREATE_FORK)?;
    let urls = urls(&call.state);
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        hub.operations().fork(&access, &owner, once)
    };
    call.effect(key, act, move |operation| accepted(operation, &urls)).await
}
