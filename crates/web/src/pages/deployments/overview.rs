//! `/deployments/{owner}/{deployment}`: the state of a deployment, and how to connect to it.

use askama::Template;
use branchyard_deployments::DeploymentView;
use branchyard_deployments::access::Observe;
use branchyard_deployments::entities::{Instance, RunState};
use branchyard_deployments::errors::DeploymentError;
use branchyard_domain::errors::{PortError, TokenError};
use branchyard_domain::values::{Timestamp, TokenExpiry};

use super::connect::Addresses;
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::{LayoutContext, never_stored};
use crate::money;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// A row in the table of instances.
struct InstanceListRow {
    id: String,
    what: String,
    standing: deployment::DeploymentStanding,
    size: String,
    hourly: String,
    address: String,
    restarts: u32,
    since: Option<Markup>,
}

impl InstanceListRow {
    fn of(instance: &Instance, now: Timestamp) -> Self {
        let size = &instance.size;
        Self {
            id: instance.id.to_string(),
            what: if instance.index == 0 { "Primary".to_owned() } else { format!("Replica {}", instance.index) },
            standing: deployment::DeploymentStanding::of(instance.health()),
            size: format!(
                "{}, {} CPU, {} GB memory, {} GB volume",
                size.type_name, size.cpus, size.memory_gb, size.volume_gb
            ),
            hourly: money::hourly(size.rate()),
            address: format!("{}:{}", instance.host.as_deref().unwrap_or("port"), instance.port),
            restarts: instance.restarts,
            since: instance.started_at.filter(|_| instance.state == RunState::Started).map(|at| format::when(at, now)),
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/overview.html")]
struct OverviewPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    addresses: Option<Addresses>,
    instances: Vec<InstanceListRow>,
    last_error: Option<String>,
    hourly: String,
    monthly: String,
    so_far: String,
    zone: String,
    version: Option<String>,
    databases: Vec<String>,
    /// The database that the deployment was cloned from: name, page and ref.
    origin: Option<(String, String, String)>,
    created_by: String,
    created: Markup,
    disabled: Option<(Markup, String)>,
    last_backup: Option<Markup>,
    role: &'static str,
    form: Filled,
    minted: Option<String>,
}

/// `GET /deployments/{owner}/{deployment}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = filled(&visit, Filled::default(), None).await?;
    visit.page(|shell| OverviewPage { shell, ..page })
}

async fn filled(visit: &PageContext, form: Filled, minted: Option<String>) -> Result<OverviewPage, PageError> {
    let (access, view, frame) = deployment::open::<Observe>(visit, DeploymentTab::Overview).await?;
    let (now, created_at) = (visit.state.services.now(), view.deployment.created_at);
    let read = visit.read(move |hub| -> Result<_, DeploymentError> {
        let instances = hub.deployments().instances(&access)?;
        Ok((instances, hub.deployments().cost(&access, created_at, now)?))
    });
    let (instances, cost) = read.await?;
    let addresses = Addresses::of(visit, &view).filter(|_| frame.is_started());
    let DeploymentView { deployment, role, hourly_cost, last_backup, .. } = view;
    let origin = deployment.origin.map(|origin| {
        let page = paths::with_query(&paths::database(&origin.database), &[("ref", origin.commit.as_str())]);
        (origin.database.to_string(), page, origin.reference)
    });
    Ok(OverviewPage {
        shell: LayoutContext::default(),
        addresses,
        instances: instances.iter().map(|instance| InstanceListRow::of(instance, now)).collect(),
        last_error: deployment.last_error,
        hourly: money::hourly(hourly_cost),
        monthly: money::dollars(hourly_cost.per_month()),
        so_far: money::dollars(cost.amount),
        zone: deployment.zone,
        version: deployment.database_version,
        databases: deployment.databases.iter().map(ToString::to_string).collect(),
        origin,
        created_by: deployment.created_by.to_string(),
        created: format::when(deployment.created_at, now),
        disabled: deployment.disabled.map(|(at, by)| (format::when(at, now), by.to_string())),
        last_backup: last_backup.map(|backup| format::when(backup.id.time(), now)),
        role: super::collaborators::role_name(role),
        frame,
        form,
        minted,
    })
}

/// `POST /deployments/{owner}/{deployment}/tokens`: creates a token. Only this response contains the secret.
pub(crate) async fn make_token(posted: FormPost) -> PageResult {
    let (access, view, _) = deployment::open::<Observe>(&posted, DeploymentTab::Overview).await?;
    posted.confirmed(&format!("/deployments/{}", view.deployment.locator))?;
    let user = access.who().clone();
    let name = format!("Deployment {}", view.deployment.locator);
    let minted = posted.write(move |hub| -> Result<_, PortError> {
        let secret = hub.tokens().mint();
        match hub.tokens().create(&user, &name, TokenExpiry::Days90, secret, None) {
            Ok(minted) => Ok(Ok(minted.secret)),
            Err(TokenError::Port(fault)) => Err(fault),
            Err(error) => Ok(Err(error.to_string())),
        }
    });
    match minted.await? {
        Ok(secret) => {
            let page = filled(&posted, Filled::default(), Some(secret.expose().to_owned())).await?;
            posted.page(|shell| OverviewPage { shell, ..page }).map(never_stored)
        }
        Err(why) => {
            let page = filled(&posted, Filled::default().wrong("", why), None).await?;
            posted.refuse(|shell| OverviewPage { shell, ..page })
        }
    }
}
