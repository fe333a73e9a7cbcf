use branchyard_domain::access::{Admin, Participate};
use branchyard_domain::entities::Collaborator;
use branchyard_domain::entities::Role;
use branchyard_http_common::{ApiResponse, Endpoint, RequestBody, RequestContext, bound, page, section};

use super::{HandlerResult, ROLES, page_of};
use crate::wire;
use branchyard_http_common::methods::{delete, get, put};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}/collaborators",
        vec![
            get("", "listCollaborators", "Collaborators, by name", list_collaborators)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("Collaborator"), "DLP"),
            put("/{username}", "putCollaborator", "Add a collaborator or change a role", put_collaborator)
                .json(&PUT_COLLABORATOR)
                .responds(200, Success::One("Collaborator"), ("DBP", &[422]))
                .describe("The owner of the database cannot be a collaborator (422)."),
            delete("/{username}", "removeCollaborator", "Remove a collaborator, or leave", remove_collaborator)
                .responds(200, Success::One("Collaborator"), "DP"),
        ],
    )
}

fn shown(collaborator: &Collaborator) -> wire::Collaborator {
    collaborator.into()
}

/// Handles `GET …/collaborators`.
pub(crate) async fn list_collaborators(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["collaborators", &access.database().id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.collaborators().list(&access, after.as_deref(), fetch)).await?;
    page(&call.state, &page_request, &bound, found, shown, |collaborator| collaborator.username.key())
}

const PUT_COLLABORATOR: RequestBody<Role> =
    RequestBody::closed("PutCollaboratorRequest", |fields| fields.required_choice("role", &ROLES))
        .example(|| json!({"role": "write"}));

/// Handles `PUT …/collaborators/{username}`.
pub(crate) async fn put_collaborator(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    // The role is checked first. Otherwise the response would reveal which user names exist to callers that may not see the
    // collaborators.
    let access = call.access::<Admin>().await?;
    let user = call.read(move |hub| hub.people().user_named(&name)).await?;
    let role = call.json(&PUT_COLLABORATOR)?;
    let (collaborator, added) = call.write(move |hub| hub.collaborators().put(&access, &user, role)).await?;
    Ok(ApiResponse::data(if added { 201 } else { 200 }, &shown(&collaborator)))
}

/// Handles `DELETE …/collaborators/{username}`. Callers may remove themselves. Removing another user requires the admin role.
pub(crate) async fn remove_collaborator(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    let collaborator = if call.signed_in()?.name.as_str().eq_ignore_ascii_case(&name) {
        let access = call.access::<Participate>().await?;
        call.write(move |hub| hub.collaborators().leave(&access)).await?
    } else {
        let access = call.access::<Admin>().await?;
        call.write(move |hub| hub.collaborators().remove(&access, &name)).await?
    };
    Ok(ApiResponse::data(200, &shown(&collaborator)))
}
