//! `/deployments/{owner}/{deployment}/settings`: the engine version, and starting, stopping and deleting the deployment.

use askama::Template;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::errors::DeploymentError;

use super::{DeploymentSettingsSection, sections};
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

#[derive(Template)]
#[template(path = "deployments/general.html")]
struct DeploymentGeneralPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    sections: Vec<(&'static str, String, bool)>,
    keeps_version: bool,
    current: Option<String>,
    available: Vec<String>,
    exposes_stats: bool,
    /// Whether the viewer may discard the data.
    may_discard: bool,
    form: Filled,
}

async fn filled(visit: &PageContext, form: Filled) -> Result<DeploymentGeneralPage, PageError> {
    let (access, view, frame) = deployment::open::<Observe>(visit, DeploymentTab::Settings).await?;
    let ((current, available), may_discard) = visit
        .read(move |hub| -> Result<_, DeploymentError> {
            Ok((hub.deployments().versions(&access)?, hub.deployments().may_discard(&access)?))
        })
        .await?;
    let sections = sections(&frame, DeploymentSettingsSection::General);
    let (keeps_version, exposes_stats) = (view.deployment.keeps_version, view.deployment.expose_stats);
    let shell = LayoutContext::default();
    Ok(DeploymentGeneralPage {
        shell,
        frame,
        sections,
        keeps_version,
        current,
        available,
        exposes_stats,
        may_discard,
        form,
    })
}

/// `GET …/settings`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = filled(&visit, Filled::default()).await?;
    visit.page(|shell| DeploymentGeneralPage { shell, ..page })
}

/// `POST …/settings`: turns engine upgrades in maintenance windows on or off.
pub(crate) async fn keep_version(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    let keep = posted.form.is_checked("keep");
    posted.write(move |hub| hub.deployments().keep_version(&access, keep, None)).await?;
    let said = match keep {
        true => "The engine won't be upgraded in maintenance windows.",
        false => "The engine will be upgraded in maintenance windows.",
    };
    posted.redirect_saying(&format!("{}/settings", frame.path), said)
}

/// `POST …/settings/leave`: removes the viewer's own role.
pub(crate) async fn leave(posted: FormPost) -> PageResult {
    let (access, view, _) = deployment::open::<Observe>(&posted, DeploymentTab::Settings).await?;
    let left = posted.write(move |hub| -> Result<_, DeploymentError> {
        match hub.deployments().leave(&access) {
            Ok(_) => Ok(true),
            Err(DeploymentError::Absent { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    });
    if left.await? {
        return posted.redirect_saying("/", &format!("You left {}.", view.deployment.locator));
    }
    let why = "Your role comes from the organization that owns this deployment. Leave the organization instead.";
    let page = filled(&posted, Filled::default().wrong("", why)).await?;
    posted.refuse(|shell| DeploymentGeneralPage { shell, ..page })
}
