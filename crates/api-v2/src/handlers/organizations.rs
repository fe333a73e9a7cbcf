use branchyard_domain::access::{Own, Visit};
use branchyard_domain::usecases::{EditOrganization, NewOrganization, OrganizationView};
use branchyard_domain::values::{Description, DisplayName, OwnerName};
use branchyard_http_common::{ApiResponse, Fields, RequestContext, Urls, bound, page, segment};

use super::{HandlerResult, ROLES, page_of, unchanged, urls};
use crate::wire;

fn shown(view: &OrganizationView) -> wire::Organization {
    view.into()
}

/// `GET /user/organizations`
pub(crate) async fn list_user_organizations(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["organizations", &user.id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.organizations().list(&user, after.as_deref(), fetch)).await?;
    page(&call.state, &page_request, &bound, found, shown, |view| view.organization.name.key())
}

/// `POST /organizations`
pub(crate) async fn create_organization(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let wanted = call.body(new_organization)?;
    let urls = urls(&call.state);
    let created = move |view: &OrganizationView| ApiResponse::resource(201, &shown(view)).at(address(view, &urls));
    call.effect(key, move |hub, once| hub.organizations().create(&user, wanted, once), created).await
}

fn address(view: &OrganizationView, urls: &Urls) -> String {
    format!("{}/organizations/{}", urls.root(), segment(view.organization.name.as_str()))
}

fn new_organization(fields: &Fields<'_>) -> Option<NewOrganization> {
    let name = fields.required_as("name", OwnerName::parse);
    let display_name = fields.optional_as("display_name", |text| DisplayName::parse(text));
    let description = fields.optional_as("description", |text| Description::parse(text));
    let base_role = fields.optional_choice("base_role", ROLES);
    Some(NewOrganization { name: name?, display_name, description, base_role })
}

/// `GET /organizations/{organization}`
pub(crate) async fn get_organization(call: RequestContext) -> HandlerResult {
    let access = call.organization::<Visit>().await?;
    Ok(ApiResponse::resource(200, &shown(&call.state.hub.organizations().get(&access))))
}

/// `PATCH /organizations/{organization}`
pub(crate) async fn update_organization(call: RequestContext) -> HandlerResult {
    let access = call.organization::<Own>().await?;
    let edit = call.patch(edit_organization)?;
    let if_match = call.if_match();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &OrganizationView| unchanged(if_match.as_ref(), &shown(view));
            hub.organizations().edit(&access, edit, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &shown(&view)))
}

fn edit_organization(fields: &Fields<'_>) -> Option<EditOrganization> {
    let display_name = fields.clearable_as("display_name", |text| DisplayName::parse(text));
    let description = fields.clearable_as("description", |text| Description::parse(text));
    let base_role = fields.optional_choice("base_role", ROLES);
    Some(EditOrganization { display_name, description, base_role })
}

/// `DELETE /organizations/{organization}`
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
