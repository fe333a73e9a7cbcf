//! `/organizations/{organization}/settings`: the profile, the role of members, and the deletion of the organization.

use askama::Template;
use branchyard_domain::access::{OrganizationAccess, Own};
use branchyard_domain::entities::MemberRole;
use branchyard_domain::usecases::EditOrganization;
use branchyard_domain::values::{Description, DisplayName};

use super::{BASE_ROLES, OrganizationHeader};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::database_settings::collaborators::{role_name, role_named};

const FIELDS: &[&str] = &["display_name", "description", "base_role"];

#[derive(Template)]
#[template(path = "organization_settings.html")]
struct SettingsPage {
    shell: LayoutContext,
    head: OrganizationHeader,
    form: Filled,
    deletion: Filled,
    roles: &'static [(&'static str, &'static str)],
}

async fn open(visit: &PageContext) -> Result<(OrganizationAccess<Own>, OrganizationHeader), PageError> {
    let access = visit.organization::<Own>().await?;
    let head = OrganizationHeader::of(access.organization().name.as_str(), Some(MemberRole::Owner), "Settings");
    Ok((access, head))
}

fn as_it_is(access: &OrganizationAccess<Own>) -> Filled {
    let organization = access.organization();
    Filled::default()
        .with("display_name", organization.display_name.clone().unwrap_or_default())
        .with("description", organization.description.clone().unwrap_or_default())
        .with("base_role", role_name(organization.base_role))
}

/// `GET /organizations/{organization}/settings`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, head) = open(&visit).await?;
    let form = as_it_is(&access);
    visit.page(|shell| SettingsPage { shell, head, form, deletion: Filled::default(), roles: BASE_ROLES })
}

/// `POST /organizations/{organization}/settings`
pub(crate) async fn edit(posted: FormPost) -> PageResult {
    let (access, head) = open(&posted).await?;
    let mut form = posted.form.again();
    let display_name = form.checked("display_name", DisplayName::parse(posted.form.line("display_name")));
    let description = form.checked("description", Description::parse(posted.form.text("description").trim()));
    let base_role = form.checked("base_role", role_named(&posted.form.line("base_role")));
    if let (Some(display_name), Some(description), Some(base_role)) = (display_name, description, base_role) {
        let edit = EditOrganization {
            display_name: Some(display_name),
            description: Some(description),
            base_role: Some(base_role),
        };
        match posted.write(move |hub| hub.organizations().edit(&access, edit, None)).await {
            Ok(_) => {
                let to = format!("/organizations/{}/settings", head.name);
                return posted.redirect_saying(&to, "Settings saved.");
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    posted.refuse(|shell| SettingsPage { shell, head, form, deletion: Filled::default(), roles: BASE_ROLES })
}

/// `POST /organizations/{organization}/settings/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, head) = open(&posted).await?;
    posted.confirmed(&format!("/organizations/{}/settings", head.name))?;
    let form = as_it_is(&access);
    let mut deletion = posted.form.again();
    if posted.form.line("name") == head.name {
        match posted.write_always(move |hub| hub.organizations().delete(&access, None)).await {
            Ok(_) => return posted.redirect_saying("/", &format!("Organization {} deleted.", head.name)),
            Err(failure) => deletion = deletion.refused(failure, &[])?,
        }
    } else {
        deletion.fault("name", format!("Nothing was deleted. Type {} to confirm.", head.name));
    }
    posted.refuse(|shell| SettingsPage { shell, head, form, deletion, roles: BASE_ROLES })
}
