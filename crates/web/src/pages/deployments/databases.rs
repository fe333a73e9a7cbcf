//! `/deployments/{owner}/{deployment}/databases`: the databases a deployment serves.

use askama::Template;
use branchyard_deployments::DeploymentView;
use branchyard_deployments::access::{DeploymentAccess, Manage, Observe};
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::values::ServedName;

use super::confirm;
use super::connect::Addresses;
use super::source;
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::ConfirmQuestion;

const FIELDS: &[&str] = &["name"];

struct ServedDatabaseRow {
    name: String,
    is_default: bool,
    size: String,
    url: Option<String>,
}

#[derive(Template)]
#[template(path = "deployments/databases.html")]
struct DatabasesPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    rows: Vec<ServedDatabaseRow>,
    form: Filled,
}

async fn filled(
    visit: &PageContext,
    access: DeploymentAccess<Observe>,
    view: &DeploymentView,
    frame: DeploymentFrame,
    form: Filled,
) -> Result<DatabasesPage, PageError> {
    let found = visit.read(move |hub| hub.deployments().databases(&access)).await?;
    let addresses = Addresses::of(visit, view).filter(|_| frame.is_started());
    let rows = found
        .into_iter()
        .map(|served| ServedDatabaseRow {
            url: addresses.as_ref().map(|addresses| addresses.of_database(served.name.as_str())),
            name: served.name.to_string(),
            is_default: served.is_default,
            size: format::size(served.size_bytes),
        })
        .collect();
    Ok(DatabasesPage { shell: LayoutContext::default(), frame, rows, form })
}

/// `GET …/databases`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, view, frame) = deployment::open::<Observe>(&visit, DeploymentTab::Databases).await?;
    let page = filled(&visit, access, &view, frame, Filled::default()).await?;
    visit.page(|shell| DatabasesPage { shell, ..page })
}

/// `POST …/databases`: adds an empty database, or a clone of a database on this server.
pub(crate) async fn add(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Databases).await?;
    let mut form = posted.form.again();
    let source = source::read(&posted.form, &mut form);
    let sent = match (posted.form.line("name"), &source) {
        (name, Some(Some(source))) if name.is_empty() => source.name.clone(),
        (name, _) => name,
    };
    let name = form.checked("name", ServedName::parse(&sent));
    if let (Some(name), Some(source)) = (name, source) {
        let made = posted.write(move |hub| -> Result<_, DeploymentError> {
            hub.deployments().add_database(&access, &name, source.as_ref(), None)
        });
        match made.await {
            Ok(made) => {
                let said = format!("Database {} added.", made.name);
                return posted.redirect_saying(&format!("{}/databases", frame.path), &said);
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let (access, view, frame) = deployment::open::<Observe>(&posted, DeploymentTab::Databases).await?;
    let page = filled(&posted, access, &view, frame, form).await?;
    posted.refuse(|shell| DatabasesPage { shell, ..page })
}

fn question(frame: &DeploymentFrame, name: &str) -> ConfirmQuestion {
    ConfirmQuestion {
        title: format!("Delete database {name}?"),
        text: "This permanently deletes its tables, branches and history. Existing backups keep a copy until they expire. If it \
               was cloned from a database on this server, that database is not affected."
            .to_owned(),
        button: "Delete database",
        back: format!("{}/databases", frame.path),
        hidden: Vec::new(),
    }
}

/// `GET …/databases/{database}/delete`
pub(crate) async fn ask_delete(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Databases).await?;
    let name = visit.segment("database");
    let found = visit.read(move |hub| hub.deployments().databases(&access)).await?;
    let found = found.into_iter().find(|served| served.name.as_str().eq_ignore_ascii_case(&name));
    let found = found.ok_or_else(PageError::nothing_here)?;
    let question = question(&frame, found.name.as_str());
    confirm::ask(&visit, frame, question)
}

/// `POST …/databases/{database}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Databases).await?;
    let name = posted.segment("database");
    let asked = name.clone();
    match posted.write_always(move |hub| hub.deployments().drop_database(&access, &asked)).await {
        Ok(gone) => {
            let said = format!("Database {} deleted.", gone.name);
            posted.redirect_saying(&format!("{}/databases", frame.path), &said)
        }
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            let question = question(&frame, &name);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}
