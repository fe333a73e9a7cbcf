use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::{ApiResponse, Endpoint, RequestBody, RequestContext, section};

use super::{HandlerResult, whole};
use crate::convert::{self, ROLES};
use branchyard_deployments::entities::DeploymentRole;
use branchyard_http_common::methods::{delete, get, put};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Collaborators",
        "/deployments/{owner}/{deployment}/collaborators",
        vec![
            get("", "listCollaborators", "Collaborators, by name", list_collaborators).responds(
                200,
                Success::List("Collaborator"),
                &[403, 404],
            ),
            put("/{username}", "putCollaborator", "Add a collaborator or change a role", put_collaborator)
                .json(&PUT_COLLABORATOR)
                .responds(200, Success::One("Collaborator"), &[400, 403, 404, 413, 415, 422]),
            delete("/{username}", "removeCollaborator", "Remove a collaborator, or leave", remove_collaborator)
                .responds(200, Success::One("Collaborator"), &[403, 404]),
        ],
    )
}

/// Handles `GET …/collaborators`.
pub(crate) async fn list_collaborators(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let found = call.read(move |hub| hub.deployments().collaborators(&access)).await?;
    Ok(whole(&found.iter().map(convert::collaborator).collect::<Vec<_>>()))
}

const PUT_COLLABORATOR: RequestBody<DeploymentRole> = RequestBody::closed("PutCollaboratorRequest", |fields| {
    fields.describe_object(|| json!({"description": "A role."}));
    fields.doc("`reader`, `reader_and_pulls`, `writer` or `admin`.").required_choice("role", &ROLES)
})
.example(|| json!({"role": "writer"}));

/// Handles `PUT …/collaborators/{username}`.
pub(crate) async fn put_collaborator(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    // The role is checked first. Otherwise the response would reveal which user names exist to callers that may not see the
    // collaborators.
    let access = call.deployment::<Manage>().await?;
    let user = call.read(move |hub| hub.people().user_named(&name)).await?;
    let role = call.json(&PUT_COLLABORATOR)?;
    let (collaborator, added) = call.write(move |hub| hub.deployments().put_collaborator(&access, &user, role)).await?;
    Ok(ApiResponse::data(if added { 201 } else { 200 }, &convert::collaborator(&collaborator)))
}

/// Handles `DELETE …/collaborators/{username}`. Callers may remove themselves. Removing another user requires the admin role.
pub(crate) async fn remove_collaborator(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    let removed = if call.signed_in()?.name.as_str().eq_ignore_ascii_case(&name) {
        let access = call.deployment::<Observe>().await?;
        call.write(move |hub| hub.deployments().leave(&access)).await?
    } else {
        let access = call.deployment::<Manage>().await?;
        call.write(move |hub| hub.deployments().remove_collaborator(&access, &name)).await?
    };
    Ok(ApiResponse::data(200, &convert::collaborator(&removed)))
}
