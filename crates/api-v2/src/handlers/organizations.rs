use branchyard_domain::access::{Own, Visit};
use branchyard_domain::usecases::{EditOrganization, NewOrganization, OrganizationView};
use branchyard_domain::values::{Description, DisplayName, OwnerName};
use branchyard_http_common::{
    ApiResponse, Endpoint, Fields, RequestBody, RequestContext, Urls, bound, page, section, segment,
};

use super::{HandlerResult, ROLES, page_of, unchanged, urls};
use crate::wire;
use branchyard_http_common::methods::{delete, get, patch, post};
use branchyard_openapi::{Credential, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let mut all = section(
        "User",
        "/user/organizations",
        vec![
            get("", "listUserOrganizations", "Organizations of the caller, by name", list_user_organizations)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("Organization"), "L"),
        ],
    );
    all.extend(section(
        "Organization",
        "/organizations",
        vec![
            post("", "createOrganization", "Create an organization owned by the caller", create_organization)
                .json(&CREATE_ORGANIZATION)
                .responds(201, Success::One("Organization"), ("BK", &[409, 422])),
            get("/{organization}", "getOrganization", "An organization", get_organization)
                .credential(Credential::Optional)
                .responds(200, Success::One("Organization"), &[404]),
            patch("/{organization}", "updateOrganization", "Change an organization", update_organization)
                .json(&UPDATE_ORGANIZATION)
                .responds(200, Success::One("Organization"), ("BPM", &[404])),
            delete(
                "/{organization}",
                "deleteOrganization",
                "Delete an organization that owns no databases",
                delete_organization,
            )
            .responds(200, Success::One("Organization"), ("PM", &[404, 409]))
            .describe("Answered 409 while the organization owns databases."),
        ],
    ));
    all
}

fn shown(view: &OrganizationView) -> wire::Organization {
    view.into()
}

/// Handles `GET /user/organizations`.
pub(crate) async fn list_user_organizations(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["organizations", &user.id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.organizations().list(&user, after.as_deref(), fetch)).await?;
    page(&call.state, &page_request, &bound, found, shown, |view| view.organization.name.key())
}

/// Handles `POST /organizations`.
pub(crate) async fn create_organization(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let wanted = call.json(&CREATE_ORGANIZATION)?;
    let urls = urls(&call.state);
    let created = move |view: &OrganizationView| ApiResponse::resource(201, &shown(view)).at(address(view, &urls));
    call.effect(key, move |hub, once| hub.organizations().create(&user, wanted, once), created).await
}

fn address(view: &OrganizationView, urls: &Urls) -> String {
    format!("{}/organizations/{}", urls.root(), segment(view.organization.name.as_str()))
}

const CREATE_ORGANIZATION: RequestBody<NewOrganization> =
    RequestBody::closed("CreateOrganizationRequest", new_organization)
        .example(|| json!({"name": "hydro", "display_name": "Hydro Lab", "base_role": "write"}));

fn new_organization(fields: &Fields<'_>) -> Option<NewOrganization> {
    let name =
        fields.doc("Unique among users and organizations, regardless of letter case.").required::<OwnerName>("name");
    let display_name = fields.optional::<DisplayName>("display_name");
    let description = fields.optional::<Description>("description");
    let base_role = fields.doc("Default: `write`.").optional_choice("base_role", &ROLES);
    Some(NewOrganization { name: name?, display_name, description, base_role })
}

/// Handles `GET /organizations/{organization}`.
pub(crate) async fn get_organization(call: RequestContext) -> HandlerResult {
    let access = call.organization::<Visit>().await?;
    Ok(ApiResponse::resource(200, &shown(&call.state.services.organizations().get(&access))))
}

/// Handles `PATCH /organizations/{organization}`.
pub(crate) async fn update_organization(call: RequestContext) -> HandlerResult {
    let access = call.organization::<Own>().await?;
    let edit = call.json(&UPDATE_ORGANIZATION)?;
    let if_match = call.if_match();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &OrganizationView| unchanged(if_match.as_ref(), &shown(view));
            hub.organizations().edit(&access, edit, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &shown(&view)))
}

const UPDATE_ORGANIZATION: RequestBody<EditOrganization> =
    RequestBody::patch("UpdateOrganizationRequest", edit_organization).example(|| json!({"display_name": "Hydro Lab"}));

fn edit_organization(fields: &Fields<'_>) -> Option<EditOrganization> {
    let display_name = fields.clearable::<DisplayName>("display_name");
    let description = fields.clearable::<Description>("description");
    let base_role = fields.optional_choice("base_role", &ROLES);
    Some(EditOrganization { display_name, description, base_role })
}

/// Handles `DELETE /organizations/{organization}`.
pub(crate) async fn delete_organization(call: RequestContext) -> HandlerResult {
    let access = call.organization::<Own>().await?;
    let if_match = call.if_match();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &OrganizationView| unchanged(if_match.as_ref(), &shown(view));
            hub.organizations().delete(&access, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &shown(&view)))
}
