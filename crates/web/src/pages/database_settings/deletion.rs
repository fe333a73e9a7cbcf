//! `/{owner}/{database}/settings/delete`: deletes the database after the user typed its name.

use askama::Template;
use branchyard_domain::access::Admin;

use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

#[derive(Template)]
#[template(path = "database_deletion.html")]
struct DatabaseDeletionPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
}

/// `GET /{owner}/{database}/settings/delete`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let (_, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    visit.page(|shell| DatabaseDeletionPage { shell, frame, form: Filled::default() })
}

/// `POST /{owner}/{database}/settings/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut form = posted.form.again();
    let name = format!("{}/{}", frame.owner, frame.name);
    posted.confirmed(&format!("/{name}/settings/delete"))?;
    if posted.form.line("name") == name {
        match posted.write_always(move |hub| hub.databases().delete(&access, None)).await {
            Ok(_) => return posted.redirect_saying("/", &format!("Database {name} deleted.")),
            Err(failure) => form = form.refused(failure, &[])?,
        }
    } else {
        form.fault("name", format!("Nothing was deleted. Type {name} to confirm."));
    }
    posted.refuse(|shell| DatabaseDeletionPage { shell, frame, form })
}
