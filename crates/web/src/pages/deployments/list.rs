//! `/deployments/{owner}`: the deployments of an owner on which the viewer has a role.

use askama::Template;
use branchyard_deployments::DeploymentView;
use branchyard_deployments::access::Observe;
use branchyard_deployments::entities::RunState;
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::values::{DeploymentId, Usd};
use branchyard_domain::values::OwnerName;

use crate::deployment::{self, DeploymentStanding};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::money;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Deployments per page.
pub(crate) const PAGE: usize = 30;

const STATES: &[(&str, &str, Option<RunState>)] = &[
    ("All", "", None),
    ("Starting", "starting", Some(RunState::Starting)),
    ("Started", "started", Some(RunState::Started)),
    ("Stopping", "stopping", Some(RunState::Stopping)),
    ("Stopped", "stopped", Some(RunState::Stopped)),
];

struct DeploymentListRow {
    name: String,
    href: String,
    standing: DeploymentStanding,
    zone: String,
    size: String,
    hourly: String,
    so_far: String,
    created: Markup,
}

impl DeploymentListRow {
    fn of(view: &DeploymentView, so_far: Usd, now: branchyard_domain::values::Timestamp) -> Self {
        let (deployment, size) = (&view.deployment, &view.primary.size);
        Self {
            name: deployment.locator.name.to_string(),
            href: deployment::path_of(&deployment.locator),
            standing: DeploymentStanding::of(view.health()),
            zone: deployment.zone.clone(),
            size: format!("{}, {} GB", size.type_name, size.volume_gb),
            hourly: money::hourly(view.hourly_cost),
            so_far: money::dollars(so_far),
            created: format::when(deployment.created_at, now),
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/list.html")]
struct ListPage {
    shell: LayoutContext,
    owner: String,
    is_viewer: bool,
    states: Vec<(&'static str, String, bool)>,
    is_filtered: bool,
    rows: Vec<DeploymentListRow>,
    /// The address of the stream of the deployments that are about to change.
    watch: Option<String>,
    next: Option<String>,
}

/// Returns `true` if the viewer can list the deployments of the owner.
pub(crate) async fn is_visible(visit: &PageContext, owner: &OwnerName) -> Result<bool, PageError> {
    let (Some(user), owner) = (visit.caller.user().cloned(), owner.to_string()) else { return Ok(false) };
    let listed = visit.read(move |hub| match hub.deployments().list(&user, &owner, None, None, 1) {
        Ok(_) => Ok(true),
        Err(DeploymentError::NoSuchOwner(_)) => Ok(false),
        Err(other) => Err(other),
    });
    Ok(listed.await?)
}

/// `GET /deployments`
pub(crate) async fn mine(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    visit.redirect(&deployment::path_of_owner(user.name.as_str()))
}

/// `GET /deployments/{owner}?state=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    let sent = visit.segment("owner");
    let word = visit.parameter("state").unwrap_or_default();
    let state = STATES.iter().find(|(_, name, _)| *name == word).and_then(|(.., state)| *state);
    let before = visit.parameter("after").and_then(|id| DeploymentId::parse(&id).ok());
    let (caller, now, owner) = (visit.caller.clone(), visit.state.services.now(), sent.clone());
    let found = visit.read(move |hub| -> Result<_, DeploymentError> {
        let deployments = hub.deployments();
        let views = deployments.list(&user, &owner, state, before, PAGE + 1)?;
        let mut found = Vec::new();
        for view in views {
            let locator = &view.deployment.locator;
            let so_far = match deployments.access::<Observe>(&caller, locator.owner.as_str(), locator.name.as_str()) {
                Ok(access) => deployments.cost(&access, view.deployment.created_at, now)?.amount,
                // The deployment was deleted, or the viewer's role was removed, since it was listed.
                Err(DeploymentError::NoSuchDeployment(_)) => continue,
                Err(other) => return Err(other),
            };
            found.push((view, so_far));
        }
        Ok(found)
    });
    let mut found = found.await?;
    let stored = found.first().map(|(view, _)| view.deployment.locator.owner.to_string());
    let owner = stored.unwrap_or_else(|| sent.clone());
    let path = deployment::path_of_owner(&owner);
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| more).map(|(view, _)| view.deployment.id.to_string());
    let shown = if state.is_some() { word } else { String::new() };
    let next = last.map(|last| paths::with_query(&path, &[("state", &shown), ("after", &last)]));
    let rows: Vec<DeploymentListRow> =
        found.iter().map(|(view, so_far)| DeploymentListRow::of(view, *so_far, now)).collect();
    let watch = watch(&rows);
    let states = STATES.iter().map(|(label, name, _)| {
        let href = paths::with_query(&path, &[("state", name)]);
        (*label, href, *name == shown)
    });
    let states = states.collect();
    let is_viewer = visit.caller.user().is_some_and(|user| user.name.as_str().eq_ignore_ascii_case(&owner));
    let is_filtered = !shown.is_empty();
    visit.page(|shell| ListPage { shell, owner, is_viewer, states, is_filtered, rows, watch, next })
}

fn watch(rows: &[DeploymentListRow]) -> Option<String> {
    let mut moving = rows.iter().filter(|row| row.standing.is_moving);
    let first = moving.next()?;
    let others: Vec<(&str, &str)> = moving.map(|row| ("also", row.name.as_str())).collect();
    Some(paths::with_query(&format!("{}/live", first.href), &others))
}
