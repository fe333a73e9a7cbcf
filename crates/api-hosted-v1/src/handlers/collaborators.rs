use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::{ApiResponse, RequestContext};

use super::{HandlerResult, whole};
use crate::convert::{self, ROLES};

/// `GET …/collaborators`
pub(crate) async fn list_collaborators(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let found = call.read(move |hub| hub.deployments().collaborators(&access)).await?;
    Ok(whole(&found.iter().map(convert::collaborator).collect::<Vec<_>>()))
}

/// `PUT …/collaborators/{username}`
pub(crate) async fn put_collaborator(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    // The role comes first: who may not see the collaborators is not told who is a user either.
    let access = call.deployment::<Manage>().await?;
    let user = call.read(move |hub| hub.people().user_named(&name)).await?;
    let role = call.body(|fields| fields.required_choice("role", ROLES))?;
    let (collaborator, added) = call.write(move |hub| hub.deployments().put_collaborator(&access, &user, role)).await?;
    Ok(ApiResponse::data(if added { 201 } else { 200 }, &convert::collaborator(&collaborator)))
}

/// `DELETE …/collaborators/{username}`: whoever names themselves leaves, for all else it takes an administrator.
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
