//! The frame that the pages of one deployment share: name, state and tabs.

use branchyard_deployments::DeploymentView;
use branchyard_deployments::access::{DeploymentAccess, DeploymentLevel};
use branchyard_deployments::entities::{DeploymentLocator, DeploymentRole, Health, RunState};
use branchyard_deployments::errors::DeploymentError;
use branchyard_http_common::segment;

use crate::database::TabLink;
use crate::error_page::PageError;
use crate::page_context::PageContext;

/// The tabs of a deployment, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeploymentTab {
    Overview,
    Databases,
    Metrics,
    Logs,
    Backups,
    Operations,
    Cost,
    Settings,
}

impl DeploymentTab {
    const ALL: [Self; 8] = [
        Self::Overview,
        Self::Databases,
        Self::Metrics,
        Self::Logs,
        Self::Backups,
        Self::Operations,
        Self::Cost,
        Self::Settings,
    ];

    /// Returns the label and the path below the deployment's page.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("Overview", ""),
            Self::Databases => ("Databases", "/databases"),
            Self::Metrics => ("Metrics", "/metrics"),
            Self::Logs => ("Logs", "/logs"),
            Self::Backups => ("Backups", "/backups"),
            Self::Operations => ("Operations", "/operations"),
            Self::Cost => ("Cost", "/cost"),
            Self::Settings => ("Settings", "/settings"),
        }
    }
}

/// The health of a deployment as shown to users.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeploymentStanding {
    /// The label, one or two words.
    pub(crate) label: &'static str,
    /// The class in the style sheet.
    pub(crate) class: &'static str,
    /// Whether the health is expected to change without user action.
    pub(crate) is_moving: bool,
}

impl DeploymentStanding {
    pub(crate) fn of(health: Health) -> Self {
        let (label, class, is_moving) = match health {
            Health::Ok => ("Started", "good", false),
            Health::Starting => ("Starting", "runs", true),
            Health::CrashLoop => ("Crash loop", "bad", true),
            Health::DiskFull => ("Disk full", "bad", false),
            Health::Stopping => ("Stopping", "runs", true),
            Health::Stopped => ("Stopped", "over", false),
        };
        Self { label, class, is_moving }
    }
}

/// Returns the path of a deployment's page.
pub(crate) fn path_of(locator: &DeploymentLocator) -> String {
    format!("{}/{}", path_of_owner(locator.owner.as_str()), segment(locator.name.as_str()))
}

/// Returns the path of the list of an owner's deployments.
pub(crate) fn path_of_owner(owner: &str) -> String {
    format!("/deployments/{}", segment(owner))
}

/// The frame of every page of a deployment.
#[derive(Debug)]
pub(crate) struct DeploymentFrame {
    pub(crate) owner: String,
    pub(crate) name: String,
    /// The path of the deployment's page.
    pub(crate) path: String,
    pub(crate) standing: DeploymentStanding,
    /// The run state. `standing` refines it with the health.
    pub(crate) state: RunState,
    /// Whether the viewer can manage the deployment.
    pub(crate) may_manage: bool,
    active: DeploymentTab,
}

impl DeploymentFrame {
    fn new(view: &DeploymentView, active: DeploymentTab) -> Self {
        let locator = &view.deployment.locator;
        Self {
            owner: locator.owner.to_string(),
            name: locator.name.to_string(),
            path: path_of(locator),
            standing: DeploymentStanding::of(view.health()),
            state: view.deployment.state,
            may_manage: view.role >= DeploymentRole::Admin,
            active,
        }
    }

    pub(crate) fn tabs(&self) -> Vec<TabLink> {
        let link = |tab: DeploymentTab| {
            let (label, below) = tab.words();
            TabLink {
                label,
                href: format!("{}{below}", self.path),
                is_active: tab == self.active,
                count: String::new(),
            }
        };
        DeploymentTab::ALL.into_iter().map(link).collect()
    }

    /// Returns `true` if the deployment serves clients.
    pub(crate) fn is_started(&self) -> bool {
        self.state == RunState::Started
    }

    /// Returns `true` if the deployment is stopped; its data then exists as backups only.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state == RunState::Stopped
    }
}

/// Opens the deployment named in the path with access level `L`, and builds its frame with the given tab.
pub(crate) async fn open<L: DeploymentLevel>(
    visit: &PageContext,
    active: DeploymentTab,
) -> Result<(DeploymentAccess<L>, DeploymentView, DeploymentFrame), PageError> {
    let (caller, owner, name) = (visit.caller.clone(), visit.segment("owner"), visit.segment("deployment"));
    let opened = visit.read(move |hub| -> Result<_, DeploymentError> {
        let access = hub.deployments().access::<L>(&caller, &owner, &name)?;
        let view = hub.deployments().get(&access)?;
        Ok((access, view))
    });
    let (access, view) = opened.await?;
    let frame = DeploymentFrame::new(&view, active);
    Ok((access, view, frame))
}
