use branchyard_domain::access::{Belong, Own};
use branchyard_domain::entities::{Member, MemberRole};
use branchyard_http_common::{ApiResponse, Endpoint, RequestBody, RequestContext, Words, bound, page, section};

use super::{HandlerResult, page_of};
use crate::wire;
use branchyard_http_common::methods::{delete, get, put};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Organization",
        "/organizations/{organization}/members",
        vec![
            get("", "listOrganizationMembers", "Members, by name; visible to members only", list_organization_members)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("Member"), ("LP", &[404])),
            put("/{username}", "putOrganizationMember", "Add a member or change a role", put_organization_member)
                .json(&PUT_ORGANIZATION_MEMBER)
                .responds(200, Success::One("Member"), ("BP", &[404, 422]))
                .describe("The last owner of an organization can be neither demoted nor removed (422)."),
            delete("/{username}", "removeOrganizationMember", "Remove a member, or leave", remove_organization_member)
                .responds(200, Success::One("Member"), ("P", &[404, 422]))
                .describe("The last owner of an organization can be neither demoted nor removed (422)."),
        ],
    )
}

const MEMBER_ROLES: Words<MemberRole> =
    Words::component("MemberRole", &[("owner", MemberRole::Owner), ("member", MemberRole::Member)]);

fn shown(member: &Member) -> wire::Member {
    member.into()
}

/// Handles `GET /organizations/{organization}/members`.
pub(crate) async fn list_organization_members(call: RequestContext) -> HandlerResult {
    let access = call.organization::<Belong>().await?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["members", &access.organization().id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.members().list(&access, after.as_deref(), fetch)).await?;
    page(&call.state, &page_request, &bound, found, shown, |member| member.username.key())
}

const PUT_ORGANIZATION_MEMBER: RequestBody<MemberRole> =
    RequestBody::closed("PutOrganizationMemberRequest", |fields| fields.required_choice("role", &MEMBER_ROLES))
        .example(|| json!({"role": "member"}));

/// Handles `PUT /organizations/{organization}/members/{username}`.
pub(crate) async fn put_organization_member(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    let (access, user) = call.organization_to::<Own, _, _>(move |hub, _| hub.people().user_named(&name)).await?;
    let role = call.json(&PUT_ORGANIZATION_MEMBER)?;
    let (member, added) = call.write(move |hub| hub.members().put(&access, &user, role)).await?;
    Ok(ApiResponse::data(if added { 201 } else { 200 }, &shown(&member)))
}

/// Handles `DELETE /organizations/{organization}/members/{username}`. Members may remove themselves. Removing another member
/// requires the owner role.
pub(crate) async fn remove_organization_member(call: RequestContext) -> HandlerResult {
    let name = call.segment("username");
    let member = if call.signed_in()?.name.as_str().eq_ignore_ascii_case(&name) {
        let access = call.organization::<Belong>().await?;
        call.write(move |hub| hub.members().leave(&access)).await?
    } else {
        let (access, member) =
            call.organization_to::<Own, _, _>(move |hub, access| hub.members().get(access, &name)).await?;
        call.write(move |hub| hub.members().remove(&access, &member)).await?
    };
    Ok(ApiResponse::data(200, &shown(&member)))
}
