//! `/{owner}/{database}/settings/collaborators`: users with a role on the database.

use askama::Template;
use branchyard_domain::access::{Admin, DatabaseAccess};
use branchyard_domain::entities::{Collaborator, Role};
use branchyard_http_common::ApiError;

use super::{DatabaseSettingsNav, DatabaseSettingsSection};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::suggestions;

/// Collaborators per page.
const PAGE: usize = 50;
const FIELDS: &[&str] = &["username", "role"];

/// The roles: values and labels of the options.
pub(crate) const ROLES: &[(&str, &str)] = &[
    ("read", "Read: view and query data"),
    ("write", "Write: change data, branches and tags"),
    ("admin", "Admin: manage settings and access"),
];

/// Parses the name of a role.
pub(crate) fn role_named(name: &str) -> Result<Role, &'static str> {
    match name {
        "read" => Ok(Role::Read),
        "write" => Ok(Role::Write),
        "admin" => Ok(Role::Admin),
        _ => Err("Choose read, write or admin."),
    }
}

/// Returns the name of a role.
pub(crate) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Read => "read",
        Role::Write => "write",
        Role::Admin => "admin",
    }
}

struct DatabaseCollaboratorRow {
    name: String,
    role: &'static str,
    added: Markup,
}

#[derive(Template)]
#[template(path = "database_collaborators.html")]
struct DatabaseCollaboratorsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    rows: Vec<DatabaseCollaboratorRow>,
    roles: &'static [(&'static str, &'static str)],
    next: Option<String>,
    form: Filled,
    people: Vec<String>,
}

/// `GET /{owner}/{database}/settings/collaborators`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let page = filled(&visit, access, frame, Filled::default().with("role", "read")).await?;
    visit.page(|shell| DatabaseCollaboratorsPage { shell, ..page })
}

async fn filled(
    visit: &PageContext,
    access: DatabaseAccess<Admin>,
    frame: DatabaseFrame,
    form: Filled,
) -> Result<DatabaseCollaboratorsPage, PageError> {
    let after = visit.parameter("after").map(|name| name.to_ascii_lowercase());
    let mut found = visit.read(move |hub| hub.collaborators().list(&access, after.as_deref(), PAGE + 1)).await?;
    let here = format!("{}/settings/collaborators", frame.path);
    let next = paths::next_page(&mut found, PAGE, &here, |last| last.username.to_string());
    let now = visit.state.services.now();
    let row = |one: &Collaborator| DatabaseCollaboratorRow {
        name: one.username.to_string(),
        role: role_name(one.role),
        added: format::when(one.added_at, now),
    };
    let (rows, sections) =
        (found.iter().map(row).collect(), DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Collaborators));
    let (shell, people) = (LayoutContext::default(), suggestions::people(visit).await?);
    Ok(DatabaseCollaboratorsPage { shell, frame, sections, rows, roles: ROLES, next, form, people })
}

/// `POST /{owner}/{database}/settings/collaborators`: adds a collaborator or changes a role.
pub(crate) async fn put(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut form = posted.form.again();
    let role = form.checked("role", role_named(&posted.form.line("role")));
    if let Some(role) = role {
        let (name, on) = (posted.form.line("username"), access.clone());
        let put = posted.write(move |hub| -> Result<_, ApiError> {
            let user = hub.people().user_named(&name)?;
            Ok(hub.collaborators().put(&on, &user, role)?)
        });
        match put.await {
            Ok((one, _)) => {
                let to = format!("{}/settings/collaborators", frame.path);
                return posted
                    .redirect_saying(&to, &format!("{} now has the {} role.", one.username, role_name(one.role)));
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let page = filled(&posted, access, frame, form).await?;
    posted.refuse(|shell| DatabaseCollaboratorsPage { shell, ..page })
}

/// `POST /{owner}/{database}/settings/collaborators/remove`
pub(crate) async fn remove(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let (name, on) = (posted.form.line("username"), access.clone());
    match posted.write_always(move |hub| hub.collaborators().remove(&on, &name)).await {
        Ok(one) => {
            let is_viewer = posted.caller.user().is_some_and(|user| user.id == one.user_id);
            // A user who removes their own role may lose access to the settings.
            let to = if is_viewer { "/".to_owned() } else { format!("{}/settings/collaborators", frame.path) };
            posted.redirect_saying(&to, &format!("{} is no longer a collaborator.", one.username))
        }
        Err(failure) => {
            let form = Filled::default().with("role", "read").refused(failure, &[])?;
            let page = filled(&posted, access, frame, form).await?;
            posted.refuse(|shell| DatabaseCollaboratorsPage { shell, ..page })
        }
    }
}
