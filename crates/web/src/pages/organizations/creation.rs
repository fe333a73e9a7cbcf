//! `/organizations/new`

use askama::Template;
use branchyard_domain::errors::OrganizationError;
use branchyard_domain::usecases::NewOrganization;
use branchyard_domain::values::{Description, DisplayName, OwnerName};

use super::BASE_ROLES;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::database_settings::collaborators::role_named;

const FIELDS: &[&str] = &["name", "display_name", "description", "base_role"];

#[derive(Template)]
#[template(path = "organization_new.html")]
struct NewOrganizationPage {
    shell: LayoutContext,
    form: Filled,
    roles: &'static [(&'static str, &'static str)],
}

/// `GET /organizations/new`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    visit.user()?;
    let form = Filled::default().with("base_role", "write");
    visit.page(|shell| NewOrganizationPage { shell, form, roles: BASE_ROLES })
}

/// `POST /organizations/new`
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let mut form = posted.form.again();
    let name = form.checked("name", OwnerName::parse(&posted.form.line("name")));
    let display_name = form.checked("display_name", DisplayName::parse(posted.form.line("display_name")));
    let description = form.checked("description", Description::parse(posted.form.text("description").trim()));
    let base_role = form.checked("base_role", role_named(&posted.form.line("base_role")));
    if let (Some(name), Some(display_name), Some(description), Some(base_role)) =
        (name, display_name, description, base_role)
    {
        let wanted = NewOrganization {
            name,
            display_name: Some(display_name),
            description: Some(description),
            base_role: Some(base_role),
        };
        let made = posted
            .write(move |hub| -> Result<_, OrganizationError> { hub.organizations().create(&user, wanted, None) });
        match made.await {
            Ok(view) => {
                let name = view.organization.name;
                let to = format!("/organizations/{name}/members");
                return posted.redirect_saying(&to, &format!("Organization {name} created. Add its members."));
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    posted.refuse(|shell| NewOrganizationPage { shell, form, roles: BASE_ROLES })
}
