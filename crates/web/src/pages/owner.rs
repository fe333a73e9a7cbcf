//! `/{owner}`: the profile of a user or an organization, and the databases of the owner that the viewer can see.

use askama::Template;
use branchyard_domain::access::Visit as Look;
use branchyard_domain::entities::{MemberRole, Role};
use branchyard_domain::errors::{DatabaseError, OrganizationError, PeopleError};
use branchyard_domain::ports::DatabaseFilter;
use branchyard_domain::usecases::OrganizationView;
use branchyard_domain::values::AccountId;

use super::explore::{DatabaseItem, items};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const PAGE: usize = 50;
/// The value of `tab` that shows starred databases.
const STARRED: &str = "starred";

/// The public profile of an owner.
pub(crate) struct OwnerProfile {
    name: branchyard_domain::values::OwnerName,
    /// The id of the user; `None` for an organization.
    user: Option<AccountId>,
    display_name: Option<String>,
    text: Option<String>,
    location: Option<String>,
    website: Option<String>,
    is_organization: bool,
    /// Whether the viewer's role in the organization lets the viewer create databases for it.
    may_create: bool,
    created_at: branchyard_domain::values::Timestamp,
}

#[derive(Template)]
#[template(path = "owner.html")]
struct OwnerPage {
    shell: LayoutContext,
    about: OwnerProfile,
    joined: Markup,
    is_viewer: bool,
    /// Whether the viewer can create databases for the owner.
    may_create: bool,
    has_deployments: bool,
    shows_stars: bool,
    databases: Vec<DatabaseItem>,
    next: Option<String>,
}

/// `GET /{owner}?tab=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let name = visit.segment("owner");
    let caller = visit.caller.clone();
    let about = visit.read(move |hub| -> Result<_, OrganizationError> {
        match hub.people().user_named(&name) {
            Ok(user) => Ok(Some(OwnerProfile {
                name: user.name,
                user: Some(user.id),
                display_name: user.display_name,
                text: user.bio,
                location: user.location,
                website: user.website_url,
                is_organization: false,
                may_create: false,
                created_at: user.created_at,
            })),
            Err(PeopleError::NoSuchUser(_)) => {
                let access = match hub.organizations().access::<Look>(&caller, &name) {
                    Ok(access) => access,
                    Err(OrganizationError::NoSuchOrganization | OrganizationError::SignInRequired) => return Ok(None),
                    Err(other) => return Err(other),
                };
                let OrganizationView { organization, role } = hub.organizations().get(&access);
                let may_create =
                    role.is_some_and(|role| role == MemberRole::Owner || organization.base_role >= Role::Write);
                Ok(Some(OwnerProfile {
                    name: organization.name,
                    user: None,
                    display_name: organization.display_name,
                    text: organization.description,
                    location: None,
                    website: None,
                    is_organization: true,
                    may_create,
                    created_at: organization.created_at,
                }))
            }
            Err(other) => Err(other.into()),
        }
    });
    let about = about.await?.ok_or_else(PageError::nothing_here)?;
    let starred_by = about.user.filter(|_| visit.parameter("tab").as_deref() == Some(STARRED));
    let (caller, owner) = (visit.caller.clone(), about.name.clone());
    let after = visit.parameter("after").map(|key| key.to_ascii_lowercase());
    let mut found = visit
        .read(move |hub| -> Result<_, DatabaseError> {
            let all = DatabaseFilter::default();
            let filter = match starred_by {
                Some(_) => DatabaseFilter { starred_by, ..all },
                None => DatabaseFilter { owner: Some(owner), ..all },
            };
            hub.databases().list(&caller, &filter, after.as_deref().and_then(|key| key.split_once('/')), PAGE + 1)
        })
        .await?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| more).map(|view| view.database.locator.to_string());
    let tab = if starred_by.is_some() { STARRED } else { "" };
    let next = last.map(|last| paths::with_query(&format!("/{}", about.name), &[("tab", tab), ("after", &last)]));
    let now = visit.state.services.now();
    let is_viewer = visit.caller.user().is_some_and(|user| user.name == about.name);
    let may_create = is_viewer || about.may_create;
    let has_deployments = super::deployments::list::is_visible(&visit, &about.name).await?;
    let (databases, joined) = (items(&found, now), format::when(about.created_at, now));
    let shows_stars = starred_by.is_some();
    visit.page(|shell| OwnerPage {
        shell,
        about,
        joined,
        is_viewer,
        may_create,
        has_deployments,
        shows_stars,
        databases,
        next,
    })
}
