//! `/{owner}`: a person or an organization, and the databases of theirs that the viewer may see.

use askama::Template;
use branchyard_domain::access::Visit as Look;
use branchyard_domain::errors::{DatabaseError, OrganizationError, PeopleError};
use branchyard_domain::ports::DatabaseFilter;

use super::explore::{Item, items};
use crate::error_page::Stop;
use crate::format::{self, Markup};
use crate::layout::Shell;
use crate::paths;
use crate::visit::{Answer, Visit};

const PAGE: usize = 50;

/// What an owner says of themselves.
pub(crate) struct About {
    name: branchyard_domain::values::OwnerName,
    display_name: Option<String>,
    text: Option<String>,
    location: Option<String>,
    website: Option<String>,
    is_organization: bool,
    created_at: branchyard_domain::values::Timestamp,
}

#[derive(Template)]
#[template(path = "owner.html")]
struct OwnerPage {
    shell: Shell,
    about: About,
    joined: Markup,
    is_viewer: bool,
    has_deployments: bool,
    databases: Vec<Item>,
    next: Option<String>,
}

/// `GET /{owner}`
pub(crate) async fn show(visit: Visit) -> Answer {
    let name = visit.segment("owner");
    let caller = visit.caller.clone();
    let about = visit.read(move |hub| -> Result<_, OrganizationError> {
        match hub.people().user_named(&name) {
            Ok(user) => Ok(Some(About {
                name: user.name,
                display_name: user.display_name,
                text: user.bio,
                location: user.location,
                website: user.website_url,
                is_organization: false,
                created_at: user.created_at,
            })),
            Err(PeopleError::NoSuchUser(_)) => {
                let access = match hub.organizations().access::<Look>(&caller, &name) {
                    Ok(access) => access,
                    Err(OrganizationError::NoSuchOrganization | OrganizationError::SignInRequired) => return Ok(None),
                    Err(other) => return Err(other),
                };
                let organization = hub.organizations().get(&access).organization;
                Ok(Some(About {
                    name: organization.name,
                    display_name: organization.display_name,
                    text: organization.description,
                    location: None,
                    website: None,
                    is_organization: true,
                    created_at: organization.created_at,
                }))
            }
            Err(other) => Err(other.into()),
        }
    });
    let about = about.await?.ok_or_else(Stop::nothing_here)?;
    let (caller, owner) = (visit.caller.clone(), about.name.clone());
    let after = visit.parameter("after").map(|name| name.to_ascii_lowercase());
    let mut found = visit
        .read(move |hub| -> Result<_, DatabaseError> {
            let filter = DatabaseFilter { owner: Some(owner.clone()), ..DatabaseFilter::default() };
            let key = owner.key();
            let after = after.as_deref().map(|name| (key.as_str(), name));
            hub.databases().list(&caller, &filter, after, PAGE + 1)
        })
        .await?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| more).map(|view| view.database.locator.name.to_string());
    let next = last.map(|last| paths::with_query(&format!("/{}", about.name), &[("after", &last)]));
    let now = visit.state.hub.now();
    let is_viewer = visit.caller.user().is_some_and(|user| user.name == about.name);
    let has_deployments = super::deployments::list::is_visible(&visit, &about.name).await?;
    let (databases, joined) = (items(&found, now), format::when(about.created_at, now));
    visit.page(|shell| OwnerPage { shell, about, joined, is_viewer, has_deployments, databases, next })
}
