use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Branch;
use branchyard_domain::usecases::NewBranch;
use branchyard_domain::values::RefName;
use branchyard_http_common::{ApiResponse, Fields, RequestContext, bound, page};

use super::{HandlerResult, page_of, revision, unchanged, urls};
use crate::convert;

/// `GET …/branches`
pub(crate) async fn list_branches(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["branches", &access.database().id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let (default, fetch) = (access.database().default_branch.clone(), page_request.fetch());
    let found = call.read(move |hub| hub.branches().list(&access, after.as_deref(), fetch)).await?;
    let shown = |branch: &Branch| convert::branch(branch, branch.name == default);
    page(&call.state, &page_request, &bound, found, shown, |branch| branch.name.to_string())
}

/// `POST …/branches`
pub(crate) async fn create_branch(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.body(new_branch)?;
    let (urls, database) = (urls(&call.state), access.database().clone());
    let created = move |branch: &Branch| {
        let location = urls.below(&database.locator, "branches", branch.name.as_str());
        ApiResponse::resource(201, &convert::branch(branch, branch.name == database.default_branch)).at(location)
    };
    call.effect(key, move |hub, once| hub.branches().create(&access, wanted, once), created).await
}

fn new_branch(fields: &Fields<'_>) -> Option<NewBranch> {
    let name = fields.required_as("name", RefName::parse);
    let from = fields.required_object("from", revision);
    Some(NewBranch { name: name?, from: from? })
}

/// `GET …/branches/{branch}`
pub(crate) async fn get_branch(call: RequestContext) -> HandlerResult {
    let name = call.segment("branch");
    let (access, branch) = call.access_to::<Read, _, _>(move |hub, access| hub.branches().get(access, &name)).await?;
    let is_default = branch.name == access.database().default_branch;
    Ok(ApiResponse::resource(200, &convert::branch(&branch, is_default)))
}

/// `DELETE …/branches/{branch}`
pub(crate) async fn delete_branch(call: RequestContext) -> HandlerResult {
    let name = call.segment("branch");
    let (access, found) = call.access_to::<Write, _, _>(move |hub, access| hub.branches().get(access, &name)).await?;
    let if_match = call.if_match();
    // The default branch is refused before it is compared, so what is compared and shown is another one.
    let shown = |branch: &Branch| convert::branch(branch, false);
    let branch = call
        .write(move |hub| {
            let as_seen = |branch: &Branch| unchanged(if_match.as_ref(), &shown(branch));
            hub.branches().delete(&access, found.name.as_str(), Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &shown(&branch)))
}
