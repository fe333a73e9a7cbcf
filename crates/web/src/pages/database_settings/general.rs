//! `/{owner}/{database}/settings`: name, description, default branch and visibility.

use askama::Template;
use branchyard_domain::access::{Admin, DatabaseAccess};
use branchyard_domain::entities::{DatabaseLocator, Visibility};
use branchyard_domain::usecases::{DatabaseView, EditDatabase};
use branchyard_domain::values::{DatabaseName, Description};
use branchyard_http_common::{HandlerError, audit};

use super::{DatabaseSettingsNav, DatabaseSettingsSection};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::{self, ConfirmQuestion};
use crate::paths;

const FIELDS: &[&str] = &["description", "default_branch", "visibility"];

#[derive(Template)]
#[template(path = "database_general.html")]
struct DatabaseGeneralPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    form: Filled,
    /// The form that renames the database.
    rename: Filled,
    /// The addresses that forward to the database.
    former: Vec<String>,
}

/// Returns the page around its two forms.
async fn page(
    visit: &PageContext,
    access: &DatabaseAccess<Admin>,
    frame: DatabaseFrame,
    form: Filled,
    rename: Filled,
) -> Result<impl FnOnce(LayoutContext) -> DatabaseGeneralPage + use<>, PageError> {
    let of = access.clone();
    let former = visit.read(move |hub| hub.databases().former_names(&of)).await?;
    let former = former.iter().map(ToString::to_string).collect();
    let sections = DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::General);
    Ok(move |shell| DatabaseGeneralPage { shell, frame, sections, form, rename, former })
}

/// Returns the form as the database is.
fn as_it_is(access: &DatabaseAccess<Admin>, frame: &DatabaseFrame) -> Filled {
    Filled::default()
        .with("description", frame.description.clone().unwrap_or_default())
        .with("default_branch", frame.default_branch.clone())
        .with("anonymous_sql", if access.database().anonymous_sql { "1" } else { "" })
        .with("version", access.database().version.to_string())
}

fn present_name(frame: &DatabaseFrame) -> Filled {
    Filled::default().with("name", frame.name.clone())
}

/// `GET /{owner}/{database}/settings`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let (form, rename) = (as_it_is(&access, &frame), present_name(&frame));
    let page = page(&visit, &access, frame, form, rename).await?;
    visit.page(page)
}

/// `POST /{owner}/{database}/settings/rename`
pub(crate) async fn rename(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut rename = posted.form.again();
    if let Some(name) = rename.checked("name", DatabaseName::parse(&posted.form.line("name"))) {
        let edit = EditDatabase { name: Some(name), ..EditDatabase::default() };
        match moved(&posted, &access, edit).await {
            Ok(locator) => {
                let said = format!("The database is now {locator}. Its old address leads here.");
                return posted.redirect_saying(&format!("{}/settings", paths::database(&locator)), &said);
            }
            Err(failure) => rename = rename.refused(failure, &["name"])?,
        }
    }
    let form = as_it_is(&access, &frame);
    let page = page(&posted, &access, frame, form, rename).await?;
    posted.refuse(page)
}

/// Renames or transfers a database. Returns its new address.
pub(super) async fn moved(
    posted: &FormPost,
    access: &DatabaseAccess<Admin>,
    edit: EditDatabase,
) -> Result<DatabaseLocator, HandlerError> {
    let of = access.clone();
    let view = posted.write(move |hub| hub.databases().edit(&of, edit, None)).await?;
    let (was, now) = (&access.database().locator, view.database.locator);
    if *was != now {
        audit::database_moved(&access.who().name, was, &now);
    }
    Ok(now)
}

/// `POST /{owner}/{database}/settings`
pub(crate) async fn edit(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut form = posted.form.again();
    if let Some(description) = form.checked("description", Description::parse(posted.form.text("description").trim())) {
        let edit = EditDatabase {
            description: Some(description),
            default_branch: Some(posted.form.line("default_branch")),
            visibility: None,
            anonymous_sql: Some(posted.form.is_checked("anonymous_sql")),
            ..EditDatabase::default()
        };
        let (version, of) = (posted.form.line("version"), access.clone());
        let edited = posted.write(move |hub| {
            let as_seen = |view: &DatabaseView| view.database.version.to_string() == version;
            hub.databases().edit(&of, edit, Some(&as_seen))
        });
        match edited.await {
            Ok(_) => return posted.redirect_saying(&format!("{}/settings", frame.path), "Settings saved."),
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let rename = present_name(&frame);
    let page = page(&posted, &access, frame, form, rename).await?;
    posted.refuse(page)
}

/// Maximum number of forks named when a database becomes private.
const FORKS: usize = 20;

async fn question(
    visit: &PageContext,
    access: &DatabaseAccess<Admin>,
    frame: &DatabaseFrame,
) -> Result<ConfirmQuestion, PageError> {
    let of = access.clone();
    let forks = visit.read(move |hub| hub.databases().forks(&of, None, FORKS + 1)).await?;
    Ok(asked(frame, &forks))
}

/// Lists the visible forks, which keep their visibility.
fn forks_stay(forks: &[DatabaseLocator]) -> String {
    let names: Vec<String> = forks.iter().take(FORKS).map(ToString::to_string).collect();
    let more = if forks.len() > FORKS { " and more" } else { "" };
    match names.is_empty() {
        true => "Existing forks keep their visibility; there are none that you can see.".to_owned(),
        false => format!("Existing forks keep their visibility. Forks you can see: {}{more}.", names.join(", ")),
    }
}

fn asked(frame: &DatabaseFrame, forks: &[DatabaseLocator]) -> ConfirmQuestion {
    let (title, text, button) = if frame.is_private {
        (
            "Make this database public?",
            "Anyone will be able to see, query and fork it with its full history: every commit reachable from its branches, tags, releases \
             and pull requests, including rows that were changed or deleted since, and its pull requests, comments and operations. Pull \
             requests from databases that aren't public are closed and their changes hidden, unless their authors agreed to make them public."
                .to_owned(),
            "Make public",
        )
    } else {
        (
            "Make this database private?",
            format!(
                "Only you, its collaborators and members of its organization will be able to see it. Its pull requests to other databases \
                 are closed, and changes that weren't merged are hidden there. {}",
                forks_stay(forks)
            ),
            "Make private",
        )
    };
    ConfirmQuestion {
        title: title.to_owned(),
        text,
        button,
        back: format!("{}/settings", frame.path),
        // The form states the new visibility, so that submitting it twice does not switch back.
        hidden: vec![("visibility", if frame.is_private { "public" } else { "private" }.to_owned())],
    }
}

/// `GET /{owner}/{database}/settings/visibility`
pub(crate) async fn ask_visibility(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let question = question(&visit, &access, &frame).await?;
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/settings/visibility`
pub(crate) async fn change_visibility(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    posted.confirmed(&format!("/{}/{}/settings/visibility", frame.owner, frame.name))?;
    let visibility = match posted.form.line("visibility").as_str() {
        "public" => Visibility::Public,
        "private" => Visibility::Private,
        _ => {
            let question = question(&posted, &access, &frame).await?;
            let form = Filled::default().wrong("", "Choose public or private.");
            return confirm::ask_again(&posted, frame, question, form);
        }
    };
    let edit = EditDatabase { visibility: Some(visibility), ..EditDatabase::default() };
    let of = access.clone();
    match posted.write(move |hub| hub.databases().edit(&of, edit, None)).await {
        Ok(_) => {
            let said = match visibility {
                Visibility::Public => "The database is now public.",
                Visibility::Private => "The database is now private.",
            };
            posted.redirect_saying(&format!("{}/settings", frame.path), said)
        }
        Err(failure) => {
            let question = question(&posted, &access, &frame).await?;
            let form = Filled::default().refused(failure, &[])?;
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}
