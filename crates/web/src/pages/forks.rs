//! `/{owner}/{database}/forks`: shows the fork network and creates forks.

mod network;

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Participate, Read};
use branchyard_domain::errors::OrganizationError;

use self::network::Network;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::Markup;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

/// Forks per page.
const PAGE: usize = 50;
/// Organizations that the form offers as owners.
const OWNERS: usize = 100;
const FIELDS: &[&str] = &["owner"];

#[derive(Template)]
#[template(path = "forks.html")]
struct ForksPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    may_sign_in: bool,
    /// Possible owners of a fork: values and labels of the options.
    owners: Vec<(String, String)>,
    forks: Vec<(String, String)>,
    next: Option<String>,
    drawing: Option<Markup>,
    is_cut: bool,
    form: Filled,
}

/// `GET /{owner}/{database}/forks`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Forks).await?;
    let page = filled(&visit, access, frame, Filled::default()).await?;
    visit.page(|shell| ForksPage { shell, ..page })
}

async fn filled(
    visit: &PageContext,
    access: DatabaseAccess<Read>,
    frame: DatabaseFrame,
    form: Filled,
) -> Result<ForksPage, PageError> {
    let mut owners = owners(visit).await?;
    let may_sign_in = owners.is_empty();
    // A fork keeps the name, which its owner has already.
    owners.retain(|(name, _)| !name.eq_ignore_ascii_case(&frame.owner));
    let after = visit.parameter("after").unwrap_or_default().to_ascii_lowercase();
    let (mut found, network) = visit
        .read(move |hub| {
            let found = hub.databases().forks(&access, after.split_once('/'), PAGE + 1)?;
            Ok::<_, branchyard_domain::errors::DatabaseError>((found, Network::around(hub, &access)?))
        })
        .await?;
    let next = crate::paths::next_page(&mut found, PAGE, &format!("{}/forks", frame.path), ToString::to_string);
    let forks = found.iter().map(|fork| (fork.to_string(), crate::paths::database(fork))).collect();
    let drawing = (network.len() > 1).then(|| network.draw(&format!("{}/{}", frame.owner, frame.name)));
    let is_cut = network.is_cut();
    Ok(ForksPage { shell: LayoutContext::default(), frame, may_sign_in, owners, forks, next, drawing, is_cut, form })
}

/// Returns the names of the viewer and of the viewer's organizations, as the values and the labels of a choice.
pub(crate) async fn owners(visit: &PageContext) -> Result<Vec<(String, String)>, PageError> {
    let Some(user) = visit.caller.user().cloned() else { return Ok(Vec::new()) };
    let of = std::sync::Arc::clone(&user);
    let organizations =
        visit.read(move |hub| -> Result<_, OrganizationError> { hub.organizations().list(&of, None, OWNERS) }).await?;
    let names = organizations.into_iter().map(|view| view.organization.name.to_string());
    Ok(std::iter::once(user.name.to_string()).chain(names).map(|name| (name.clone(), name)).collect())
}

/// `POST /{owner}/{database}/forks`
pub(crate) async fn fork(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Participate>(&posted, DatabaseTab::Forks).await?;
    let owner = posted.form.line("owner");
    match posted.write(move |hub| hub.operations().fork(&access, &owner, None)).await {
        Ok(operation) => posted.redirect(&format!("{}/operations/{}", frame.path, operation.id)),
        Err(failure) => {
            let form = posted.form.again().refused(failure, FIELDS)?;
            let (access, frame) = database::open::<Read>(&posted, DatabaseTab::Forks).await?;
            let page = filled(&posted, access, frame, form).await?;
            posted.refuse(|shell| ForksPage { shell, ..page })
        }
    }
}
