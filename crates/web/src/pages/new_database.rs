//! `/new`

use askama::Template;
use branchyard_domain::entities::Visibility;
use branchyard_domain::errors::{DatabaseError, PortError};
use branchyard_domain::usecases::NewDatabase;
use branchyard_domain::values::{DatabaseName, Description};

use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Organizations that the form offers as owners.
const OFFERED: usize = 100;

#[derive(Template)]
#[template(path = "new_database.html")]
struct NewDatabasePage {
    shell: LayoutContext,
    form: Filled,
    owners: Vec<String>,
}

async fn fill(
    visit: &PageContext,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> NewDatabasePage + use<>, PageError> {
    let user = visit.user()?;
    let mut owners = vec![user.name.to_string()];
    let views = visit.read(move |hub| hub.organizations().list(&user, None, OFFERED)).await?;
    owners.extend(views.into_iter().map(|view| view.organization.name.to_string()));
    Ok(move |shell| NewDatabasePage { shell, form, owners })
}

/// `GET /new?owner=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let owner = visit.parameter("owner").unwrap_or_default();
    let form = Filled::default().with("owner", owner).with("visibility", "public");
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
    let made = posted
        .write(move |hub| -> Result<_, PortError> {
            let wanted = NewDatabase { owner, name, visibility, description: Some(description), default_branch: None };
            match hub.databases().create(&user, wanted, None) {
                Ok(view) => Ok(Ok(view.database.locator)),
                Err(DatabaseError::Port(fault)) => Err(fault),
                Err(error @ DatabaseError::NameTaken(_)) => Ok(Err(("name", error.to_string()))),
                Err(error @ DatabaseError::MayNotCreateFor(_)) => Ok(Err(("owner", error.to_string()))),
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
