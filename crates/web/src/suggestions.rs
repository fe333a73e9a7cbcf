//! Names that forms suggest: of branches and tags, of databases, and of people.

use branchyard_domain::access::{Belong, Caller, DatabaseAccess, Level};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::DatabaseFilter;
use branchyard_http_common::ApiError;

use crate::error_page::PageError;
use crate::page_context::PageContext;

/// Branches, tags or databases suggested.
const OFFERED: usize = 100;
/// Organizations whose members are suggested.
const ORGANIZATIONS: usize = 10;

/// Returns the names of branches, then of tags.
pub(crate) async fn refs<L: Level>(visit: &PageContext, access: &DatabaseAccess<L>) -> Result<Vec<String>, PageError> {
    let access = access.clone();
    let found = visit.read(move |hub| -> Result<_, ReadError> {
        let branches = hub.branches().list(&access, None, OFFERED)?;
        let tags = hub.tags().list(&access, None, OFFERED)?;
        let tags = tags.iter().map(|tag| tag.name.to_string());
        Ok(branches.iter().map(|branch| branch.name.to_string()).chain(tags).collect())
    });
    Ok(found.await?)
}

/// Returns databases of the viewer and of the viewer's organizations, as `owner/name`.
pub(crate) async fn databases(visit: &PageContext) -> Result<Vec<String>, PageError> {
    let user = visit.user()?;
    let found = visit.read(move |hub| -> Result<_, ApiError> {
        let mut owners = vec![user.name.clone()];
        let views = hub.organizations().list(&user, None, ORGANIZATIONS)?;
        owners.extend(views.into_iter().map(|view| view.organization.name));
        let caller = Caller::User(user);
        let mut names = Vec::new();
        for owner in owners {
            let filter = DatabaseFilter { owner: Some(owner), ..DatabaseFilter::default() };
            let found = hub.databases().list(&caller, &filter, None, OFFERED)?;
            names.extend(found.iter().map(|view| view.database.locator.to_string()));
        }
        names.truncate(OFFERED);
        Ok(names)
    });
    Ok(found.await?)
}

/// Returns the names of the people who share an organization with the viewer, without the viewer. Others have to be typed: a list of all
/// users would show who has an account here.
pub(crate) async fn people(visit: &PageContext) -> Result<Vec<String>, PageError> {
    let user = visit.user()?;
    let found = visit.read(move |hub| -> Result<_, ApiError> {
        let caller = Caller::User(user.clone());
        let mut names = Vec::new();
        for view in hub.organizations().list(&user, None, ORGANIZATIONS)? {
            let access = hub.organizations().access::<Belong>(&caller, view.organization.name.as_str())?;
            names.extend(
                hub.members().list(&access, None, OFFERED)?.into_iter().map(|member| member.username.to_string()),
            );
        }
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != user.name.as_str());
        Ok(names)
    });
    Ok(found.await?)
}
