//! `/new`

use askama::Template;
use branchyard_domain::entities::{Mirror, Visibility};
use branchyard_domain::errors::{DatabaseError, MirrorError, PortError};
use branchyard_domain::usecases::{NewDatabase, NewMirror};
use branchyard_domain::values::{DatabaseName, Description};

use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Seconds between two syncs that the form offers, and what it calls them.
const INTERVALS: [(&str, &str); 4] =
    [("600", "Every 10 minutes"), (HOURLY, "Every hour"), ("86400", "Every day"), ("0", "Once, then write to it here")];
const HOURLY: &str = "3600";
/// Organizations that the form offers as owners.
const OFFERED: usize = 100;

#[derive(Template)]
#[template(path = "new_database.html")]
struct NewDatabasePage {
    shell: LayoutContext,
    form: Filled,
    owners: Vec<String>,
    intervals: [(&'static str, &'static str); 4],
}

async fn fill(
    visit: &PageContext,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> NewDatabasePage + use<>, PageError> {
    let user = visit.user()?;
    let mut owners = vec![user.name.to_string()];
    let views = visit.read(move |hub| hub.organizations().list(&user, None, OFFERED)).await?;
    owners.extend(views.into_iter().map(|view| view.organization.name.to_string()));
    Ok(move |shell| NewDatabasePage { shell, form, owners, intervals: INTERVALS })
}

/// `GET /new?owner=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let owner = visit.parameter("owner").unwrap_or_default();
    let form = Filled::default().with("owner", owner).with("visibility", "public").with("interval", HOURLY);
    let page = fill(&visit, form).await?;
    visit.page(page)
}

/// `POST /new`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let mut form = posted.form.again();
    let name = form.checked("name", DatabaseName::parse(&posted.form.line("name")));
    let description = form.checked("description", Description::parse(posted.form.line("description")));
    let visibility = match posted.form.line("visibility").as_str() {
        "public" => Some(Visibility::Public),
        "private" => Some(Visibility::Private),
        _ => {
            form.fault("visibility", "Choose a visibility.");
            None
        }
    };
    let (Some(name), Some(description), Some(visibility)) = (name, description, visibility) else {
        let page = fill(&posted, form).await?;
        return posted.refuse(page);
    };
    let owner = posted.form.line("owner");
    let url = posted.form.line("mirror_of");
    let interval_seconds = posted.form.line("interval").parse().unwrap_or(Mirror::DEFAULT_INTERVAL_SECONDS);
    let mirror_of = (!url.is_empty()).then_some(NewMirror { url, interval_seconds });
    let made = posted
        .write(move |hub| -> Result<_, PortError> {
            let wanted = NewDatabase { owner, name, visibility, description: Some(description), default_branch: None };
            let made = match &mirror_of {
                None => hub.databases().create(&user, wanted, None),
                Some(mirror_of) => hub.databases().create_mirror(&user, wanted, mirror_of, None),
            };
            match made {
                Ok(view) => Ok(Ok(view.database.locator)),
                Err(DatabaseError::Port(fault)) => Err(fault),
                Err(error @ DatabaseError::NameTaken(_)) => Ok(Err(("name", error.to_string()))),
                Err(error @ DatabaseError::MayNotCreateFor(_)) => Ok(Err(("owner", error.to_string()))),
                Err(DatabaseError::Mirror(error)) => Ok(Err(match *error {
                    MirrorError::Address(why) => ("mirror_of", why.to_string()),
                    other => ("mirror_of", other.to_string()),
                })),
                Err(error) => Ok(Err(("", error.to_string()))),
            }
        })
        .await?;
    match made {
        Ok(locator) => posted.redirect(&paths::database(&locator)),
        Err((field, why)) => {
            let page = fill(&posted, form.wrong(field, why)).await?;
            posted.refuse(page)
        }
    }
}
