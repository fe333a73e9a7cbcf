use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Branch;
use branchyard_domain::usecases::NewBranch;
use branchyard_domain::values::RefName;
use branchyard_http_common::{ApiResponse, Endpoint, Fields, RequestBody, RequestContext, bound, page, section};

use super::{HandlerResult, page_of, revision, unchanged, urls};
use crate::convert;
use crate::openapi::examples;
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::{Credential, Success, list_of};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Database", "/databases/{owner}/{database}/branches", vec![
get("", "listBranches", "Branches, by name", list_branches).credential(Credential::Optional).query(&["page_token", "page_size"]).responds(200, Success::List("Branch"), "DL").shows(|| list_of(examples::branch("main", true))),
post("", "createBranch", "Create a branch", create_branch).json(&CREATE_BRANCH).responds(201, Success::One("Branch"), ("DBKP", &[409, 422])),
get("/{branch:.+}", "getBranch", "A branch", get_branch).credential(Credential::Optional).responds(200, Success::One("Branch"), "D"),
delete("/{branch:.+}", "deleteBranch", "Delete a branch", delete_branch).responds(200, Success::One("Branch"), ("DPM", &[409, 422])).describe("Open pull requests from or into the branch stay open, and cannot be merged until the branch exists \
             again."),
])
}

/// Handles `GET …/branches`.
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

/// Handles `POST …/branches`.
pub(crate) async fn create_branch(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&CREATE_BRANCH)?;
    let (urls, database) = (urls(&call.state), access.database().clone());
    let created = move |branch: &Branch| {
        let location = urls.below(&database.locator, "branches", branch.name.as_str());
        ApiResponse::resource(201, &convert::branch(branch, branch.name == database.default_branch)).at(location)
    };
    call.effect(key, move |hub, once| hub.branches().create(&access, wanted, once), created).await
}

const CREATE_BRANCH: RequestBody<NewBranch> = RequestBody::closed("CreateBranchRequest", new_branch)
    .example(|| json!({"name": "feature/x", "from": {"branch": "main"}}));

fn new_branch(fields: &Fields<'_>) -> Option<NewBranch> {
    let name = fields.doc("At most 200 bytes, under git's rules for refs.").required::<RefName>("name");
    let from = fields.component("RevisionRef").required_object("from", revision);
    Some(NewBranch { name: name?, from: from? })
}

/// Handles `GET …/branches/{branch}`.
pub(crate) async fn get_branch(call: RequestContext) -> HandlerResult {
    let name = call.segment("branch");
    let (access, branch) = call.access_to::<Read, _, _>(move |hub, access| hub.branches().get(access, &name)).await?;
    let is_default = branch.name == access.database().default_branch;
    Ok(ApiResponse::resource(200, &convert::branch(&branch, is_default)))
}

/// Handles `DELETE …/branches/{branch}`.
pub(crate) async fn delete_branch(call: RequestContext) -> HandlerResult {
    let name = call.segment("branch");
    let (access, found) = call.access_to::<Write, _, _>(move |hub, access| hub.branches().get(access, &name)).await?;
    let if_match = call.if_match();
    // The use case refuses to delete the default branch before it calls `as_seen`, so the branch here is never the default one.
    let shown = |branch: &Branch| convert::branch(branch, false);
    let branch = call
        .write(move |hub| {
            let as_seen = |branch: &Branch| unchanged(if_match.as_ref(), &shown(branch));
            hub.branches().delete(&access, found.name.as_str(), Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &shown(&branch)))
}
