//! `/{owner}/{database}/settings/transfer`: transfers the database to another owner after the user typed its name.

use askama::Template;
use branchyard_domain::access::Admin;
use branchyard_domain::usecases::EditDatabase;

use super::general;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::forks;
use crate::paths;

#[derive(Template)]
#[template(path = "database_transfer.html")]
struct DatabaseTransferPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
    /// The accounts that the form offers as new owners.
    owners: Vec<(String, String)>,
}

async fn page(
    visit: &PageContext,
    frame: DatabaseFrame,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> DatabaseTransferPage + use<>, PageError> {
    let mut owners = forks::owners(visit).await?;
    owners.retain(|(owner, _)| *owner != frame.owner);
    Ok(move |shell| DatabaseTransferPage { shell, frame, form, owners })
}

/// `GET /{owner}/{database}/settings/transfer`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let (_, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let page = page(&visit, frame, Filled::default()).await?;
    visit.page(page)
}

/// `POST /{owner}/{database}/settings/transfer`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut form = posted.form.again();
    let (name, owner) = (format!("{}/{}", frame.owner, frame.name), posted.form.line("owner"));
    posted.confirmed(&format!("/{name}/settings/transfer"))?;
    if posted.form.line("name") != name {
        form.fault("name", format!("Nothing was transferred. Type {name} to confirm."));
    } else if owner.is_empty() {
        form.fault("owner", "Choose the new owner.");
    } else {
        let edit = EditDatabase { owner: Some(owner), ..EditDatabase::default() };
        match general::moved(&posted, &access, edit).await {
            Ok(locator) => {
                let said = format!("The database is now {locator}. Its old address leads here.");
                return posted.redirect_saying(&paths::database(&locator), &said);
            }
            Err(failure) => form = form.refused(failure, &["owner"])?,
        }
    }
    let page = page(&posted, frame, form).await?;
    posted.refuse(page)
}
