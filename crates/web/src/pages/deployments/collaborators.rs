//! `/deployments/{owner}/{deployment}/settings/collaborators`: users with a role on the deployment.

use askama::Template;
use branchyard_deployments::access::{DeploymentAccess, Manage};
use branchyard_deployments::entities::{DeploymentCollaborator, DeploymentRole};
use branchyard_http_common::ApiError;

use super::{DeploymentSettingsSection, sections};
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

const FIELDS: &[&str] = &["username", "role"];

/// The roles: names in forms, roles and labels.
const ROLES: &[(&str, DeploymentRole, &str)] = &[
    ("reader", DeploymentRole::Reader, "Reader: view and query data"),
    ("reader_and_pulls", DeploymentRole::ReaderAndPulls, "Reader and pull requests: also open pull requests"),
    ("writer", DeploymentRole::Writer, "Writer: also change data"),
    ("admin", DeploymentRole::Admin, "Admin: full access"),
];

/// Returns the name of a role.
pub(super) const fn role_name(role: DeploymentRole) -> &'static str {
    match role {
        DeploymentRole::Reader => "reader",
        DeploymentRole::ReaderAndPulls => "reader_and_pulls",
        DeploymentRole::Writer => "writer",
        DeploymentRole::Admin => "admin",
    }
}

fn role_named(name: &str) -> Result<DeploymentRole, &'static str> {
    let found = ROLES.iter().find(|(word, ..)| *word == name).map(|(_, role, _)| *role);
    found.ok_or("Choose a role from the list.")
}

struct DeploymentCollaboratorRow {
    name: String,
    role: &'static str,
    added: Markup,
}

#[derive(Template)]
#[template(path = "deployments/collaborators.html")]
struct DeploymentCollaboratorsPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    sections: Vec<(&'static str, String, bool)>,
    rows: Vec<DeploymentCollaboratorRow>,
    roles: Vec<(&'static str, &'static str)>,
    form: Filled,
}

async fn filled(
    visit: &PageContext,
    access: DeploymentAccess<Manage>,
    frame: DeploymentFrame,
    form: Filled,
) -> Result<DeploymentCollaboratorsPage, PageError> {
    let found = visit.read(move |hub| hub.deployments().collaborators(&access)).await?;
    let now = visit.state.services.now();
    let row = |one: &DeploymentCollaborator| DeploymentCollaboratorRow {
        name: one.username.to_string(),
        role: role_name(one.role),
        added: format::when(one.added_at, now),
    };
    let roles = ROLES.iter().map(|(name, _, text)| (*name, *text)).collect();
    let (rows, sections) =
        (found.iter().map(row).collect(), sections(&frame, DeploymentSettingsSection::Collaborators));
    Ok(DeploymentCollaboratorsPage { shell: LayoutContext::default(), frame, sections, rows, roles, form })
}

/// `GET …/settings/collaborators`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Settings).await?;
    let page = filled(&visit, access, frame, Filled::default().with("role", "reader")).await?;
    visit.page(|shell| DeploymentCollaboratorsPage { shell, ..page })
}

/// `POST …/settings/collaborators`: adds a collaborator or changes a role.
pub(crate) async fn put(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    let mut form = posted.form.again();
    let role = form.checked("role", role_named(&posted.form.line("role")));
    if let Some(role) = role {
        let (name, on) = (posted.form.line("username"), access.clone());
        let put = posted.write(move |hub| -> Result<_, ApiError> {
            let user = hub.people().user_named(&name)?;
            Ok(hub.deployments().put_collaborator(&on, &user, role)?)
        });
        match put.await {
            Ok((one, _)) => {
                let to = format!("{}/settings/collaborators", frame.path);
                let said = format!("{} now has the role {}.", one.username, role_name(one.role));
                return posted.redirect_saying(&to, &said);
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let page = filled(&posted, access, frame, form).await?;
    posted.refuse(|shell| DeploymentCollaboratorsPage { shell, ..page })
}

/// `POST …/settings/collaborators/remove`
pub(crate) async fn remove(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    let (name, on) = (posted.form.line("username"), access.clone());
    match posted.write_always(move |hub| hub.deployments().remove_collaborator(&on, &name)).await {
        Ok(one) => {
            let is_viewer = access.who().id == one.user_id;
            // A user who removes their own role may lose access to the settings.
            let to = if is_viewer { "/".to_owned() } else { format!("{}/settings/collaborators", frame.path) };
            posted.redirect_saying(&to, &format!("{} is no longer a collaborator.", one.username))
        }
        Err(failure) => {
            let form = Filled::default().with("role", "reader").refused(failure, &[])?;
            let page = filled(&posted, access, frame, form).await?;
            posted.refuse(|shell| DeploymentCollaboratorsPage { shell, ..page })
        }
    }
}
