use branchyard_domain::access::{Participate, Read};
use branchyard_domain::entities::DatabaseLocator;
use branchyard_http_common::{RequestContext, bound, page};

use super::{HandlerResult, accepted, long_page_of, urls};
use crate::convert;

/// `GET …/forks`
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

/// `POST …/forks`
pub(crate) async fn create_fork(call: RequestContext) -> HandlerResult {
    let access = call.access::<Participate>().await?;
    let key = call.key(access.who()).await?;
    let owner = call.body(|fields| fields.required_string("owner"))?;
    let urls = urls(&call.state);
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        hub.operations().fork(&access, &owner, once)
    };
    call.effect(key, act, move |operation| accepted(operation, &urls)).await
}
