//! The head that the pages of one deployment share: name, state, tabs.

use branchyard_deployments::DeploymentView;
use branchyard_deployments::access::{DeploymentAccess, DeploymentLevel};
use branchyard_deployments::entities::{DeploymentLocator, DeploymentRole, Health, RunState};
use branchyard_deployments::errors::DeploymentError;
use branchyard_http_common::segment;

use crate::database::TabLink;
use crate::error_page::PageError;
use crate::page_context::PageContext;

/// The tabs of a deployment, in their order.
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

    /// Its label, and its path below that of the deployment.
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

/// Where a deployment stands, in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeploymentStanding {
    /// One or two words.
    pub(crate) label: &'static str,
    /// The same as a class of the style sheet.
    pub(crate) class: &'static str,
    /// Whether it will be another one soon, by itself.
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

/// The page of a deployment.
pub(crate) fn path_of(locator: &DeploymentLocator) -> String {
    format!("{}/{}", path_of_owner(locator.owner.as_str()), segment(locator.name.as_str()))
}

/// The page of the deployments of an owner.
pub(crate) fn path_of_owner(owner: &str) -> String {
    format!("/deployments/{}", segment(owner))
}

/// What is above the content of every page of a deployment.
#[derive(Debug)]
pub(crate) struct DeploymentFrame {
    /// Its owner.
    pub(crate) owner: String,
    /// Its name.
    pub(crate) name: String,
    /// Its page.
    pub(crate) path: String,
    /// Where it stands.
    pub(crate) standing: DeploymentStanding,
    /// Its state, which health refines.
    pub(crate) state: RunState,
    /// Whether the viewer may change it.
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

    /// The tabs.
    pub(crate) fn tabs(&self) -> Vec<TabLink> {
        let link = |tab: DeploymentTab| {
            let (label, below) = tab.words();
            TabLink { label, href: format!("{}{below}", self.path), is_active: tab == self.active }
        };
        DeploymentTab::ALL.into_iter().map(link).collect()
    }

    /// Whether it serves.
    pub(crate) fn is_started(&self) -> bool {
        self.state == RunState::Started
    }

    /// Whether it is down, its data a backup.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state == RunState::Stopped
    }
}

/// Access to the deployment of the path at level `L`, the deployment, and its head with this tab.
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
